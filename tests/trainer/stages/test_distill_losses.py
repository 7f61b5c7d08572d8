"""Losses between student and teacher: by hand, gradients in float64, chunks change nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from verigym.trainer.logprobs.chunked import Head
from verigym.trainer.stages.distill_losses import chunked_kl, kl_of_logits, reverse_kl_advantages

HALVES, QUARTER = [0.5, 0.5], [0.25, 0.75]


def logits(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64).log()


def test_by_hand() -> None:
    student, teacher = logits(HALVES, QUARTER), logits(QUARTER, QUARTER)
    forward = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    reverse = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert kl_of_logits(student, teacher).tolist() == pytest.approx([forward, 0.0], abs=1e-12)
    assert kl_of_logits(student, teacher, "reverse").tolist() == pytest.approx([reverse, 0.0], abs=1e-12)
    assert kl_of_logits(student + 3, teacher - 5).tolist() == pytest.approx([forward, 0.0], abs=1e-12), "logits may be shifted"


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_gradients(direction: Any, batch: Callable[..., torch.Tensor]) -> None:
    student, teacher = batch("student", 3, 5).requires_grad_(), batch("teacher", 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: kl_of_logits(s, teacher, direction), (student,))
    kl_of_logits(student, teacher, direction).sum().backward()
    assert teacher.grad is None, "the teacher is a constant"
    if direction == "forward":  # softmax(student) - softmax(teacher)
        assert student.grad is not None
        torch.testing.assert_close(student.grad, student.detach().softmax(-1) - teacher.detach().softmax(-1))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(("scale", "cap"), [(1.0, None), (0.5, 2.0)])
def test_chunks_change_nothing(
    direction: Any, scale: float, cap: float | None, batch: Callable[..., torch.Tensor], assert_same: Any
) -> None:
    hidden, taught = batch("hidden", 7, 4), batch("taught", 7, 6)
    weight, other = batch("weight", 9, 4), batch("other", 9, 6)
    results = []
    for chunk in (None, 1, 3, 7):
        own, matrix = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        heads = Head(matrix, None, scale, cap), Head(other, batch("bias", 9))
        kl = chunked_kl(own, heads[0], taught, heads[1], direction=direction, temperature=1.5, chunk=chunk)
        (kl * batch("incoming", 7)).sum().backward()
        results.append((kl.detach(), own.grad, matrix.grad))
    plain = hidden @ weight.T * scale
    plain = plain if cap is None else cap * torch.tanh(plain / cap)
    expected = kl_of_logits(plain / 1.5, (taught @ other.T + batch("bias", 9)) / 1.5, direction)
    for found in results:
        assert_same(found[0], expected)
        for mine, first in zip(found, results[0], strict=True):
            assert_same(mine, first)


def test_advantages_are_minus_the_log_ratio_and_their_mean_is_minus_the_reverse_kl() -> None:
    student, teacher = logits(HALVES)[0], logits(QUARTER)[0]
    sampled = torch.tensor([[0, 1, 0]])
    mask = torch.tensor([[True, True, False]])
    found = reverse_kl_advantages(student[sampled].requires_grad_(), teacher[sampled], mask)
    assert not found.requires_grad
    assert found[0].tolist() == pytest.approx([math.log(0.25 / 0.5), math.log(0.75 / 0.5), 0.0])
    expected = -kl_of_logits(student[None], teacher[None], "reverse")[0]
    assert float(found[0, :2].mean()) == pytest.approx(float(expected)), "each token comes half of the time"


def test_the_policy_gradient_of_these_advantages_is_that_of_the_reverse_kl(batch: Callable[..., torch.Tensor]) -> None:
    student, teacher = batch("student", 1, 6).requires_grad_(), batch("teacher", 1, 6)
    logp = student.log_softmax(-1)
    mask = torch.ones(1, 6, dtype=torch.bool)
    advantages = reverse_kl_advantages(logp, teacher.log_softmax(-1), mask)
    # The expected value over the token that is drawn, exactly: every token by its probability.
    (-advantages * logp * logp.detach().exp()).sum().backward()
    assert student.grad is not None
    found = student.grad.clone()
    student.grad = None
    kl_of_logits(student, teacher, "reverse").sum().backward()
    torch.testing.assert_close(found, student.grad)


def test_what_does_not_fit_is_refused(batch: Callable[..., torch.Tensor]) -> None:
    with pytest.raises(ValueError, match=r"must both be \[N, V\]"):
        kl_of_logits(batch("a", 2, 3), batch("b", 2, 4))
    with pytest.raises(ValueError, match="known: forward, reverse"):
        kl_of_logits(batch("a", 2, 3), batch("b", 2, 3), "sideways")  # type: ignore[arg-type]
    heads = Head(batch("w", 5, 3), None), Head(batch("v", 6, 3), None)
    with pytest.raises(ValueError, match="vocabulary has 5 tokens and the teacher's 6"):
        chunked_kl(batch("a", 2, 3), heads[0], batch("b", 2, 3), heads[1])
    with pytest.raises(ValueError, match="2 tokens and the teacher 3"):
        chunked_kl(batch("a", 2, 3), heads[0], batch("b", 3, 3), heads[0])
    with pytest.raises(ValueError, match="three tensors"):
        reverse_kl_advantages(batch("a", 2, 3), batch("a", 2, 3), torch.ones(1, 3, dtype=torch.bool))
