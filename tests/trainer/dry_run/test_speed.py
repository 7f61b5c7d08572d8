"""Lengths of completions and times of a run as arithmetic: tokens and seconds by hand."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.formulas import Lengths
from verigym.trainer.dry_run.speed import DecodingCosts, Speed, Tokens, completion_lengths, decoding_costs, evaluations


def config(**fields: Any) -> TrainConfig:
    base: dict[str, Any] = {
        "model": "m",
        "output": Path("o"),
        "sources": (SourceConfig(environment="arithmetic"),),
        "prompts_per_step": 2,
        "group_size": 4,
    }
    return TrainConfig(**base | fields)


def test_lengths_that_all_ended_are_repeated() -> None:
    assert completion_lengths([3, 5, 4], [False] * 3, 20, 5) == [3, 5, 4, 3, 5]


def test_completions_that_never_end_are_as_long_as_the_limit() -> None:
    assert completion_lengths([48, 48], [True, True], 512, 3) == [512] * 3


def test_what_was_cut_off_goes_on_as_the_others_ended() -> None:
    """Four of five ended within 40 tokens, so one token in 10 is a last one."""
    observed, cut = [10, 10, 10, 5, 5], [False, False, False, False, True]
    long = completion_lengths(observed, cut, 100_000, 5000)
    assert fmean(long) == pytest.approx((35 + 5 + 10) / 5, rel=0.01)
    assert set(long[:4]) == {10, 5} and min(long[4::5]) >= 5
    short = completion_lengths(observed, cut, 12, 5000)
    assert max(short) == 12
    assert fmean(short) == pytest.approx((35 + 5 + 10 * (1 - math.exp(-0.7))) / 5, rel=0.02)


@pytest.mark.parametrize("rows", [(8, 16, 128), (1, 2, 3, 4, 9)])
def test_the_costs_of_decoding_come_back(rows: tuple[int, ...]) -> None:
    costs = DecodingCosts(0.05, 0.01, 0.0002)
    samples = [(count, position, costs.of(count, position)) for count in rows for position in range(1, 90)]
    assert decoding_costs(samples) == pytest.approx(costs, rel=0.15)
    assert costs.of(8, 10) == pytest.approx(0.05 + 8 * 0.01 + 80 * 0.0002)


def test_one_slow_step_does_not_count() -> None:
    samples = [(8, 4, 0.13)] * 5 + [(8, 4, 9.0)] + [(64, 4, 0.69)] * 3
    assert decoding_costs(samples) == pytest.approx((0.05, 0.01, 0.0), abs=1e-9)


def test_no_cost_of_decoding_is_negative() -> None:
    assert decoding_costs([]) == (0.0, 0.0, 0.0)
    one = decoding_costs([(8, 4, 0.4)])
    assert one.of(8, 4) == pytest.approx(0.4)
    falling = decoding_costs([(8, 4, 0.4), (16, 4, 0.3)])
    assert falling[1:] == (0.0, 0.0) and 0.3 < falling.step_s < 0.4
    steep = decoding_costs([(8, 4, 0.1), (16, 4, 0.4)])
    assert steep.step_s == 0 and 0.1 < steep.of(8, 4) < steep.of(16, 4) < 0.4


def test_times_by_hand() -> None:
    speed = Speed(0.1, DecodingCosts(0.5, 0.2, 0.01), trained_token_s=0.3, update_s=2.0)
    work = Tokens(30, 20, decode_steps=6, attended=50)
    assert speed.generate(work) == pytest.approx(30 * 0.1 + 6 * 0.5 + 20 * 0.2 + 50 * 0.01)
    assert speed.generate(Tokens(30, 20, rounds=3)) == pytest.approx(3 * 7), "drawn again until there is a signal"
    assert speed.update(Tokens(30, 20), config()) == pytest.approx(2 + 50 * 0.3)
    assert Tokens(30, 20).trained(config(shared_prefix=False)) == 4 * 30 + 20, "a prompt runs with each of its 4 completions"


def test_decoding_takes_as_many_steps_as_the_longest_completion_or_as_fit() -> None:
    lengths = Lengths((5, 7), ((3, 10), (4, 3)))
    before = 3 + 45 + 6 + 3  # 0 + 1 + 2 tokens come before those of the first, and so on
    assert Tokens.of(lengths, 512) == Tokens(12, 20, 1.0, 10, before)
    assert Tokens.of(lengths, 1).decode_steps == 20, "one after the other"


@pytest.mark.parametrize(("steps", "every", "expected"), [(100, 50, 3), (101, 50, 4), (10, 50, 2), (100, 0, 0)])
def test_evaluations_are_counted(steps: int, every: int, expected: int) -> None:
    assert evaluations(config(steps=steps, eval_every=every)) == expected
