"""Shapes: P prompts, G samples a prompt, R rewards a completion."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from rewards import NAN, REWARD_ADVANTAGES, advantage, all_scored, batches, plain_reward, repeatable, tensors

from verigym.trainer.advantages.batch import batch_std, gdpo, reinforce_pp, reinforce_pp_baseline
from verigym.trainer.advantages.group import grpo
from verigym.trainer.advantages.table import ADVANTAGES

NAMES = [name for name in REWARD_ADVANTAGES if ADVANTAGES[name].location.startswith("batch:")]
TWO_GROUPS = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0]]
FIRST, SECOND = [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]
TWO_REWARDS = torch.tensor([[FIRST, SECOND]], dtype=torch.float64).transpose(1, 2)
FOUR = torch.ones(1, 4, dtype=torch.bool)


def spread(values: list[float], ddof: int) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / max(1, len(values) - ddof))


def naive(name: str, rows: list[list[tuple[float, bool]]]) -> list[list[float]]:
    """The definition, one completion at a time."""
    scored = [r for row in rows for r, s in row if s]
    if len(set(scored)) < 2:
        return [[0.0] * len(row) for row in rows]
    overall, whole = spread(scored, 1 if name == "batch_std" else 0)
    if name == "reinforce++":
        return [[(r - overall) / (whole + 1e-8) if s else 0.0 for r, s in row] for row in rows]
    centred = []
    for row in rows:
        mine = [r for r, s in row if s]
        mean = math.fsum(mine) / len(mine) if len(set(mine)) > 1 else None
        centred.append([0.0 if mean is None or not s else r - mean for r, s in row])
    if name == "batch_std":
        return [[c / (whole + 1e-4) for c in row] for row in centred]
    rest = [c for row, places in zip(centred, rows, strict=True) for c, (_, s) in zip(row, places, strict=True) if s]
    return [[c / (spread(rest, 0)[1] + 1e-8) for c in row] for row in centred]


# --- literals


def test_batch_std_literals(assert_literal):
    expected = [[1.402859, -0.467620, -0.467620, -0.467620], [0.467620, 0.467620, 0.467620, -1.402859]]
    assert_literal(batch_std(*all_scored(*TWO_GROUPS)), expected)


def test_reinforce_pp_baseline_literals(assert_literal):
    expected = [[1.732051, -0.577350, -0.577350, -0.577350], [0.577350, 0.577350, 0.577350, -1.732051]]
    assert_literal(reinforce_pp_baseline(*all_scored(*TWO_GROUPS)), expected)


def test_reinforce_pp_literals(assert_literal):
    # Four of eight are right: mean and standard deviation are both .5.
    assert_literal(reinforce_pp(*all_scored(*TWO_GROUPS)), [[1, -1, -1, -1], [1, 1, 1, -1]])


def test_gdpo_literals(assert_literal):
    assert_literal(gdpo(TWO_REWARDS, FOUR, [1.0, 1.0]), [[1.332031, 0.206077, -0.769054, -0.769054]])
    summed = grpo(TWO_REWARDS.sum(dim=2), FOUR)
    assert_literal(summed, [[1.305446, 0.261089, -0.783268, -0.783268]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("batch_std", [[0.999800, 0.0, -0.999800, 0.0], [0.0, 0.0, 0.0, 0.0]]),  # rewards 1, 0, .5: mean .5, std .5
        ("reinforce++", [[1.224745, 0.0, -1.224745, 0.0], [0.0, 0.0, 0.0, 0.0]]),  # the same with ddof 0: std .408248
        ("reinforce++_baseline", [[1.224745, 0.0, -1.224745, 0.0], [0.0, 0.0, 0.0, 0.0]]),
    ],
)
def test_unscored_leave_before_mean_and_std(name, expected, assert_literal):
    rows = [[(1.0, True), (NAN, False), (0.0, True), (9.0, False)], [(7.0, False), (0.5, True), (NAN, False), (NAN, False)]]
    assert_literal(advantage(name, *tensors(rows)), expected)


# --- properties


@pytest.mark.parametrize("name", NAMES)
@repeatable
@given(rows=batches(plain_reward))
def test_parity_with_the_naive_loop(name, rows, assert_same):
    assert_same(advantage(name, *tensors(rows)), naive(name, rows))


def test_reinforce_pp_gives_an_equal_group_what_the_batch_says(assert_literal):
    assert_literal(reinforce_pp(*all_scored([1.0, 1.0], [0.0, 0.0])), [[1, 1], [-1, -1]])


def test_gdpo_of_one_reward_is_its_group_norm_whitened(batch, assert_same):
    rewards_PG, scored_PG = batch("rewards", 3, 5), batch("scored", 3, 5) > -0.7
    normal_PG = grpo(rewards_PG, scored_PG, eps=0.0)
    whitened_PG = normal_PG / normal_PG[scored_PG].std()
    assert_same(gdpo(rewards_PG[:, :, None], scored_PG, [2.0], eps=0.0), whitened_PG)


def test_gdpo_keeps_what_a_sum_forgets():
    # Every completion has one of the two rewards: the plain sum cannot tell them apart, the weights can.
    rewards_PGR = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
    assert (grpo(rewards_PGR.sum(dim=2), FOUR) == 0).all()
    actual = gdpo(rewards_PGR, FOUR, [2.0, 1.0])
    assert (actual[0, [0, 2]] > 0).all() and (actual[0, [1, 3]] < 0).all()


def test_gdpo_gives_exactly_zero_to_a_group_of_equal_rewards():
    rewards_PGR = torch.cat([torch.full((1, 4, 2), 0.1, dtype=torch.float64), TWO_REWARDS])
    actual = gdpo(rewards_PGR, torch.ones(2, 4, dtype=torch.bool), torch.tensor([0.7, 0.3]))
    assert (actual[0] == 0).all() and (actual[1] != 0).all()


def test_gdpo_ignores_the_unscored(assert_literal):
    padded = torch.cat([TWO_REWARDS, torch.full((1, 2, 2), NAN)], dim=1)
    scored_PG = torch.tensor([[True] * 4 + [False] * 2])
    assert_literal(gdpo(padded, scored_PG, [1.0, 1.0]), [[1.332031, 0.206077, -0.769054, -0.769054, 0.0, 0.0]])


def test_gdpo_derivative_in_the_rewards(batch):
    scored_PG = batch("scored", 2, 4) > -1.0
    assert torch.autograd.gradcheck(lambda r: gdpo(r, scored_PG, [1.0, 0.5]), (batch("rewards", 2, 4, 2).requires_grad_(),))


# --- errors


@pytest.mark.parametrize(
    ("rewards_PGR", "weights", "message"),
    [
        (torch.zeros(1, 4), [1.0], r"rewards_PGR: expected 3 axes \[P, G, R\], got shape \[1, 4\]"),
        (torch.zeros(1, 4, 2), [1.0], r"weights_R: expected 2 finite numbers, one a reward, got \[1.0\]"),
        (torch.zeros(1, 4, 2), [1.0, NAN], "weights_R: expected 2 finite numbers"),
        (torch.full((1, 4, 1), NAN), [1.0], "a scored reward is nan or infinite"),
    ],
)
def test_gdpo_bad_arguments(rewards_PGR, weights, message):
    with pytest.raises(ValueError, match=message):
        gdpo(rewards_PGR, FOUR, weights)
