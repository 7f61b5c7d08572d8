"""Generalised advantage estimation and the value loss: literals derived by hand, gradients, and what changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from verigym.trainer.advantages.gae import gae, value_loss, whitened

NAN = float("nan")
REWARDS = torch.tensor([[0.0, 0.5, 1.0]], dtype=torch.float64)
VALUES = torch.tensor([[0.2, 0.4, 0.6]], dtype=torch.float64)
ALL = torch.ones(1, 3, dtype=torch.bool)


def test_three_tokens_worked_by_hand(assert_literal: Any) -> None:
    # gamma 0.9, lambda 0.5. d_3 = 1 - 0.6 = 0.4; d_2 = 0.5 + 0.9 * 0.6 - 0.4 = 0.64; d_1 = 0.9 * 0.4 - 0.2 = 0.16.
    # A_3 = 0.4; A_2 = 0.64 + 0.45 * 0.4 = 0.82; A_1 = 0.16 + 0.45 * 0.82 = 0.529.
    advantages, returns = gae(REWARDS, VALUES, ALL, gamma=0.9, lam=0.5)
    assert_literal(advantages, [[0.529, 0.82, 0.4]])
    assert_literal(returns, [[0.729, 1.22, 1.0]])


def test_lambda_1_is_the_return_minus_the_value(assert_literal: Any) -> None:
    # Returns at gamma 0.9: 1; 0.5 + 0.9 = 1.4; 0.9 * 1.4 = 1.26.
    advantages, returns = gae(REWARDS, VALUES, ALL, gamma=0.9, lam=1.0)
    assert_literal(returns, [[1.26, 1.4, 1.0]])
    assert_literal(advantages, [[1.06, 1.0, 0.4]])


def test_lambda_0_is_the_error_of_one_step(assert_literal: Any) -> None:
    advantages, returns = gae(REWARDS, VALUES, ALL, gamma=0.9, lam=0.0)
    assert_literal(advantages, [[0.16, 0.64, 0.4]])
    assert_literal(returns, [[0.36, 1.04, 1.0]])


def test_a_row_that_was_cut_off_is_worth_nothing_after_its_end(assert_literal: Any) -> None:
    # No value is added after the last token: with a reward of 0 the whole value was wrong.
    advantages, _ = gae(torch.zeros(1, 3, dtype=torch.float64), VALUES, ALL, lam=0.0)
    assert_literal(advantages, [[0.2, 0.2, -0.6]])


def test_values_that_are_right_leave_no_advantage(assert_same: Any) -> None:
    returns = torch.tensor([[1.26, 1.4, 1.0]], dtype=torch.float64)
    advantages, again = gae(REWARDS, returns, ALL, gamma=0.9, lam=0.7)
    assert_same(advantages, torch.zeros(1, 3))
    assert_same(again, returns)


@pytest.mark.parametrize("places", [(0, 2, 4), (1, 2, 5), (3, 4, 5)], ids=str)
def test_tokens_outside_the_mask_are_no_steps(places: tuple[int, ...], assert_same: Any) -> None:
    rewards, values = (torch.full((1, 6), NAN, dtype=torch.float64) for _ in range(2))
    mask = torch.zeros(1, 6, dtype=torch.bool)
    mask[0, list(places)] = True
    rewards[mask], values[mask] = REWARDS[0], VALUES[0]
    advantages, returns = gae(rewards, values, mask, gamma=0.9, lam=0.5)
    assert_same(advantages[mask], [0.529, 0.82, 0.4])
    assert_same(returns[mask], [0.729, 1.22, 1.0])
    assert not advantages[~mask].any() and not returns[~mask].any()


def test_the_sum_of_equation_16(batch: Callable[..., torch.Tensor], assert_same: Any) -> None:
    """Against the sum over k, written as it stands in the paper, on rows of different lengths."""
    gamma, lam, lengths = 0.97, 0.8, (7, 1, 4)
    rewards, values = batch("rewards", 3, 7), batch("values", 3, 7)
    mask = torch.arange(7) < torch.tensor(lengths)[:, None]
    advantages, _ = gae(rewards, values, mask, gamma=gamma, lam=lam)
    for b, length in enumerate(lengths):
        worth = [*values[b, :length].tolist(), 0.0]
        errors = [float(rewards[b, t]) + gamma * worth[t + 1] - worth[t] for t in range(length)]
        naive = [sum((gamma * lam) ** k * errors[t + k] for k in range(length - t)) for t in range(length)]
        assert_same(advantages[b, :length], naive)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 1.1}, "gamma: expected a number from 0 to 1, got 1.1"),
        ({"lam": -0.1}, "lam: expected"),
        ({"mask_BT": torch.ones(1, 3)}, "mask_BT: expected a bool"),
        ({"rewards_BT": torch.ones(1, 2)}, "rewards_BT: expected shape"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"rewards_BT": REWARDS, "values_BT": VALUES, "mask_BT": ALL}
    with pytest.raises(ValueError, match=message):
        gae(**(arguments | change))


def test_whitening(assert_literal: Any) -> None:
    # 1, 2, 6 have mean 3 and, over n - 1, variance (4 + 1 + 9) / 2 = 7.
    values = torch.tensor([[1.0, NAN], [2.0, 6.0]], dtype=torch.float64)
    mask = torch.tensor([[True, False], [True, True]])
    assert_literal(whitened(values, mask), [[-2 / 7**0.5, 0.0], [-1 / 7**0.5, 3 / 7**0.5]])
    assert_literal(whitened(values, torch.tensor([[True, False], [False, False]])), [[0.0, 0.0], [0.0, 0.0]])
    assert_literal(whitened(values, torch.zeros(2, 2, dtype=torch.bool)), [[0.0, 0.0], [0.0, 0.0]])


OLD = torch.tensor([[1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
NEW = torch.tensor([[1.5, 0.6, 1.1, 1.5]], dtype=torch.float64)
RETURNS = torch.tensor([[2.0, 2.0, 2.0, 1.0]], dtype=torch.float64)


def test_the_value_loss_is_half_the_squared_error(assert_literal: Any) -> None:
    loss, clipped = value_loss(NEW, OLD, RETURNS)
    assert_literal(loss, [[0.125, 0.98, 0.405, 0.125]])
    assert not clipped.any()


def test_a_value_that_moved_towards_its_return_stays_where_the_clip_is(assert_literal: Any) -> None:
    # Clip 0.2: 1.5 counts as 1.2, error 0.8; 0.6 went the wrong way, so its own error 1.4 is larger than that of 0.8;
    # 1.1 is within; 1.5 went away from 1, so its own error counts.
    new = NEW.clone().requires_grad_()
    loss, clipped = value_loss(new, OLD, RETURNS, value_clip=0.2)
    assert_literal(loss, [[0.32, 0.98, 0.405, 0.125]])
    assert clipped.tolist() == [[True, False, False, False]]
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    assert_literal(new.grad, [[0.0, -1.4, -0.9, 0.5]])


@pytest.mark.parametrize("clip", [None, 0.2])
def test_gradients_of_the_value_loss(clip: float | None, batch: Callable[..., torch.Tensor]) -> None:
    old, returns = batch("old", 2, 5), batch("returns", 2, 5)
    new = (old + batch("moved", 2, 5)).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: value_loss(values, old, returns, value_clip=clip)[0], new)


def test_a_clip_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="value_clip: expected a number above 0"):
        value_loss(NEW, OLD, RETURNS, value_clip=0.0)
    with pytest.raises(ValueError, match="returns_BT: expected shape"):
        value_loss(NEW, OLD, RETURNS[:, :2])
