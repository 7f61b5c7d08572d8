"""Tensors of a checkpoint in a file of torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch


def save_tensors(value: Any, path: Path) -> None:
    """Save `value` to the file `path`, for `torch.load`.

    Raises:
        RuntimeError: the file cannot be written. Its `__context__` is the `OSError` that was the cause.
    """
    # Given a path, torch writes by itself and reports a full disk as a position that it did not expect, without the cause.
    with path.open("wb") as file:
        torch.save(value, file)
