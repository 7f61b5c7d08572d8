"""Process supervision. Shapes: G samples of one prompt, T tokens."""

from __future__ import annotations

import math

import pytest
import torch

from verigym.trainer.advantages.steps import process_supervision

REWARDS = [[0.2, 0.8], [0.4, 0.1, 0.6]]


def test_literals_one_token_a_step(assert_literal):
    actual = process_supervision(REWARDS, [[1, 2], [1, 2, 3]], [2, 3])
    assert_literal(actual, [[0.558744, 1.327018, 0.0], [-0.558744, -0.488901, 0.628587]])


def test_literals_longer_steps_and_a_tail(assert_literal):
    actual = process_supervision(REWARDS, [[2, 3], [1, 2, 4]], [5, 4])
    first = [0.558744, 0.558744, 1.327018, 0.0, 0.0]
    assert_literal(actual, [first, [-0.558744, -0.488901, 0.628587, 0.628587, 0.0]])


def test_normalised_rewards_are_the_last_steps_of_single_step_outputs(assert_literal):
    flat = [[r] for rewards in REWARDS for r in rewards]
    actual = process_supervision(flat, [[1]] * 5, [1] * 5)
    assert_literal(actual[:, 0], [-0.768273, 1.327018, -0.069843, -1.117488, 0.628587])


def test_unscored_completions_are_in_no_mean_and_get_zero(assert_literal):
    actual = process_supervision([None, *REWARDS], [[9], [1, 2], [1, 2, 3]], [2, 2, 3])
    assert_literal(actual, [[0.0, 0.0, 0.0], [0.558744, 1.327018, 0.0], [-0.558744, -0.488901, 0.628587]])


@pytest.mark.parametrize("rewards", [[[0.1 + 0.2, 0.3], [0.3]], [[0.5], []], [[], []], [None, [0.5]], [None, None]])
def test_nothing_to_compare_gives_exactly_zero(rewards):
    ends = [list(range(1, len(row or []) + 1)) for row in rewards]
    assert torch.equal(process_supervision(rewards, ends, [3, 2]), torch.zeros(2, 3, dtype=torch.float64))


def test_no_completions():
    assert process_supervision([], [], []).shape == (0, 0)


def test_steps_are_pooled_over_completions(batch, assert_same):
    values = batch("steps", 6).tolist()
    flat = torch.tensor(values, dtype=torch.float64)
    normal = ((flat - flat.mean()) / flat.std(correction=0)).tolist()
    actual = process_supervision([values[:4], values[4:]], [[1, 2, 3, 4], [2, 3]], [4, 3], ddof=0)
    expected = [[math.fsum(normal[t:4]) for t in range(4)], [sum(normal[4:]), sum(normal[4:]), normal[5], 0.0]]
    assert_same(actual, expected)


@pytest.mark.parametrize(
    ("rewards", "ends", "lengths", "message"),
    [
        ([[1.0]], [[1]], [], "expected one entry a completion each, got 1, 1 and 0"),
        ([[1.0, 2.0]], [[1]], [3], r"step_ends\[0\]: expected 2 ends, one a step reward, got 1"),
        ([[1.0, 2.0]], [[2, 2]], [3], r"step_ends\[0\]: expected rising ends from 1 to the length of 3 tokens, got \[2, 2\]"),
        ([None, [1.0]], [[], [4]], [3, 3], r"step_ends\[1\]: expected rising ends"),
        ([[1.0]], [[0]], [3], "expected rising ends"),
        ([[math.nan, 1.0]], [[1, 2]], [3], "nan or infinite"),
    ],
)
def test_bad_steps(rewards, ends, lengths, message):
    with pytest.raises(ValueError, match=message):
        process_supervision(rewards, ends, lengths)


def test_bad_options():
    with pytest.raises(ValueError, match="ddof: expected 0"):
        process_supervision(REWARDS, [[1, 2], [1, 2, 3]], [2, 3], ddof=3)
