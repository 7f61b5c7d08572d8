"""What all advantages share. Shapes: P prompts, G samples a prompt."""

from __future__ import annotations

import functools
import math
import operator

import pytest
import torch
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from rewards import NAN, REWARD_ADVANTAGES, advantage, any_reward, batches, lengths_like, repeatable, tensors

from verigym.trainer.advantages.table import ADVANTAGES, GROUPLESS

NAMES = REWARD_ADVANTAGES
GROUP_RELATIVE = sorted(set(NAMES) - {"reinforce++"})


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


@pytest.mark.parametrize("name", NAMES)
def test_entries_say_what_their_functions_do(name):
    """`needs_group`: one completion a prompt gives only zeros; `negative_rewards`: rewards below 0 are taken."""
    rewards_PG = torch.tensor([[1.0], [0.0], [0.5]], dtype=torch.float64)
    entry = ADVANTAGES[name]
    alone_PG = entry.function(rewards_PG, ones(3, 1), lengths_PG=lengths_like(rewards_PG))
    assert bool((alone_PG == 0).all()) is entry.needs_group is (name not in GROUPLESS)
    below_PG = torch.tensor([[-1.0, 0.0]], dtype=torch.float64)
    try:
        entry.function(below_PG, ones(1, 2), lengths_PG=lengths_like(below_PG))
        assert entry.negative_rewards
    except ValueError as error:
        assert "below 0" in str(error) and not entry.negative_rewards


@cases("name", NAMES)
@cases("dtype", [torch.float32, torch.float64])
@cases("size", [1, 2, 3, 6, 7, 64])
def test_equal_rewards_give_exactly_zero(name, dtype, size):
    for value in (0.0, 0.1, 0.3, 1 / 3, 1e-30, -7.7, 1e30):
        rewards_PG = torch.full((2, size), value, dtype=dtype)
        assert torch.equal(advantage(name, rewards_PG, ones(2, size)), torch.zeros_like(rewards_PG))


@pytest.mark.parametrize("name", GROUP_RELATIVE)
def test_a_group_of_equal_rewards_gives_exactly_zero_beside_one_that_differs(name):
    rewards_PG = torch.tensor([[0.1] * 3, [1.0, 0.0, 0.3], [7.3] * 3], dtype=torch.float64)
    actual_PG = advantage(name, rewards_PG, ones(3, 3))
    assert torch.equal(actual_PG[[0, 2]], torch.zeros(2, 3, dtype=torch.float64))
    assert (actual_PG[1] != 0).any()


@cases("name", NAMES)
@cases(
    "row",
    [
        [0.1 + 0.2, 0.3, 0.3],
        [0.7 + 0.1, 0.8, 0.9 - 0.1],
        [1.0 - 0.9 - 0.1, 0.0, 0.0],
        [1e9 + 0.1 + 0.2, 1e9 + 0.3, 1e9 + 0.3],
        [functools.reduce(operator.add, [0.1] * 100_000), 1e4, 1e4],  # sum() would compensate its rounding
    ],
)
def test_rewards_that_differ_only_by_rounding_are_equal(name, row):
    for dtype in (torch.float32, torch.float64):
        rewards_PG = torch.tensor([row], dtype=dtype)
        assert torch.equal(advantage(name, rewards_PG, ones(1, 3)), torch.zeros_like(rewards_PG))


def test_float32_sums_that_differ_only_by_rounding_are_equal():
    tenth, total = torch.tensor(0.1), torch.tensor(0.0)
    for _ in range(10):
        total = total + tenth
    rewards_PG = torch.stack([total, 10 * tenth, total])[None]
    assert total != 10 * tenth
    for name in NAMES:
        assert torch.equal(advantage(name, rewards_PG, ones(1, 3)), torch.zeros(1, 3))


@pytest.mark.parametrize("name", NAMES)
def test_small_differences_that_are_meant_count(name):
    rewards_PG = torch.tensor([[1.0, 1.0 + 1e-7, 1.0], [1e-9, 0.0, 0.0]], dtype=torch.float64)
    assert (advantage(name, rewards_PG, ones(2, 3)) != 0).any(dim=1).all()


@pytest.mark.parametrize("name", GROUP_RELATIVE)
@pytest.mark.parametrize("scored", [[False] * 3, [False, True, False]])
def test_fewer_than_two_scored_give_zero(name, scored):
    rewards_PG = torch.tensor([[NAN, 5.0, math.inf], [1.0, 0.0, 2.0]])
    scored_PG = torch.tensor([scored, [True] * 3])
    assert advantage(name, rewards_PG, scored_PG)[0].tolist() == [0.0, 0.0, 0.0]
    assert advantage(name, rewards_PG[:1], scored_PG[:1]).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (3, 1)])
