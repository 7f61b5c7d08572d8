"""Shapes: P prompts, G samples a prompt."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from rewards import NAN, REWARD_ADVANTAGES, advantage, all_scored, batches, lengths_like, plain_reward, repeatable, tensors

from verigym.trainer.advantages.group import centred, grpo, maxrl, opo, passk, rloo
from verigym.trainer.advantages.table import ADVANTAGES

ONE_OF_FOUR = [1.0, 0.0, 0.0, 0.0]
NAMES = [name for name in REWARD_ADVANTAGES if ADVANTAGES[name].location.startswith("group:")]


def naive(name: str, row: list[tuple[float, bool]], lengths: list[int]) -> list[float]:
    """The definition, one completion at a time."""
    scored = [abs(r) if name == "maxrl" else r for r, s in row if s]
    if len(set(scored)) < 2:
        return [0.0] * len(row)
    n, mean = len(scored), math.fsum(scored) / len(scored)
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in scored) / (n - 1))
    first, second = sorted(scored, reverse=True)[:2]
    weights = [length for length, (_, s) in zip(lengths, row, strict=True) if s]
    baseline = math.fsum(w * r for w, r in zip(weights, scored, strict=True)) / sum(weights)
    rest = iter(scored)
    values = []
    for _, s in row:
        if not s:
            values.append(0.0)
            continue
        r = next(rest)
        values.append(
            {
                "grpo": (r - mean) / (std + 1e-4),
                "centred": r - mean,
                "rloo": r - (math.fsum(scored) - r) / (n - 1),
                "maxrl": (r - mean) / mean if mean else 0.0,
                "passk": (first - second) / (std + 1e-6) if r == first else 0.0,
                "opo": r - baseline,
            }[name]
        )
    return values


# --- literals


@pytest.mark.parametrize(
    ("rewards", "ddof", "eps", "expected"),
    [
        (ONE_OF_FOUR, 1, 1e-4, [1.499700, -0.499900, -0.499900, -0.499900]),
        (ONE_OF_FOUR, 1, 1e-6, [1.499997, -0.499999, -0.499999, -0.499999]),
        (ONE_OF_FOUR, 0, 0.0, [1.732051, -0.577350, -0.577350, -0.577350]),
        ([1, 0, 1, 1, 0, 0, 1, 0], 0, 0.0, [1, -1, 1, 1, -1, -1, 1, -1]),
        ([1, 0, 1, 0], 1, 0.0, [0.866025, -0.866025, 0.866025, -0.866025]),
        ([2, 1, 0, 0], 1, 1e-4, [1.305446, 0.261089, -0.783268, -0.783268]),
    ],
)
def test_grpo_literals(rewards, ddof, eps, expected, assert_literal):
    assert_literal(grpo(*all_scored(rewards), ddof=ddof, eps=eps), [expected])


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (grpo, [1.499700, -0.499900, -0.499900, -0.499900]),  # by default ddof 1 and eps 1e-4
        (centred, [0.75, -0.25, -0.25, -0.25]),
        (rloo, [1.0, -0.333333, -0.333333, -0.333333]),
        (maxrl, [3.0, -1.0, -1.0, -1.0]),
        (passk, [1.999996, 0.0, 0.0, 0.0]),
        (opo, [0.875, -0.125, -0.125, -0.125]),
    ],
)
def test_one_of_four_literals(variant, expected, assert_literal):
    assert_literal(variant(*all_scored(ONE_OF_FOUR), lengths_PG=torch.tensor([[2, 4, 4, 6]])), [expected])


def test_each_group_is_its_own(assert_literal):
    actual = centred(*all_scored(ONE_OF_FOUR, [1, 1, 1, 0]))
    assert_literal(actual, [[0.75, -0.25, -0.25, -0.25], [0.25, 0.25, 0.25, -0.75]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", [0.707007, 0.0, -0.707007, 0.0]),  # std of [1, 0] is .707107, and eps is 1e-4
        ("centred", [0.5, 0.0, -0.5, 0.0]),
        ("rloo", [1.0, 0.0, -1.0, 0.0]),
        ("maxrl", [1.0, 0.0, -1.0, 0.0]),
        ("passk", [1.414212, 0.0, 0.0, 0.0]),
        ("opo", [0.75, 0.0, -0.25, 0.0]),
    ],
)
def test_unscored_leave_before_mean_and_std(name, expected, assert_literal):
    rewards_PG, scored_PG = tensors([[(1.0, True), (NAN, False), (0.0, True), (9.0, False)]])
    assert_literal(advantage(name, rewards_PG, scored_PG, torch.tensor([[2, 50, 6, 50]])), [expected])


# --- properties


@pytest.mark.parametrize("name", NAMES)
@repeatable
@given(rows=batches(plain_reward))
def test_parity_with_the_naive_loop(name, rows, assert_same):
    rewards_PG, scored_PG = tensors(rows)
    lengths = lengths_like(rewards_PG).tolist()
    expected = [naive(name, row, lengths[p]) for p, row in enumerate(rows)]
    assert_same(advantage(name, rewards_PG, scored_PG), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_split_of_the_prompts_changes_nothing(name, batch, assert_same):
    rewards_PG, scored_PG = batch("rewards", 4, 6), batch("scored", 4, 6) > -0.5
    lengths_PG = lengths_like(rewards_PG)
    halves = [advantage(name, *(t[i : i + 2] for t in (rewards_PG, scored_PG, lengths_PG))) for i in (0, 2)]
    assert_same(torch.cat(halves), advantage(name, rewards_PG, scored_PG, lengths_PG))


def test_equal_rewards_give_exactly_zero_without_eps():
    rewards_PG, scored_PG = all_scored([0.1] * 3, [0.0] * 3)
    for ddof in (0, 1):
        assert torch.equal(grpo(rewards_PG, scored_PG, ddof=ddof, eps=0.0), torch.zeros_like(rewards_PG))


def test_tiny_differences_without_eps_stay_finite():
    for tiny in (1e-300, 2e-12):
        rewards_PG, scored_PG = all_scored([0.0, tiny, 0.0])
        assert grpo(rewards_PG, scored_PG, eps=0.0).isfinite().all()


def test_huge_float32_rewards_do_not_overflow(assert_same):
    rewards_PG = torch.tensor([[3e38, 3e38, -3e38, -3e38]])
    actual = grpo(rewards_PG, torch.ones_like(rewards_PG, dtype=torch.bool), ddof=0)
    assert_same(actual, [[1.0, 1.0, -1.0, -1.0]])


def test_rloo_baseline_is_the_mean_of_the_others(batch, assert_same):
    rewards_PG = batch("rewards", 2, 5)
    others_PG = (rewards_PG.sum(dim=1, keepdim=True) - rewards_PG) / 4
    assert_same(rloo(rewards_PG, torch.ones(2, 5, dtype=torch.bool)), rewards_PG - others_PG)


def test_passk_credits_nobody_for_a_shared_first_place():
    rewards_PG, scored_PG = all_scored([1.0, 0.0, 1.0, 0.0])
    assert torch.equal(passk(rewards_PG, scored_PG), torch.zeros_like(rewards_PG))


def test_opo_with_equal_lengths_is_centred(batch, assert_same):
    rewards_PG, scored_PG = batch("rewards", 3, 5), torch.ones(3, 5, dtype=torch.bool)
    actual = opo(rewards_PG, scored_PG, lengths_PG=torch.full((3, 5), 7))
    assert_same(actual, centred(rewards_PG, scored_PG))


# --- errors


def test_maxrl_refuses_negative_rewards_that_are_scored():
    rewards_PG = torch.tensor([[1.0, -1.0, 0.0]])
    with pytest.raises(ValueError, match=r"a reward below 0 has no meaning here; shift the rewards"):
        maxrl(rewards_PG, torch.ones(1, 3, dtype=torch.bool))
    assert maxrl(rewards_PG, torch.tensor([[True, False, True]])).tolist() == [[1.0, 0.0, -1.0]]


@pytest.mark.parametrize(
    ("lengths_PG", "message"),
    [
        (None, "lengths_PG: opo weights rewards with .* got None"),
        (torch.ones(4), r"lengths_PG: expected shape \[1, 4\] like rewards_PG, got shape \[4\]"),
        (torch.tensor([[1, -2, 3, 4]]), "lengths_PG: a length is below 0"),
    ],
)
def test_opo_needs_lengths(lengths_PG, message):
    with pytest.raises(ValueError, match=message):
        opo(*all_scored(ONE_OF_FOUR), lengths_PG=lengths_PG)
