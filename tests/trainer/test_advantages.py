"""Shapes: P prompts, G samples a prompt."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.trainer.advantages import ADVANTAGES, centred, grpo, rloo

ONE_OF_FOUR = [1.0, 0.0, 0.0, 0.0]
NAN = math.nan

any_reward = st.one_of(st.sampled_from([0.0, 0.1, 0.3, 1.0, -1.0]), st.floats(-1e6, 1e6, width=32))
masked = st.sampled_from([NAN, math.inf, -math.inf, 0.0, 1e30])
# Steps of 1/20 only: two rewards of 1e6 that differ in the last digit have no digits left to compare after centring.
plain_reward = st.integers(-40, 40).map(lambda n: n / 20)
repeatable = settings(max_examples=60, deadline=None, derandomize=True)


def groups(reward: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[tuple[float, bool]]]]:
    slot = st.one_of(reward.map(lambda r: (r, True)), masked.map(lambda r: (r, False)))
    return st.integers(1, 6).flatmap(lambda g: st.lists(st.lists(slot, min_size=g, max_size=g), min_size=1, max_size=4))


def tensors(rows: list[list[tuple[float, bool]]], dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.tensor([[r for r, _ in row] for row in rows], dtype=dtype),
        torch.tensor([[s for _, s in row] for row in rows]),
    )


def all_scored(*rows: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
    rewards_PG = torch.tensor(rows, dtype=torch.float64)
    return rewards_PG, torch.ones_like(rewards_PG, dtype=torch.bool)


def naive(name: str, row: list[tuple[float, bool]], ddof: int = 1, eps: float = 1e-4) -> list[float]:
    """The definition, one completion at a time."""
    scored = [r for r, s in row if s]
    if len(set(scored)) < 2:
        return [0.0] * len(row)
    n, mean = len(scored), math.fsum(scored) / len(scored)
    std = math.sqrt(math.fsum((r - mean) ** 2 for r in scored) / (n - ddof))
    factor = {"grpo": 1 / (std + eps), "centred": 1.0, "rloo": n / (n - 1)}[name]
    return [(r - mean) * factor if s else 0.0 for r, s in row]


# --- literals: arXiv 2402.03300, 2503.20783 and 2402.14740 by hand


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


def test_grpo_defaults_are_ddof_1_and_eps_1e_4(assert_literal):
    assert_literal(grpo(*all_scored(ONE_OF_FOUR)), [[1.499700, -0.499900, -0.499900, -0.499900]])


def test_centred_literals(assert_literal):
    assert_literal(centred(*all_scored(ONE_OF_FOUR)), [[0.75, -0.25, -0.25, -0.25]])


def test_rloo_literals(assert_literal):
    assert_literal(rloo(*all_scored(ONE_OF_FOUR)), [[1, -0.333333, -0.333333, -0.333333]])


def test_each_group_is_its_own(assert_literal):
    actual = centred(*all_scored(ONE_OF_FOUR, [1, 1, 1, 0]))
    assert_literal(actual, [[0.75, -0.25, -0.25, -0.25], [0.25, 0.25, 0.25, -0.75]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grpo", [0.707007, 0.0, -0.707007, 0.0]),  # std of [1, 0] is .707107, and eps is 1e-4
        ("centred", [0.5, 0.0, -0.5, 0.0]),
        ("rloo", [1.0, 0.0, -1.0, 0.0]),
    ],
)
def test_unscored_leave_before_mean_and_std(name, expected, assert_literal):
    rewards_PG, scored_PG = tensors([[(1.0, True), (NAN, False), (0.0, True), (9.0, False)]])
    assert_literal(ADVANTAGES[name](rewards_PG, scored_PG), [expected])


# --- properties


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 64])
def test_equal_rewards_give_exactly_zero(name, dtype, size):
    values = torch.tensor([0.1, 0.3, 1 / 3, 1e-30, -7.7, 1e30], dtype=dtype)
    rewards_PG = values[:, None].repeat(1, size)
    scored_PG = torch.ones_like(rewards_PG, dtype=torch.bool)
    assert torch.equal(ADVANTAGES[name](rewards_PG, scored_PG), torch.zeros_like(rewards_PG))


def test_equal_rewards_give_exactly_zero_without_eps():
    rewards_PG, scored_PG = all_scored([0.1] * 3, [0.0] * 3)
    for ddof in (0, 1):
        assert torch.equal(grpo(rewards_PG, scored_PG, ddof=ddof, eps=0.0), torch.zeros_like(rewards_PG))


def test_tiny_differences_without_eps_stay_finite():
    rewards_PG, scored_PG = all_scored([0.0, 1e-300, 0.0])
    assert grpo(rewards_PG, scored_PG, eps=0.0).isfinite().all()


def test_huge_float32_rewards_do_not_overflow(assert_same):
    rewards_PG = torch.tensor([[3e38, 3e38, -3e38, -3e38]])
    actual = grpo(rewards_PG, torch.ones_like(rewards_PG, dtype=torch.bool), ddof=0)
    assert_same(actual, [[1.0, 1.0, -1.0, -1.0]])


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
@pytest.mark.parametrize("scored", [[False] * 3, [False, True, False]])
def test_fewer_than_two_scored_give_zero(name, scored):
    rewards_PG = torch.tensor([[NAN, 5.0, math.inf]])
    assert ADVANTAGES[name](rewards_PG, torch.tensor([scored])).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty_batch(name, shape):
    rewards_PG = torch.zeros(shape)
    assert ADVANTAGES[name](rewards_PG, torch.ones(shape, dtype=torch.bool)).shape == shape


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
@repeatable
@given(rows=groups(any_reward), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_finite_and_zero_where_unscored(name, rows, dtype):
    rewards_PG, scored_PG = tensors(rows, dtype)
    actual_PG = ADVANTAGES[name](rewards_PG, scored_PG)
    assert actual_PG.dtype == dtype
    assert actual_PG.isfinite().all()
    assert (actual_PG[~scored_PG] == 0).all()


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
@repeatable
@given(rows=groups(plain_reward))
def test_parity_with_the_naive_loop(name, rows, assert_same):
    rewards_PG, scored_PG = tensors(rows)
    assert_same(ADVANTAGES[name](rewards_PG, scored_PG), [naive(name, row) for row in rows])


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
def test_order_and_split_change_nothing(name, batch, assert_same):
    rewards_PG = batch("rewards", 4, 6)
    scored_PG = batch("scored", 4, 6) > -0.5
    advantage = ADVANTAGES[name]
    whole_PG = advantage(rewards_PG, scored_PG)
    prompts, samples = torch.tensor([2, 0, 3, 1]), torch.tensor([5, 1, 0, 4, 2, 3])
    shuffled_PG = advantage(rewards_PG[prompts][:, samples], scored_PG[prompts][:, samples])
    assert_same(shuffled_PG, whole_PG[prompts][:, samples])
    halves = [advantage(rewards_PG[i : i + 2], scored_PG[i : i + 2]) for i in (0, 2)]
    assert_same(torch.cat(halves), whole_PG)


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
def test_padding_a_group_with_unscored_changes_nothing(name, batch, assert_same):
    rewards_PG = batch("rewards", 3, 4)
    scored_PG = torch.ones(3, 4, dtype=torch.bool)
    padded_PG = torch.cat([rewards_PG, torch.full((3, 2), NAN)], dim=1)
    padded_scored_PG = torch.cat([scored_PG, torch.zeros(3, 2, dtype=torch.bool)], dim=1)
    assert_same(ADVANTAGES[name](padded_PG, padded_scored_PG)[:, :4], ADVANTAGES[name](rewards_PG, scored_PG))


def test_each_sums_to_zero_and_ignores_a_shift(batch, assert_same):
    rewards_PG, scored_PG = batch("rewards", 3, 5), torch.ones(3, 5, dtype=torch.bool)
    for advantage in ADVANTAGES.values():
        actual_PG = advantage(rewards_PG, scored_PG)
        assert_same(actual_PG.sum(dim=1), torch.zeros(3))
        assert_same(advantage(rewards_PG + 10.0, scored_PG), actual_PG)


def test_rloo_baseline_is_the_mean_of_the_others(batch, assert_same):
    rewards_PG = batch("rewards", 2, 5)
    others_PG = (rewards_PG.sum(dim=1, keepdim=True) - rewards_PG) / 4
    assert_same(rloo(rewards_PG, torch.ones(2, 5, dtype=torch.bool)), rewards_PG - others_PG)


# --- gradients


def test_derivative_in_the_rewards():
    rewards_PG, scored_PG = tensors([[(1.0, True), (0.2, True), (0.0, False), (0.5, True)]])
    rewards_PG.requires_grad_()
    for advantage in ADVANTAGES.values():
        assert torch.autograd.gradcheck(lambda r, f=advantage: f(r, scored_PG), (rewards_PG,))


# --- errors


@pytest.mark.parametrize("name", sorted(ADVANTAGES))
@pytest.mark.parametrize(
    ("rewards_PG", "scored_PG", "message"),
    [
        (torch.zeros(4), torch.ones(4, dtype=torch.bool), r"rewards_PG: expected 2 axes \[P, G\], got shape \[4\]"),
        (torch.zeros(2, 3), torch.ones(3, 2, dtype=torch.bool), r"scored_PG: expected shape \[2, 3\]"),
        (torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool), "rewards_PG: expected a floating"),
        (torch.zeros(2, 3), torch.ones(2, 3), "scored_PG: expected a bool tensor, got torch.float32"),
        (torch.tensor([[0.0, NAN]]), torch.ones(1, 2, dtype=torch.bool), "a scored reward is nan or infinite"),
    ],
)
def test_bad_tensors(name, rewards_PG, scored_PG, message):
    with pytest.raises(ValueError, match=message):
        ADVANTAGES[name](rewards_PG, scored_PG)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"ddof": 2}, "ddof: expected 0"), ({"eps": -1e-4}, "eps: expected"), ({"eps": NAN}, "eps: expected")],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        grpo(*all_scored(ONE_OF_FOUR), **options)
