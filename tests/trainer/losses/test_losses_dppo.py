"""The loss with a trust region on probabilities. Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import math

import pytest
import torch
from logps import ADVANTAGES_BT, OLD_BT

from verigym.trainer.losses.token_level import dppo_tv

MOVED_BT = torch.tensor([[-0.3, -2.0, -0.9]], dtype=torch.float64)
SIGNS_BT = torch.tensor([[1.0, -1.0, 1.0]], dtype=torch.float64)


def test_dppo_tv_literals(assert_literal):
    # Probabilities .741, .135 and .407 from .368: two have moved more than .2, in the direction of their advantage.
    loss_BT, metrics = dppo_tv(MOVED_BT, OLD_BT, SIGNS_BT, delta=0.2)
    assert metrics["clipped_BT"].tolist() == [[True, True, False]]
    assert_literal(loss_BT, [[0.0, 0.0, -1.105171]])
    assert_literal(metrics["ratio_BT"], [[2.013753, 0.367879, 1.105171]])


def test_dppo_tv_keeps_what_comes_back(assert_literal):
    loss_BT, metrics = dppo_tv(MOVED_BT, OLD_BT, -SIGNS_BT)
    assert not metrics["clipped_BT"].any()
    assert_literal(loss_BT, [[2.013753, -0.367879, 1.105171]])


def test_dppo_tv_lets_a_rare_token_double():
    logp_BT = torch.tensor([[0.02, 0.8]], dtype=torch.float64).log()
    old_BT = torch.tensor([[0.01, 0.55]], dtype=torch.float64).log()
    _, metrics = dppo_tv(logp_BT, old_BT, torch.ones(1, dtype=torch.float64))
    assert metrics["clipped_BT"].tolist() == [[False, True]]


def test_dppo_tv_gradient_is_the_ratio_or_nothing(assert_literal):
    logp_BT = MOVED_BT.clone().requires_grad_()
    dppo_tv(logp_BT, OLD_BT, SIGNS_BT)[0].sum().backward()
    assert_literal(logp_BT.grad, [[0.0, 0.0, -1.105171]])


def test_gradcheck_and_dropped_tokens_are_those_without_a_gradient(batch):
    old_BT, advantages_B = batch("old", 4, 6) - 2.0, batch("advantages", 4)
    arguments = ((old_BT + 0.5 * batch("step", 4, 6)).requires_grad_(),)
    loss_BT, metrics = dppo_tv(*arguments, old_BT, advantages_B, delta=0.05)
    assert 0 < int(metrics["clipped_BT"].sum()) < 24
    loss_BT.sum().backward()
    assert torch.equal(metrics["clipped_BT"], arguments[0].grad == 0)
    assert torch.autograd.gradcheck(lambda x: dppo_tv(x, old_BT, advantages_B, delta=0.05)[0], arguments)


@pytest.mark.parametrize("delta", [0.0, 1.5, math.nan])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match="delta: expected a probability above 0, at most 1"):
        dppo_tv(OLD_BT, OLD_BT, ADVANTAGES_BT, delta=delta)
