"""Randomness as a function of a key, without a state: a resumed run draws the same numbers as an uninterrupted one."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def keyed_int(*key: object) -> int:
    """Return an integer of 63 bits: the first bits of the sha256 of the parts of `key`, joined with `/`."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def keyed_uniforms(count: int, *key: object) -> torch.Tensor:
    """Return `count` uniform random numbers in [0, 1), as float64, that depend on `key` alone."""
    import torch  # here, so that drawing tasks does not import torch

    generator = torch.Generator().manual_seed(keyed_int(*key))
    return torch.rand(count, generator=generator, dtype=torch.float64)


def keyed_random(*key: object) -> random.Random:
    """Return a standard-library random generator that depends on `key` alone."""
    return random.Random(keyed_int(*key))
