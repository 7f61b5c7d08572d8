"""Losses with one ratio a token. Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from logps import ADVANTAGES_BT, OLD_BT, at_ratio

from verigym.trainer.losses.token_level import cispo, clipped, reinforce, sapo


def naive(
    logp: list[list[float]],
    old: list[list[float]],
    advantages: list[list[float]],
    low: float,
    high: float,
    dual: float | None,
    delta: float | None = None,
) -> list[list[float]]:
    """The definition, one token at a time."""
    rows = []
    for row in zip(logp, old, advantages, strict=True):
        losses = []
        for new, before, a in zip(*row, strict=True):
            r = math.exp(new - before)
            loss = -min((r if delta is None else min(r, delta)) * a, min(max(r, 1 - low), 1 + high) * a)
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


@pytest.mark.parametrize(("delta", "last", "last_clipped"), [(None, 40.0, False), (4.0, 16.0, True), (20.0, 40.0, False)])
def test_two_sided_literals(delta, last, last_clipped, assert_literal):
    advantages_BT = torch.tensor([[1.0, -1.0, -4.0]], dtype=torch.float64)
    loss_BT, metrics = clipped(at_ratio(0.5, 1, 10), OLD_BT, advantages_BT, delta=delta)
    assert_literal(loss_BT, [[-0.5, 1.0, last]])
    assert metrics["clipped_BT"].tolist() == [[False, False, last_clipped]]


@pytest.mark.parametrize(
    ("options", "expected", "changed"),
    [
        ({"clip_low": 0.2, "clip_high": 0.2}, [1.354518, -1.0, 1.426884], [True, False, True]),
        ({"clip_low": 1.0, "clip_high": 4.0}, [0.846574, -1.0, 1.783605], [False, False, False]),
        ({}, [0.846574, -1.0, 1.783605], [False, False, False]),
    ],
)
def test_cispo_literals(options, expected, changed, assert_literal):
    loss_BT, metrics = cispo(at_ratio(0.5, 1, 1.5), OLD_BT, ADVANTAGES_BT, **options)
    assert_literal(loss_BT, [expected])
    assert_literal(metrics["ratio_BT"], [[0.5, 1.0, 1.5]])
    assert metrics["clipped_BT"].tolist() == [changed]


def test_sapo_literals(assert_literal):
    loss_BT, metrics = sapo(at_ratio(0.5, 1, 1.5), OLD_BT, ADVANTAGES_BT)
    assert_literal(loss_BT, [[-1.510163, 1.904762, -4.979675]])
    assert_literal(metrics["ratio_BT"], [[0.5, 1.0, 1.5]])
    assert not metrics["clipped_BT"].any()


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


@pytest.mark.parametrize("options", [{}, {"dual_clip": 2.0}, {"delta": 2.0}, {"clip_high": 1.0, "delta": 1.5}])
def test_clipped_gradcheck(options, batch):
    old_BT, advantages_BT = batch("old", 3, 7), batch("advantages", 3, 7)
    logp_BT = (old_BT + 0.5 * batch("step", 3, 7)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: clipped(x, old_BT, advantages_BT, **options)[0], (logp_BT,))


def test_clipped_tokens_are_those_without_a_gradient(batch):
    old_BT, advantages_BT = batch("old", 4, 50), batch("advantages", 4, 50)
    for options in ({}, {"dual_clip": 1.5}, {"delta": 1.5}, {"clip_high": 1.0, "delta": 1.5}, {"delta": 3.0, "dual_clip": 1.5}):
        logp_BT = (old_BT + 0.7 * batch("step", 4, 50)).requires_grad_()
        loss_BT, metrics = clipped(logp_BT, old_BT, advantages_BT, **options)
        loss_BT.sum().backward()
        assert torch.equal(metrics["clipped_BT"], logp_BT.grad == 0)
        assert 0 < int(metrics["clipped_BT"].sum()) < 200


def test_cispo_gradient_is_the_clipped_ratio_times_the_advantage(assert_literal):
    logp_BT = at_ratio(0.5, 1, 7)
    cispo(logp_BT, OLD_BT, ADVANTAGES_BT)[0].sum().backward()
    assert_literal(logp_BT.grad, [[-0.5, 1.0, -10.0]])


def test_cispo_gradcheck_where_the_weight_is_constant(batch):
    # With a band of width 0 the weight is 1 everywhere, and the loss is as differentiable as its value says.
    old_BT, advantages_BT = batch("old", 3, 4), batch("advantages", 3, 4)
    arguments = (batch("logp", 3, 4).requires_grad_(),)
    assert torch.autograd.gradcheck(lambda x: cispo(x, old_BT, advantages_BT, clip_low=0.0, clip_high=0.0)[0], arguments)


def test_sapo_gradient_literals(assert_literal):
    # -4 s (1 - s) r A with s = sigmoid(tau (r - 1)): at a ratio of 1 it is -A, at .5 a little less than half of it.
    logp_BT = at_ratio(0.5, 1, 1.5)
    sapo(logp_BT, OLD_BT, ADVANTAGES_BT)[0].sum().backward()
    assert_literal(logp_BT.grad, [[-0.470007, 1.0, -2.820044]])


def test_sapo_and_reinforce_gradcheck(batch):
    old_BT, advantages_BT = batch("old", 3, 7), batch("advantages", 3, 7)
    for loss in (sapo, reinforce):
        arguments = ((old_BT + 0.5 * batch("step", 3, 7)).requires_grad_(),)
        assert torch.autograd.gradcheck(lambda x, f=loss: f(x, old_BT, advantages_BT)[0], arguments)


# --- properties


def test_ratio_1_has_the_gradient_of_reinforce(batch, assert_same):
    gradients = []
    for loss in (reinforce, clipped, cispo, sapo):
        logp_BT = batch("logp", 3, 5).requires_grad_()
        loss(logp_BT, logp_BT, batch("advantages", 3))[0].sum().backward()
        gradients.append(logp_BT.grad)
    for gradient in gradients[1:]:
        assert_same(gradient, gradients[0])
    assert_same(gradients[0], -batch("advantages", 3)[:, None].expand(3, 5))


def test_two_sided_is_dual_clip_from_the_range_on(batch, assert_same):
    old_BT, advantages_BT = batch("old", 4, 50), batch("advantages", 4, 50)
    logp_BT = old_BT + batch("step", 4, 50)
    for bound in (1.2, 1.5, 4.0):
        two_sided = clipped(logp_BT, old_BT, advantages_BT, delta=bound)
        dual = clipped(logp_BT, old_BT, advantages_BT, dual_clip=bound)
        assert_same(two_sided[0], dual[0])
        assert torch.equal(two_sided[1]["clipped_BT"], dual[1]["clipped_BT"])


def test_sapo_fades_on_both_sides(batch):
    steps_BT = torch.linspace(-3.0, 3.0, 61, dtype=torch.float64)[None].requires_grad_()
    sapo(steps_BT, torch.zeros_like(steps_BT), torch.ones(1, dtype=torch.float64))[0].sum().backward()
    size_T = steps_BT.grad[0].abs()
    assert size_T[0] < 0.2 < size_T[30] and size_T[60] < 1e-6 < size_T[30]


# --- parity

token = st.tuples(st.floats(-5, 0), st.floats(-5, 0), st.floats(-3, 3))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rows=st.integers(1, 4).flatmap(lambda t: st.lists(st.lists(token, min_size=t, max_size=t), min_size=1, max_size=3)),
    low=st.floats(0, 1),
    high=st.floats(0, 5),
    dual=st.one_of(st.none(), st.floats(1.01, 10)),
    delta=st.one_of(st.none(), st.floats(1.01, 10)),
)
def test_parity_with_the_naive_loop(rows, low, high, dual, delta, assert_same):
    columns = [[[values[i] for values in row] for row in rows] for i in range(3)]
    logp_BT, old_BT, advantages_BT = (torch.tensor(column, dtype=torch.float64) for column in columns)
    loss_BT, _ = clipped(logp_BT, old_BT, advantages_BT, clip_low=low, clip_high=high, dual_clip=dual, delta=delta)
    assert_same(loss_BT, naive(*columns, low, high, dual, delta))


def test_reinforce_parity_with_the_naive_loop(batch, assert_same):
    logp_BT, advantages_B = batch("logp", 3, 4), batch("advantages", 3)
    expected = [[-a * x for x in row] for row, a in zip(logp_BT.tolist(), advantages_B.tolist(), strict=True)]
    assert_same(reinforce(logp_BT, logp_BT, advantages_B)[0], expected)


def test_cispo_and_sapo_parity_with_the_naive_loop(batch, assert_same):
    logp_BT, old_BT, advantages_BT = batch("logp", 3, 4), batch("old", 3, 4), batch("advantages", 3, 4)
    weights, gates = [], []
    for x, before, a in zip(
        logp_BT.flatten().tolist(), old_BT.flatten().tolist(), advantages_BT.flatten().tolist(), strict=True
    ):
        r, tau = math.exp(x - before), 2.0 if a > 0 else 3.0
        weights.append(-min(max(r, 0.5), 1.5) * a * x)
        gates.append(-4 / tau / (1 + math.exp(-tau * (r - 1))) * a)
    assert_same(cispo(logp_BT, old_BT, advantages_BT, clip_low=0.5, clip_high=0.5)[0].flatten(), weights)
    assert_same(sapo(logp_BT, old_BT, advantages_BT, tau_positive=2.0, tau_negative=3.0)[0].flatten(), gates)


# --- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip_low": 1.2}, "clip_low: expected"),
        ({"clip_low": -0.2}, "clip_low: expected"),
        ({"clip_high": -0.2}, "clip_high: expected"),
        ({"clip_high": math.nan}, "clip_high: expected"),
        ({"dual_clip": 1.0}, "dual_clip: expected"),
        ({"delta": 1.0}, "delta: expected a number above 1"),
        ({"delta": math.nan}, "delta: expected"),
        ({"max_log_ratio": 0.0}, "max_log_ratio: expected"),
    ],
)
def test_clipped_bad_bounds(options, message):
    with pytest.raises(ValueError, match=message):
        clipped(OLD_BT, OLD_BT, ADVANTAGES_BT, **options)


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        (cispo, {"clip_low": 1.1}, "clip_low: expected"),
        (cispo, {"clip_high": -1.0}, "clip_high: expected"),
        (sapo, {"tau_positive": 0.0}, "tau_positive: expected"),
        (sapo, {"tau_negative": math.inf}, "tau_negative: expected"),
    ],
)
def test_bad_settings(loss, options, message):
    with pytest.raises(ValueError, match=message):
        loss(OLD_BT, OLD_BT, ADVANTAGES_BT, **options)
