"""Shapes: V vocabulary."""

from __future__ import annotations

import math

import pytest
import torch

from verigym.trainer.logprobs.chunked import token_entropy

INF = math.inf


def of_logits(logits_V: torch.Tensor) -> torch.Tensor:
    return token_entropy(logits_V.log_softmax(-1))


@pytest.mark.parametrize(
    ("logits", "expected"),
    [
        ([0.0, 0.0, 0.0, 0.0], 1.386294),
        ([0.0, math.log(3.0), -INF, -INF], 0.562335),  # probabilities 1/4 and 3/4
        ([0.0, -INF, -INF, -INF], 0.0),
    ],
)
def test_literals(logits, expected, assert_literal):
    assert_literal(of_logits(torch.tensor(logits, dtype=torch.float64)), expected)


def test_parity_with_torch_under_any_shape_and_shift(batch, assert_same):
    logits = batch("logits", 2, 3, 7)
    assert of_logits(logits).shape == (2, 3)
    assert_same(of_logits(logits + 1e3), torch.distributions.Categorical(logits=logits + 1e3).entropy())
    assert (of_logits(1e30 * logits) == 0).all()


def test_gradcheck_and_no_gradient_where_a_token_cannot_come(batch):
    assert torch.autograd.gradcheck(of_logits, (batch("logits", 3, 6).requires_grad_(),))
    logits = batch("logits", 3, 6)
    logits[:, 2] = -INF
    logits.requires_grad_()
    of_logits(logits).sum().backward()
    assert logits.grad.isfinite().all()
    assert (logits.grad[:, 2] == 0).all()


def test_the_gradient_flattens(batch):
    logits = batch("logits", 5).requires_grad_()
    of_logits(logits).backward()
    assert of_logits(logits + 0.1 * logits.grad) > of_logits(logits)
