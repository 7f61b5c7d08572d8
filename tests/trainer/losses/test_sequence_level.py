"""Losses of whole completions. Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import math

import pytest
import torch
from logps import ADVANTAGES_BT, OLD_BT, at_ratio

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.update import UpdateFields
from verigym.trainer.learner.objective import choose_loss
from verigym.trainer.losses.aggregate import AGGREGATIONS, token_weights, weighted_sum
from verigym.trainer.losses.sequence_level import gmpo, gspo, sequence_reinforce
from verigym.trainer.losses.table import LOSSES
from verigym.trainer.losses.token_level import reinforce

NAMES = sorted(name for name, loss in LOSSES.items() if loss.whole_completions)
RAGGED_BT = torch.arange(5) < torch.tensor([2, 5, 3])[:, None]


def naive(name: str, logp: list[float], old: list[float], a: float) -> float:
    """One completion's loss by the definition, one token at a time."""
    steps = [x - before for x, before in zip(logp, old, strict=True)]
    if name == "gspo":
        s = math.exp(math.fsum(steps) / len(steps))
        return -min(s * a, min(max(s, 1 - 3e-4), 1 + 4e-4) * a)
    if name == "gmpo":
        held = [min(step, 0.4) if a > 0 else max(step, -0.4) for step in steps]
        return -math.exp(math.fsum(held) / len(held)) * a
    return -a * math.fsum(logp)


# --- literals


def test_gspo_literals(assert_literal):
    loss_BT, metrics = gspo(at_ratio(0.5, 1, 1.5), OLD_BT, ADVANTAGES_BT, clip_low=0.2, clip_high=0.2)
    assert_literal(loss_BT, [[-0.908560, 0.908560, -1.817121]])
    assert_literal(metrics["ratio_BT"], [[0.908560] * 3])
    assert not metrics["clipped_BT"].any()


def test_gspo_clips_with_the_rows_ratio(assert_literal):
    # By default from .9997 to 1.0004, and .90856 is below: it binds where the advantage is negative.
    loss_BT, metrics = gspo(at_ratio(0.5, 1, 1.5), OLD_BT, ADVANTAGES_BT)
    assert_literal(loss_BT, [[-0.908560, 0.9997, -1.817121]])
    assert metrics["clipped_BT"].tolist() == [[False, True, False]]


@pytest.mark.parametrize(
    ("advantage", "expected", "clipped"),
    [(1.0, -0.906907, [False, False, True]), (-1.0, 1.001823, [True, False, False]), (0.0, 0.0, [False] * 3)],
)
def test_gmpo_literals(advantage, expected, clipped, assert_literal):
    loss_BT, metrics = gmpo(at_ratio(0.5, 1, 1.5), OLD_BT, torch.tensor([advantage], dtype=torch.float64))
    assert_literal(loss_BT, [[expected] * 3])
    assert_literal(metrics["ratio_BT"], [[0.5, 1.0, 1.5]])
    assert metrics["clipped_BT"].tolist() == [clipped]


def test_sequence_reinforce_literals(assert_literal):
    logp_BT = torch.tensor([[-0.5, -1.0, -2.0]], dtype=torch.float64)
    loss_BT, metrics = sequence_reinforce(logp_BT, logp_BT, torch.tensor([2.0], dtype=torch.float64))
    assert_literal(loss_BT, [[7.0, 7.0, 7.0]])
    assert_literal(metrics["ratio_BT"], [[1.0, 1.0, 1.0]])
    by_token_BT, _ = sequence_reinforce(logp_BT, logp_BT, ADVANTAGES_BT)
    assert_literal(by_token_BT, [[0.5 - 1.0 + 4.0] * 3])


# --- gradients


def test_gspo_gradient_is_shared_evenly(assert_literal):
    logp_BT = at_ratio(0.5, 1, 1.5)
    gspo(logp_BT, OLD_BT, torch.ones(1, dtype=torch.float64), clip_low=0.2, clip_high=0.2)[0].mean().backward()
    assert_literal(logp_BT.grad, [[-0.302853] * 3])


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name, batch):
    old_BT, advantages_B = batch("old", 3, 5), batch("advantages", 3)
    arguments = ((old_BT + 0.5 * batch("step", 3, 5)).requires_grad_(),)
    loss = LOSSES[name].function
    assert torch.autograd.gradcheck(lambda x: loss(x, old_BT, advantages_B, mask_BT=RAGGED_BT)[0], arguments)


