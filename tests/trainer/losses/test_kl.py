"""Shapes: B rows (completions), T tokens, V vocabulary."""

from __future__ import annotations

import math

import pytest
import torch

from verigym.trainer.losses.kl import KL_ESTIMATORS, k1, k3, on_policy

LOGP_BT = torch.tensor([[0.0, -1.0, -2.0]], dtype=torch.float64)
REF_BT = torch.full((1, 3), -1.0, dtype=torch.float64)

NAIVE = {
    "k1": lambda x, ref: x - ref,
    "k2": lambda x, ref: (x - ref) ** 2 / 2,
    "k3": lambda x, ref: math.exp(ref - x) - (ref - x) - 1,
}


def gradient(name: str, *, ratio: bool = False) -> torch.Tensor:
    logp_BT = LOGP_BT.clone().requires_grad_()
    kl_BT = KL_ESTIMATORS[name](logp_BT, REF_BT)
    (on_policy(kl_BT, logp_BT) if ratio else kl_BT).sum().backward()
    assert logp_BT.grad is not None
    return logp_BT.grad


@pytest.mark.parametrize(
    ("name", "expected"),
    [("k1", [1.0, 0.0, -1.0]), ("k2", [0.5, 0.0, 0.5]), ("k3", [0.367879, 0.0, 0.718282])],
)
def test_value_literals(name, expected, assert_literal):
    assert_literal(KL_ESTIMATORS[name](LOGP_BT, REF_BT), [expected])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("k1", [1.0, 1.0, 1.0]), ("k2", [1.0, 0.0, -1.0]), ("k3", [0.632121, 0.0, -1.718282])],
)
def test_gradient_literals(name, expected, assert_literal):
    assert_literal(gradient(name), [expected])


def test_on_policy_k3_has_the_unbiased_gradient(assert_literal):
    assert_literal(gradient("k3", ratio=True), [[1.0, 0.0, -1.0]])
    assert_literal(on_policy(k3(LOGP_BT, REF_BT), LOGP_BT), [[0.367879, 0.0, 0.718282]])


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_gradcheck(name, batch):
    ref_BT = batch("ref", 2, 5)
    assert torch.autograd.gradcheck(lambda x: KL_ESTIMATORS[name](x, ref_BT), (batch("logp", 2, 5).requires_grad_(),))


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_parity_with_the_naive_loop(name, batch, assert_same):
    logp_BT, ref_BT = batch("logp", 3, 5), batch("ref", 3, 5)
    pairs = zip(logp_BT.tolist(), ref_BT.tolist(), strict=True)
    expected = [[NAIVE[name](x, r) for x, r in zip(*rows, strict=True)] for rows in pairs]
    assert_same(KL_ESTIMATORS[name](logp_BT, ref_BT), expected)


def expectation(name: str, logits_V: torch.Tensor, ref_V: torch.Tensor, *, ratio: bool = False) -> tuple[float, torch.Tensor]:
    """Exact expectations over the policy of an estimator's value and of its gradient in the logits."""
    logits_V = logits_V.clone().requires_grad_()
    logp_VT = logits_V.log_softmax(0)[:, None]
    kl_VT = KL_ESTIMATORS[name](logp_VT, ref_V[:, None])
    kl_VT = on_policy(kl_VT, logp_VT) if ratio else kl_VT
    mean = (logp_VT.detach().exp() * kl_VT).sum()
    mean.backward()
    assert logits_V.grad is not None
    return mean.item(), logits_V.grad


@pytest.mark.parametrize(
    ("name", "ratio", "value_unbiased", "gradient_unbiased"),
    [
        ("k1", False, True, False),
        ("k2", False, False, True),
        ("k3", False, True, False),
        ("k3", True, True, True),
        ("k1", True, True, True),
    ],
)
def test_expectations_over_the_policy(name, ratio, value_unbiased, gradient_unbiased, batch, assert_same):
    logits_V, ref_V = batch("logits", 6), batch("reference", 6).log_softmax(0)
    exact_V = logits_V.clone().requires_grad_()
    logp_V = exact_V.log_softmax(0)
    exact = (logp_V.exp() * (logp_V - ref_V)).sum()
    exact.backward()
    value, gradient_V = expectation(name, logits_V, ref_V, ratio=ratio)
    if gradient_unbiased:
        assert_same(gradient_V, exact_V.grad)
    else:
        assert (gradient_V - exact_V.grad).abs().max() > 0.05
    assert (abs(value - exact.item()) < 1e-12) == value_unbiased


def test_k1_gradient_vanishes_in_expectation(batch, assert_same):
    _, gradient_V = expectation("k1", batch("logits", 6), batch("reference", 6).log_softmax(0))
    assert_same(gradient_V, torch.zeros(6))


