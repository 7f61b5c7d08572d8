"""Randomness is keyed by a hash: neighbours share nothing, and no version of ours may change what a key draws."""

from __future__ import annotations

import random

import torch

from verigym.trainer.rng import keyed_int, keyed_random, keyed_uniforms

KEYED = 7_353_974_339_621_800_469
"""The first 8 bytes of sha256(b"train/0/1") as a big-endian integer, shifted right by one."""


def test_literal_values() -> None:
    assert keyed_int("train", 0, 1) == KEYED
    assert keyed_random("train", 0, 1).random() == random.Random(KEYED).random()


def test_the_parts_of_a_key_are_told_apart() -> None:
    assert keyed_int("a", 11) != keyed_int("a", 1, 1)
    assert keyed_int(1, 2) != keyed_int(2, 1)
    assert keyed_int(1) == keyed_int("1")


def test_neighbouring_keys_share_nothing() -> None:
    assert len({keyed_int(seed, step) for seed in range(50) for step in range(50)}) == 2500
    # Seeds that are added would make row g + 1 of one run row g of the next.
    rows = [keyed_uniforms(64, "run", row) for row in range(30)]
    values = torch.cat(rows)
    assert len(values.unique()) == len(values)
    correlations = torch.corrcoef(torch.stack(rows)) - torch.eye(30, dtype=torch.float64)
    assert correlations.abs().max() < 0.6


def test_uniforms_are_uniform_and_longer_draws_begin_alike() -> None:
    values = keyed_uniforms(20_000, "uniform")
    assert values.dtype == torch.float64
    assert 0 <= values.min() and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.var() - 1 / 12) < 0.005
    assert torch.equal(keyed_uniforms(5, "x", 1), keyed_uniforms(9, "x", 1)[:5])


def test_the_global_state_is_neither_read_nor_moved() -> None:
    torch.manual_seed(1)
    random.seed(1)
    before, first = torch.random.get_rng_state(), keyed_uniforms(4, "state")
    standard = random.getstate()
    keyed_random("state").random()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert random.getstate() == standard
    torch.manual_seed(2)
    assert torch.equal(keyed_uniforms(4, "state"), first)
