"""Lengths of completions and times of a run as arithmetic: tokens and seconds by hand."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from verigym.trainer.config.run import SourceConfig, TrainConfig
from verigym.trainer.dry_run.formulas import Lengths
from verigym.trainer.dry_run.speed import Speed, Tokens, completion_lengths, decoding_costs, evaluations


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
    step_s, row_s = decoding_costs([(count, 0.05 + 0.01 * count) for count in rows])
    assert (step_s, row_s) == (pytest.approx(0.05, rel=0.1), pytest.approx(0.01, rel=0.1))


def test_one_slow_step_does_not_count() -> None:
    samples = [(8, 0.13)] * 5 + [(8, 9.0)] + [(64, 0.69)] * 3
    assert decoding_costs(samples) == (pytest.approx(0.05), pytest.approx(0.01))


def test_no_cost_of_decoding_is_negative() -> None:
    assert decoding_costs([]) == (0.0, 0.0)
    assert decoding_costs([(8, 0.4)]) == (0.0, pytest.approx(0.05)), "one number of rows says nothing about a step itself"
    step_s, row_s = decoding_costs([(8, 0.4), (16, 0.3)])
    assert row_s == 0 and 0.3 < step_s < 0.4
    step_s, row_s = decoding_costs([(8, 0.1), (16, 0.4)])
    assert step_s == 0 and 0.1 / 8 < row_s < 0.4 / 16


def test_times_by_hand() -> None:
    speed = Speed(prompt_token_s=0.1, decode_step_s=0.5, completion_token_s=0.2, trained_token_s=0.3, update_s=2.0)
    assert speed.generate(Tokens(30, 20, decode_steps=6)) == pytest.approx(30 * 0.1 + 6 * 0.5 + 20 * 0.2)
    assert speed.generate(Tokens(30, 20, rounds=3)) == pytest.approx(3 * 7), "drawn again until there is a signal"
    assert speed.update(Tokens(30, 20), config()) == pytest.approx(2 + 50 * 0.3)
    assert Tokens(30, 20).trained(config(shared_prefix=False)) == 4 * 30 + 20, "a prompt runs with each of its 4 completions"


def test_decoding_takes_as_many_steps_as_the_longest_completion_or_as_fit() -> None:
    lengths = Lengths((5, 7), ((3, 10), (4, 3)))
    assert Tokens.of(lengths, 512) == Tokens(12, 20, 1.0, 10)
    assert Tokens.of(lengths, 1).decode_steps == 20, "one after the other"


@pytest.mark.parametrize(("steps", "every", "expected"), [(100, 50, 3), (101, 50, 4), (10, 50, 2), (100, 0, 0)])
def test_evaluations_are_counted(steps: int, every: int, expected: int) -> None:
    assert evaluations(config(steps=steps, eval_every=every)) == expected
