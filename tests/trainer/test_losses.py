"""Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.trainer.losses import LOSSES, clipped, reinforce

OLD_BT = torch.full((1, 3), -1.0, dtype=torch.float64)
ADVANTAGES_BT = torch.tensor([[1.0, -1.0, 2.0]], dtype=torch.float64)


def at_ratio(*ratios: float) -> torch.Tensor:
    """Log-probabilities whose ratio to `OLD_BT` is as given."""
    return (torch.tensor([ratios], dtype=torch.float64).log() + OLD_BT).requires_grad_()


def naive(
    logp: list[list[float]],
    old: list[list[float]],
    advantages: list[list[float]],
    low: float,
    high: float,
    dual: float | None,
) -> list[list[float]]:
    """The definition, one token at a time."""
    rows = []
    for row in zip(logp, old, advantages, strict=True):
        losses = []
        for new, before, a in zip(*row, strict=True):
            r = math.exp(new - before)
            loss = -min(r * a, min(max(r, 1 - low), 1 + high) * a)
            losses.append(min(loss, -dual * a) if dual is not None and a < 0 else loss)
        rows.append(losses)
    return rows


# --- literals


def test_clipped_literals(assert_literal):
    loss_BT, metrics = clipped(at_ratio(0.5, 1, 1.5), OLD_BT, ADVANTAGES_BT)
    assert_literal(loss_BT, [[-0.5, 1.0, -2.4]])
    assert_literal(loss_BT.mean(), -0.633333)
    assert_literal(metrics["ratio_BT"], [[0.5, 1.0, 1.5]])
    assert metrics["clipped_BT"].tolist() == [[False, False, True]]


def test_clip_higher_literals(assert_literal):
    loss_BT, _ = clipped(at_ratio(0.5, 1, 1.5), OLD_BT, ADVANTAGES_BT, clip_high=0.28)
    assert_literal(loss_BT, [[-0.5, 1.0, -2.56]])


def test_clip_low_literals(assert_literal):
    loss_BT, metrics = clipped(at_ratio(0.5, 0.5, 0.7), OLD_BT, -ADVANTAGES_BT.abs(), clip_low=0.4)
    assert_literal(loss_BT, [[0.6, 0.6, 1.4]])
    assert metrics["clipped_BT"].tolist() == [[True, True, False]]


@pytest.mark.parametrize(("dual_clip", "last", "last_clipped"), [(None, 40.0, False), (3.0, 12.0, True)])
def test_dual_clip_literals(dual_clip, last, last_clipped, assert_literal):
    advantages_BT = torch.tensor([[1.0, -1.0, -4.0]], dtype=torch.float64)
    loss_BT, metrics = clipped(at_ratio(0.5, 1, 10), OLD_BT, advantages_BT, dual_clip=dual_clip)
    assert_literal(loss_BT, [[-0.5, 1.0, last]])
    assert metrics["clipped_BT"].tolist() == [[False, False, last_clipped]]


def test_dual_clip_leaves_advantages_of_at_least_zero_alone(assert_literal):
    advantages_BT = torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64)
    loss_BT, metrics = clipped(at_ratio(10, 10, 4), OLD_BT, advantages_BT, clip_high=5.0, dual_clip=3.0)
    assert_literal(loss_BT, [[0.0, -6.0, -4.0]])
    assert metrics["clipped_BT"].tolist() == [[False, True, False]]


def test_reinforce_literals(assert_literal):
    logp_BT = torch.tensor([[-0.5, -1.0, -2.0]], dtype=torch.float64)
    loss_BT, metrics = reinforce(logp_BT, logp_BT, ADVANTAGES_BT)
    assert_literal(loss_BT, [[0.5, -1.0, 4.0]])
    assert_literal(metrics["ratio_BT"], [[1.0, 1.0, 1.0]])
    assert not metrics["clipped_BT"].any()


# --- gradients


@pytest.mark.parametrize(
    ("ratios", "advantages", "options", "expected"),
    [
        # -rA inside the range and wherever the unclipped term is the smaller one, 0 beyond it.
        ((0.5, 1.0, 1.5), (1.0, -1.0, 2.0), {}, [-0.5, 1.0, 0.0]),
        ((0.5, 1.0, 1.5), (-1.0, 0.0, -2.0), {}, [0.0, 0.0, 3.0]),
        ((0.5, 1.0, 1.25), (1.0, -1.0, 2.0), {"clip_high": 0.28}, [-0.5, 1.0, -2.5]),
        ((0.5, 1.0, 10.0), (1.0, -1.0, -4.0), {}, [-0.5, 1.0, 40.0]),
        ((0.5, 1.0, 10.0), (1.0, -1.0, -4.0), {"dual_clip": 3.0}, [-0.5, 1.0, 0.0]),
    ],
)
def test_clipped_gradient_literals(ratios, advantages, options, expected, assert_literal):
    logp_BT = at_ratio(*ratios)
    loss_BT, _ = clipped(logp_BT, OLD_BT, torch.tensor([advantages], dtype=torch.float64), **options)
    loss_BT.sum().backward()
    assert_literal(logp_BT.grad, [expected])


@pytest.mark.parametrize("dual_clip", [None, 2.0])
def test_clipped_gradcheck(dual_clip, batch):
    old_BT, advantages_BT = batch("old", 3, 7), batch("advantages", 3, 7)
    logp_BT = (old_BT + 0.5 * batch("step", 3, 7)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: clipped(x, old_BT, advantages_BT, dual_clip=dual_clip)[0], (logp_BT,))


def test_clipped_tokens_are_those_without_a_gradient(batch):
    old_BT, advantages_BT = batch("old", 4, 50), batch("advantages", 4, 50)
    for dual_clip in (None, 1.5):
        logp_BT = (old_BT + 0.7 * batch("step", 4, 50)).requires_grad_()
        loss_BT, metrics = clipped(logp_BT, old_BT, advantages_BT, dual_clip=dual_clip)
        loss_BT.sum().backward()
        assert torch.equal(metrics["clipped_BT"], logp_BT.grad == 0)
        assert 0 < int(metrics["clipped_BT"].sum()) < 200


# --- properties


def test_ratio_1_has_the_gradient_of_reinforce(batch, assert_same):
    gradients = []
    for loss in (clipped, reinforce):
        logp_BT = batch("logp", 3, 5).requires_grad_()
        loss(logp_BT, logp_BT, batch("advantages", 3))[0].sum().backward()
        gradients.append(logp_BT.grad)
    assert_same(gradients[0], gradients[1])
    assert_same(gradients[0], -batch("advantages", 3)[:, None].expand(3, 5))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_zero_advantages_give_zero_loss_and_gradient(name, batch):
    logp_BT = batch("logp", 2, 4).requires_grad_()
    loss_BT, metrics = LOSSES[name](logp_BT, batch("old", 2, 4), torch.zeros(2, dtype=torch.float64))
    loss_BT.sum().backward()
    assert (loss_BT == 0).all()
    assert (logp_BT.grad == 0).all()
    assert not metrics["clipped_BT"].any()


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_no_gradient_into_old_logp_advantages_or_metrics(name, batch):
    logp_BT, old_BT = batch("logp", 2, 4).requires_grad_(), batch("old", 2, 4).requires_grad_()
    advantages_B = batch("advantages", 2).requires_grad_()
    loss_BT, metrics = LOSSES[name](logp_BT, old_BT, advantages_B)
    loss_BT.sum().backward()
    assert old_BT.grad is None
    assert advantages_B.grad is None
    assert not any(metric.requires_grad for metric in metrics.values())


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_advantages_a_row_are_the_same_for_each_of_its_tokens(name, batch, assert_same):
    advantages_B = batch("advantages", 4)
    by_row, _ = LOSSES[name](batch("logp", 4, 4), batch("old", 4, 4), advantages_B)
    by_token, _ = LOSSES[name](batch("logp", 4, 4), batch("old", 4, 4), advantages_B[:, None].repeat(1, 4))
    assert_same(by_row, by_token)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_order_split_and_padding_change_nothing(name, batch, assert_same):
    logp_BT, old_BT, advantages_B = batch("logp", 4, 5), batch("old", 4, 5), batch("advantages", 4)
    whole_BT, _ = LOSSES[name](logp_BT, old_BT, advantages_B)
    order = torch.tensor([2, 0, 3, 1])
    parts = [LOSSES[name](logp_BT[i], old_BT[i], advantages_B[i])[0] for i in order.split(2)]
    assert_same(torch.cat(parts), whole_BT[order])
    padding = torch.zeros(4, 2, dtype=torch.float64)
    padded_BT, _ = LOSSES[name](torch.cat([logp_BT, padding], 1), torch.cat([old_BT, padding], 1), advantages_B)
    assert_same(padded_BT[:, :5], whole_BT)
    assert padded_BT.isfinite().all()


@pytest.mark.parametrize("advantage", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize(("new", "before"), [(-1.0, -1e4), (-1e4, -1.0), (-1.0, -math.inf)])
def test_extreme_ratios_stay_finite(advantage, new, before):
    logp_BT = torch.tensor([[new]], requires_grad=True)
    loss_BT, metrics = clipped(logp_BT, torch.tensor([[before]]), torch.tensor([advantage]))
    loss_BT.sum().backward()
    assert loss_BT.isfinite().all()
    assert logp_BT.grad.isfinite().all()
    assert metrics["ratio_BT"].isfinite().all()


# --- parity

token = st.tuples(st.floats(-5, 0), st.floats(-5, 0), st.floats(-3, 3))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 4).flatmap(lambda t: st.lists(st.lists(token, min_size=t, max_size=t), min_size=1, max_size=3)),
    low=st.floats(0, 1),
    high=st.floats(0, 5),
    dual=st.one_of(st.none(), st.floats(1.01, 10)),
)
def test_parity_with_the_naive_loop(rows, low, high, dual, assert_same):
    columns = [[[values[i] for values in row] for row in rows] for i in range(3)]
    logp_BT, old_BT, advantages_BT = (torch.tensor(column, dtype=torch.float64) for column in columns)
    loss_BT, _ = clipped(logp_BT, old_BT, advantages_BT, clip_low=low, clip_high=high, dual_clip=dual)
    assert_same(loss_BT, naive(*columns, low, high, dual))


def test_reinforce_parity_with_the_naive_loop(batch, assert_same):
    logp_BT, advantages_B = batch("logp", 3, 4), batch("advantages", 3)
    expected = [[-a * x for x in row] for row, a in zip(logp_BT.tolist(), advantages_B.tolist(), strict=True)]
    assert_same(reinforce(logp_BT, logp_BT, advantages_B)[0], expected)


# --- errors


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize(
    ("logp", "old", "advantages", "message"),
    [
        ((3,), (3,), (3,), r"logp_BT: expected 2 axes \[B, T\], got shape \[3\]"),
        ((2, 3), (2, 4), (2,), r"old_logp_BT: expected shape \[2, 3\] like logp_BT, got shape \[2, 4\]"),
        ((2, 3), (2, 3), (3,), r"advantages: expected shape \[2\] \(one a row\) or \[2, 3\] .* got shape \[3\]"),
        ((2, 3), (2, 3), (2, 1), r"advantages: expected shape \[2\]"),
    ],
)
def test_bad_shapes(name, logp, old, advantages, message):
    with pytest.raises(ValueError, match=message):
        LOSSES[name](torch.zeros(logp), torch.zeros(old), torch.zeros(advantages))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_low": 1.2}, "clip_low: expected"),
        ({"clip_low": -0.2}, "clip_low: expected"),
        ({"clip_high": -0.2}, "clip_high: expected"),
        ({"clip_high": math.nan}, "clip_high: expected"),
        ({"dual_clip": 1.0}, "dual_clip: expected"),
        ({"max_log_ratio": 0.0}, "max_log_ratio: expected"),
    ],
)
def test_bad_bounds(options, message):
    with pytest.raises(ValueError, match=message):
        clipped(OLD_BT, OLD_BT, ADVANTAGES_BT, **options)
