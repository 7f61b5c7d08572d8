"""Losses of reward models: literals by hand, gradients, properties, and a naive loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from verigym.trainer.reward_models.losses import bradley_terry_loss, step_loss

Batch = Callable[..., torch.Tensor]


def test_literals(assert_literal: Any) -> None:
    # Equal outputs: sigmoid(0) = 1/2, so log 2. A gap of log 3: sigmoid = 3/4, so log(4/3) = 0.287682.
    chosen_B, rejected_B = torch.tensor([1.0, math.log(3)]), torch.tensor([1.0, 0.0])
    loss, metrics = bradley_terry_loss(chosen_B, rejected_B)
    assert_literal(loss, (0.693147 + 0.287682) / 2)
    assert_literal(metrics["accuracy"], 0.75)  # the equal pair counts half
    assert_literal(metrics["margin"], 0.549306)
    # A margin of log 3 takes the whole gap away from the second, and turns the first into log(1 + 3).
    loss, metrics = bradley_terry_loss(chosen_B, rejected_B, torch.tensor([math.log(3), math.log(3)]))
    assert_literal(loss, (1.386294 + 0.693147) / 2)
    assert_literal(metrics["accuracy"], 0.75)
    # Centring adds 0.01 (1 + 1)^2 and 0.01 (log 3)^2.
    loss, _ = bradley_terry_loss(chosen_B, rejected_B, centre=0.01)
    assert_literal(loss, (0.693147 + 0.287682 + 0.04 + 0.012069) / 2)


def test_gradients(assert_literal: Any, batch: Batch) -> None:
    chosen_B = torch.tensor([math.log(3)], requires_grad=True)
    rejected_B = torch.tensor([0.0], requires_grad=True)
    bradley_terry_loss(chosen_B, rejected_B)[0].backward()
    assert_literal(chosen_B.grad, [-0.25])  # -(1 - sigmoid)
    assert_literal(rejected_B.grad, [0.25])
    inputs = tuple(batch(name, 5).requires_grad_() for name in ("chosen", "rejected"))
    margin_B = batch("margin", 5).abs()
    assert torch.autograd.gradcheck(lambda c, r: bradley_terry_loss(c, r, margin_B, centre=0.1)[0], inputs)


def test_properties(batch: Batch, assert_same: Any) -> None:
    chosen_B, rejected_B, margin_B = (batch(name, 7) for name in ("chosen", "rejected", "margin"))
    whole, metrics = bradley_terry_loss(chosen_B, rejected_B, margin_B, centre=0.1)
    halves = [
        bradley_terry_loss(chosen_B[part], rejected_B[part], margin_B[part], centre=0.1, total=7)
        for part in (slice(0, 3), slice(3, 7))
    ]
    assert_same(sum(loss for loss, _ in halves), whole)
    for name, value in metrics.items():
        assert_same(sum(part[name] for _, part in halves), value)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    assert_same(bradley_terry_loss(chosen_B[order], rejected_B[order], margin_B[order], centre=0.1)[0], whole)
    assert_same(bradley_terry_loss(chosen_B + 3, rejected_B + 3)[0], bradley_terry_loss(chosen_B, rejected_B)[0])
    assert (
        bradley_terry_loss(chosen_B + 3, rejected_B + 3, centre=1)[0] != bradley_terry_loss(chosen_B, rejected_B, centre=1)[0]
    )
    far = torch.tensor([1e4, -1e4])
    assert torch.isfinite(bradley_terry_loss(far, -far)[0])


def test_a_naive_loop_agrees(batch: Batch, assert_same: Any) -> None:
    chosen_B, rejected_B, margin_B = (batch(name, 6) for name in ("chosen", "rejected", "margin"))
    total = 0.0
    for c, r, m in zip(chosen_B.tolist(), rejected_B.tolist(), margin_B.tolist(), strict=True):
        total += -math.log(1 / (1 + math.exp(-(c - r - m)))) + 0.05 * (c + r) * (c + r)
    assert_same(bradley_terry_loss(chosen_B, rejected_B, margin_B, centre=0.05)[0], total / 6)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((torch.ones(2), torch.ones(3)), {}, r"must both be \[B\]; got \[2\] and \[3\]"),
        ((torch.ones(2, 1), torch.ones(2, 1)), {}, r"must both be \[B\]"),
        ((torch.ones(2), torch.ones(2), torch.ones(1)), {}, r"margin_B is \[1\], expected \[2\]"),
        ((torch.ones(2), torch.ones(2)), {"centre": -1.0}, "centre is -1.0"),
        ((torch.ones(0), torch.ones(0)), {}, "total is 0"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bradley_terry_loss(*arguments, **options)


def test_the_loss_of_steps_by_hand(assert_literal: Any, assert_same: Any, batch: Batch) -> None:
    logits_N2 = torch.tensor([[0.0, 0.0], [0.0, math.log(3)]], dtype=torch.float64, requires_grad=True)
    # p_1 is 1/2 and 3/4. Hard labels 1, 0: (log 2 + log 4) / 2 = 1.5 log 2. Soft label 1/4 at p_1 = 3/4:
    # 0.25 log(4/3) + 0.75 log 4 = 1.111641
    assert_literal(step_loss(logits_N2, torch.tensor([1.0, 0.0])), 1.039721)
    assert_literal(step_loss(logits_N2[1:], torch.tensor([0.25])), 1.111641)
    step_loss(logits_N2, torch.tensor([1.0, 0.0])).backward()
    assert_literal(logits_N2.grad, [[0.25, -0.25], [-0.375, 0.375]])  # (p - y) / 2
    with pytest.raises(ValueError, match="expected \\(3, 2\\)"):
        step_loss(logits_N2, torch.ones(3))
    logits, labels = batch("logits", 5, 2), batch("labels", 5).sigmoid()
    parts = [step_loss(logits[part], labels[part], total=5) for part in (slice(0, 2), slice(2, 5))]
    assert_same(sum(parts), step_loss(logits, labels))