@pytest.mark.parametrize(("by_length", "vanishes"), [(False, True), (True, False)])
def test_k1_over_completions_is_the_gradient_of_their_mean_weight(by_length, vanishes, batch, assert_same):
    """Token 0 ends a completion, the second token always does; all 1 + 2 * 3 completions are summed over."""
    logits_TV, ref_TV = batch("two steps", 2, 3).requires_grad_(), batch("their reference", 2, 3).log_softmax(1)
    logp_TV = logits_TV.log_softmax(1)
    loss, mean_weight = torch.zeros(()), torch.zeros(())
    for tokens in [(0,), *((first, second) for first in (1, 2) for second in (0, 1, 2))]:
        logp_T = torch.stack([logp_TV[step, token] for step, token in enumerate(tokens)])
        ref_T = torch.stack([ref_TV[step, token] for step, token in enumerate(tokens)])
        weight = 1 / len(tokens) if by_length else 0.5
        loss = loss + logp_T.sum().exp().detach() * weight * k1(logp_T[None], ref_T[None]).sum()
        mean_weight = mean_weight + logp_T.sum().exp() * weight
    (found_TV,) = torch.autograd.grad(loss, logits_TV, retain_graph=True)
    assert_same(found_TV, torch.autograd.grad(mean_weight, logits_TV)[0])
    assert (found_TV.abs().max() < 1e-12) == vanishes


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_equal_models_give_exactly_zero(name, batch):
    logp_BT = batch("logp", 2, 5).float()
    assert (KL_ESTIMATORS[name](logp_BT, logp_BT) == 0).all()


def test_k3_keeps_its_digits_near_a_ratio_of_1():
    logp_BT = torch.tensor([[-1e-3, -1e-4]])
    expected = torch.tensor([[5e-7, 5e-9]])
    torch.testing.assert_close(k3(logp_BT, torch.zeros(1, 2)), expected, rtol=2e-2, atol=0.0)


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_no_gradient_into_the_reference(name, batch):
    logp_BT, ref_BT = batch("logp", 2, 5).requires_grad_(), batch("ref", 2, 5).requires_grad_()
    KL_ESTIMATORS[name](logp_BT, ref_BT).sum().backward()
    assert ref_BT.grad is None


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_order_split_and_padding_change_nothing(name, batch, assert_same):
    logp_BT, ref_BT = batch("logp", 4, 5), batch("ref", 4, 5)
    estimate = KL_ESTIMATORS[name]
    whole_BT, order = estimate(logp_BT, ref_BT), torch.tensor([2, 0, 3, 1])
    assert_same(torch.cat([estimate(logp_BT[i], ref_BT[i]) for i in order.split(2)]), whole_BT[order])
    padding = torch.zeros(4, 2, dtype=torch.float64)
    padded_BT = estimate(torch.cat([logp_BT, padding], 1), torch.cat([ref_BT, padding], 1))
    assert_same(padded_BT, torch.cat([whole_BT, padding], 1))


@pytest.mark.parametrize("name", sorted(KL_ESTIMATORS))
def test_bad_shapes(name):
    with pytest.raises(ValueError, match=r"logp_BT: expected 2 axes \[B, T\], got shape \[3\]"):
        KL_ESTIMATORS[name](torch.zeros(3), torch.zeros(3))
    with pytest.raises(ValueError, match=r"ref_logp_BT: expected shape \[2, 3\] like logp_BT, got shape \[2, 1\]"):
        KL_ESTIMATORS[name](torch.zeros(2, 3), torch.zeros(2, 1))


def test_on_policy_bad_shapes():
    with pytest.raises(ValueError, match=r"kl_BT: expected shape \[2, 3\]"):
        on_policy(k1(torch.zeros(2, 1), torch.zeros(2, 1)), torch.zeros(2, 3))


# --- k3's clamp


@pytest.mark.parametrize(
    ("ratio", "bound", "value", "slope"),
    [
        (2.0, 3.0, 4.389056, -6.389056),  # inside: e^2 - 3 and 1 - e^2
        (4.0, 3.0, 16.085537, 0.0),  # beyond: e^3 - 4, and no gradient
        (-4.0, 3.0, 2.049787, 0.0),
        (1000.0, 20.0, 485165174.409790, 0.0),
    ],
)
def test_k3_holds_the_log_ratio(ratio, bound, value, slope):
    logp_BT = torch.tensor([[-ratio]], dtype=torch.float64, requires_grad=True)
    kl_BT = k3(logp_BT, torch.zeros(1, 1, dtype=torch.float64), max_log_ratio=bound)
    kl_BT.sum().backward()
    assert kl_BT.item() == pytest.approx(value, abs=1e-5)
    assert logp_BT.grad.item() == pytest.approx(slope, abs=1e-5)


def test_k3_of_a_token_that_one_model_rules_out_is_finite():
    for new, ref in ((-1e4, -1.0), (-1.0, -math.inf)):
        logp_BT = torch.tensor([[new]], requires_grad=True)
        kl_BT = k3(logp_BT, torch.tensor([[ref]]))
        kl_BT.sum().backward()
        assert kl_BT.isfinite().all() and logp_BT.grad.isfinite().all()


def test_k3_bad_bound():
    with pytest.raises(ValueError, match="max_log_ratio: expected a number above 0, in nats, got 0"):
        k3(LOGP_BT, REF_BT, max_log_ratio=0.0)