def test_clipped_rows_are_those_without_a_gradient(batch):
    old_BT, advantages_B = batch("old", 50, 4), batch("advantages", 50)
    logp_BT = (old_BT + 0.3 * batch("step", 50, 4)).requires_grad_()
    loss_BT, metrics = gspo(logp_BT, old_BT, advantages_B, clip_low=0.1, clip_high=0.1)
    loss_BT.sum().backward()
    assert torch.equal(metrics["clipped_BT"], logp_BT.grad == 0)
    assert 0 < int(metrics["clipped_BT"].sum()) < 200


# --- properties


@pytest.mark.parametrize("name", NAMES)
def test_each_token_carries_the_rows_loss(name, batch, assert_same):
    logp_BT, old_BT, advantages_B = batch("logp", 3, 5), batch("old", 3, 5), batch("advantages", 3)
    loss_BT, _ = LOSSES[name].function(logp_BT, old_BT, advantages_B, mask_BT=RAGGED_BT)
    for row, length in enumerate((2, 5, 3)):
        expected = naive(name, logp_BT[row, :length].tolist(), old_BT[row, :length].tolist(), float(advantages_B[row]))
        assert_same(loss_BT[row], [expected] * length + [0.0] * (5 - length))


@pytest.mark.parametrize("name", NAMES)
def test_at_ratio_1_the_gradient_is_that_of_reinforce(name, batch, assert_same):
    old_BT, advantages_B = batch("old", 3, 5), batch("advantages", 3)
    weights_BT = token_weights(RAGGED_BT, "sequence_mean", dtype=torch.float64)
    other = "sequence_sum_mean" if name == "sequence_reinforce" else "sequence_mean"
    gradients = []
    for loss, weights in (
        (LOSSES[name].function, weights_BT),
        (reinforce, token_weights(RAGGED_BT, other, dtype=torch.float64)),
    ):
        logp_BT = old_BT.clone().requires_grad_()
        weighted_sum(loss(logp_BT, old_BT, advantages_B, mask_BT=RAGGED_BT)[0], weights).backward()
        gradients.append(logp_BT.grad)
    assert_same(gradients[0], gradients[1])


def test_sequence_losses_name_those_that_need_sequence_mean(assert_literal):
    assert set(NAMES) == {name for name, loss in LOSSES.items() if loss.location.startswith("sequence_level:")}
    # Two rows of equal loss: with token_mean the longer one weighs more, with sequence_mean they cancel.
    mask_BT = torch.tensor([[True, False, False], [True, True, True]])
    logp_BT = torch.zeros(2, 3, dtype=torch.float64)
    loss_BT, _ = gspo(logp_BT, logp_BT, torch.tensor([1.0, -1.0], dtype=torch.float64), mask_BT=mask_BT)
    for kind, expected in (("sequence_mean", 0.0), ("token_mean", 0.5)):
        assert_literal(weighted_sum(loss_BT, token_weights(mask_BT, kind, dtype=torch.float64)), expected)


@pytest.mark.parametrize("name", NAMES)
def test_settings_with_another_aggregation_are_refused(name):
    choose_loss(UpdateFields(loss=name, aggregation="sequence_mean"))
    for kind in sorted(set(AGGREGATIONS) - {"sequence_mean"}):
        with pytest.raises(
            UsageError, match=f"field 'aggregation': {name} is a loss of whole completions, .*use sequence_mean"
        ):
            choose_loss(UpdateFields(loss=name, aggregation=kind))


# --- errors


@pytest.mark.parametrize(
    ("loss", "options", "message"),
    [
        (gspo, {"clip_low": 1.1}, "clip_low: expected"),
        (gspo, {"clip_high": math.nan}, "clip_high: expected"),
        (gmpo, {"clip_low": -0.1}, "clip_low: expected a number of at least 0, in nats"),
        (gmpo, {"clip_high": math.nan}, "clip_high: expected"),
    ],
)
def test_bad_settings(loss, options, message):
    with pytest.raises(ValueError, match=message):
        loss(OLD_BT, OLD_BT, ADVANTAGES_BT, **options)