def test_no_prompts_and_no_samples(name, shape):
    rewards_PG = torch.zeros(shape)
    assert torch.equal(advantage(name, rewards_PG, ones(*shape)), rewards_PG)


@pytest.mark.parametrize("name", NAMES)
@repeatable
@given(rows=batches(any_reward), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_finite_and_zero_where_unscored(name, rows, dtype):
    rewards_PG, scored_PG = tensors(rows, dtype)
    actual_PG = advantage(name, rewards_PG, scored_PG)
    assert actual_PG.dtype == dtype
    assert actual_PG.isfinite().all()
    assert (actual_PG[~scored_PG] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_order_changes_nothing(name, batch, assert_same):
    rewards_PG, scored_PG = batch("rewards", 4, 6), batch("scored", 4, 6) > -0.5
    lengths_PG = lengths_like(rewards_PG)
    prompts, samples = torch.tensor([2, 0, 3, 1]), torch.tensor([5, 1, 0, 4, 2, 3])
    shuffled_PG = advantage(name, *(t[prompts][:, samples] for t in (rewards_PG, scored_PG, lengths_PG)))
    assert_same(shuffled_PG, advantage(name, rewards_PG, scored_PG, lengths_PG)[prompts][:, samples])


@pytest.mark.parametrize("name", NAMES)
def test_padding_a_group_with_unscored_changes_nothing(name, batch, assert_same):
    rewards_PG, lengths_PG = batch("rewards", 3, 4), lengths_like(batch("rewards", 3, 4))
    whole_PG = advantage(name, rewards_PG, ones(3, 4), lengths_PG)
    for filling in (NAN, math.inf, 3e30):
        padded_PG = torch.cat([rewards_PG, torch.full((3, 2), filling)], dim=1)
        padded_scored_PG = torch.cat([ones(3, 4), ~ones(3, 2)], dim=1)
        padded_lengths_PG = torch.cat([lengths_PG, torch.full((3, 2), 99)], dim=1)
        assert_same(advantage(name, padded_PG, padded_scored_PG, padded_lengths_PG)[:, :4], whole_PG)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"maxrl"}))
def test_a_shift_of_all_rewards_changes_nothing(name, batch, assert_same):
    rewards_PG = batch("rewards", 3, 5)
    assert_same(advantage(name, rewards_PG + 10.0, ones(3, 5)), advantage(name, rewards_PG, ones(3, 5)))


@pytest.mark.parametrize("name", sorted(set(GROUP_RELATIVE) - {"passk", "opo"}))
def test_each_group_sums_to_zero(name, batch, assert_same):
    assert_same(advantage(name, batch("rewards", 3, 5), ones(3, 5)).sum(dim=1), torch.zeros(3))


@pytest.mark.parametrize("name", NAMES)
def test_derivative_in_the_rewards(name):
    rewards_PG, scored_PG = tensors([[(1.0, True), (0.2, True), (0.0, False), (0.5, True)], [(0.1, True)] + [(0.9, True)] * 3])
    rewards_PG.requires_grad_()
    if name == "passk":  # of the two that share a place, which one the derivative belongs to is open
        rewards_PG, scored_PG = rewards_PG[:1].detach().requires_grad_(), scored_PG[:1]
    assert torch.autograd.gradcheck(lambda rewards_PG: advantage(name, rewards_PG, scored_PG), (rewards_PG,))


@cases("name", NAMES)
@cases(
    ("rewards_PG", "scored_PG", "message"),
    [
        (torch.zeros(4), ones(4), r"rewards_PG: expected 2 axes \[P, G\], got shape \[4\]"),
        (torch.zeros(2, 3), ones(3, 2), r"scored_PG: expected shape \[2, 3\]"),
        (torch.zeros(2, 3, dtype=torch.int64), ones(2, 3), "rewards_PG: expected a floating"),
        (torch.zeros(2, 3), torch.ones(2, 3), "scored_PG: expected a bool tensor, got torch.float32"),
        (torch.tensor([[0.0, NAN]]), ones(1, 2), "a scored reward is nan or infinite"),
    ],
)
def test_bad_tensors(name, rewards_PG, scored_PG, message):
    with pytest.raises(ValueError, match=message):
        advantage(name, rewards_PG, scored_PG)


@pytest.mark.parametrize("name", ["grpo", "passk", "batch_std", "reinforce++", "reinforce++_baseline"])
@pytest.mark.parametrize(
    ("options", "message"),
    [({"ddof": 2}, "ddof: expected 0"), ({"eps": -1e-4}, "eps: expected"), ({"eps": NAN}, "eps: expected")],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        ADVANTAGES[name].function(torch.eye(2), ones(2, 2), **options)
