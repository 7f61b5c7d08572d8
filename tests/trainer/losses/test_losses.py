"""What all losses share. Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.trainer.losses.aggregate import AGGREGATIONS, token_weights, weighted_sum
from verigym.trainer.losses.table import LOSSES

NAMES = sorted(LOSSES)
RAGGED_BT = torch.arange(5) < torch.tensor([2, 5, 3, 1])[:, None]


@pytest.mark.parametrize("name", NAMES)
def test_own_settings_are_keywords_with_defaults(name):
    first, second, third, *rest = inspect.signature(LOSSES[name].function).parameters.values()
    assert [first.name, second.name, third.name] == ["logp_BT", "old_logp_BT", "advantages"]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is not p.empty for p in rest)
    assert rest[0].name == "mask_BT"


@pytest.mark.parametrize("name", NAMES)
def test_zero_advantages_give_zero_loss_and_gradient(name, batch):
    logp_BT = batch("logp", 2, 4).requires_grad_()
    loss_BT, metrics = LOSSES[name].function(logp_BT, batch("old", 2, 4), torch.zeros(2, dtype=torch.float64))
    loss_BT.sum().backward()
    assert (loss_BT == 0).all()
    assert (logp_BT.grad == 0).all()
    assert not metrics["clipped_BT"].any()


@pytest.mark.parametrize("name", NAMES)
def test_no_gradient_into_old_logp_advantages_or_metrics(name, batch):
    logp_BT, old_BT = batch("logp", 2, 4).requires_grad_(), batch("old", 2, 4).requires_grad_()
    advantages_B = batch("advantages", 2).requires_grad_()
    loss_BT, metrics = LOSSES[name].function(logp_BT, old_BT, advantages_B)
    loss_BT.sum().backward()
    assert old_BT.grad is None
    assert advantages_B.grad is None
    assert set(metrics) == {"ratio_BT", "clipped_BT"}
    assert not any(metric.requires_grad for metric in metrics.values())
    assert metrics["ratio_BT"].shape == metrics["clipped_BT"].shape == (2, 4)
    assert metrics["clipped_BT"].dtype == torch.bool


@pytest.mark.parametrize("name", NAMES)
def test_a_higher_advantage_asks_for_a_higher_probability(name, batch):
    for advantage in (1.0, -1.0):
        logp_BT = (batch("old", 3, 4) - 1.0).requires_grad_()
        old_BT = logp_BT.detach()
        LOSSES[name].function(logp_BT, old_BT, torch.full((3,), advantage, dtype=torch.float64))[0].sum().backward()
        assert (logp_BT.grad * advantage < 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_advantages_a_row_are_the_same_for_each_of_its_tokens(name, batch, assert_same):
    advantages_B = batch("advantages", 4)
    by_row, _ = LOSSES[name].function(batch("logp", 4, 4), batch("old", 4, 4), advantages_B)
    by_token, _ = LOSSES[name].function(batch("logp", 4, 4), batch("old", 4, 4), advantages_B[:, None].repeat(1, 4))
    assert_same(by_row, by_token)


@pytest.mark.parametrize("name", NAMES)
def test_order_and_split_change_nothing(name, batch, assert_same):
    logp_BT, old_BT, advantages_B = batch("logp", 4, 5), batch("old", 4, 5), batch("advantages", 4)
    whole_BT, _ = LOSSES[name].function(logp_BT, old_BT, advantages_B, mask_BT=RAGGED_BT)
    order = torch.tensor([2, 0, 3, 1])
    parts = [LOSSES[name].function(logp_BT[i], old_BT[i], advantages_B[i], mask_BT=RAGGED_BT[i])[0] for i in order.split(2)]
    assert_same(torch.cat(parts), whole_BT[order])


@pytest.mark.parametrize("name", NAMES)
def test_a_mask_of_ones_is_no_mask(name, batch, assert_same):
    logp_BT, old_BT, advantages_B = batch("logp", 4, 5), batch("old", 4, 5), batch("advantages", 4)
    plain, masked = (
        LOSSES[name].function(logp_BT, old_BT, advantages_B, mask_BT=m) for m in (None, torch.ones_like(RAGGED_BT))
    )
    assert_same(masked[0], plain[0])
    assert torch.equal(masked[1]["clipped_BT"], plain[1]["clipped_BT"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, 1e30])
def test_what_stands_outside_the_mask_is_of_no_effect(name, junk, batch, assert_same):
    outcomes = []
    for filling in (0.0, junk):
        logp_BT = batch("logp", 4, 5).masked_fill(~RAGGED_BT, filling).requires_grad_()
        old_BT = batch("old", 4, 5).masked_fill(~RAGGED_BT, -filling)
        advantages_BT = batch("advantages", 4, 5).masked_fill(~RAGGED_BT, filling)
        loss_BT, metrics = LOSSES[name].function(logp_BT, old_BT, advantages_BT, mask_BT=RAGGED_BT)
        (loss_BT * RAGGED_BT).sum().backward()
        outcomes.append((loss_BT.detach(), logp_BT.grad, metrics["ratio_BT"], metrics["clipped_BT"].double()))
    for plain, dirty in zip(*outcomes, strict=True):
        assert_same(dirty, plain)
    loss_BT, gradient_BT = outcomes[1][:2]
    assert (loss_BT[~RAGGED_BT] == 0).all()
    assert (gradient_BT[~RAGGED_BT] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_rows_without_tokens(name, batch):
    logp_BT = batch("logp", 2, 3).requires_grad_()
    loss_BT, _ = LOSSES[name].function(logp_BT, logp_BT, batch("advantages", 2), mask_BT=torch.zeros(2, 3, dtype=torch.bool))
    loss_BT.sum().backward()
    assert (loss_BT == 0).all()
    assert (logp_BT.grad == 0).all()
    empty_BT = torch.zeros(0, 3)
    assert LOSSES[name].function(empty_BT, empty_BT, torch.zeros(0))[0].shape == (0, 3)


@cases("name", NAMES)
@cases("advantage", [-1.0, 0.0, 1.0])
@cases(("new", "before"), [(-1.0, -1e4), (-1e4, -1.0), (-1.0, -math.inf)])
def test_extreme_ratios_stay_finite(name, advantage, new, before):
    logp_BT = torch.tensor([[new, new]], requires_grad=True)
    loss_BT, metrics = LOSSES[name].function(logp_BT, torch.full((1, 2), before), torch.tensor([advantage]))
    loss_BT.sum().backward()
    assert loss_BT.isfinite().all()
    assert logp_BT.grad.isfinite().all()
    assert metrics["ratio_BT"].isfinite().all()


def gradient(name: str, kind: str, lengths: list[int], chunks: list[list[int]], batch) -> torch.Tensor:
    """The gradient of a small policy's loss, accumulated over micro-batches that are no wider than they must be."""
    rows, width = len(lengths), max(lengths)
    features, advantages_B = batch("features", rows, width, 4), batch("advantages", rows)
    parameter = batch("parameter", 4).requires_grad_()
    mask_BT = torch.arange(width) < torch.tensor(lengths)[:, None]
    weights_BT = token_weights(mask_BT, kind, max_tokens=8, dtype=torch.float64)
    for chunk in chunks:
        t = max(lengths[row] for row in chunk)
        logp_BT = torch.nn.functional.logsigmoid(features[chunk][:, :t] @ parameter)
        old_BT = torch.nn.functional.logsigmoid(features[chunk][:, :t] @ (parameter.detach() + 0.1))
        loss_BT, _ = LOSSES[name].function(logp_BT, old_BT, advantages_B[chunk], mask_BT=mask_BT[chunk][:, :t])
        weighted_sum(loss_BT, weights_BT[chunk][:, :t]).backward()
    assert parameter.grad is not None
    return parameter.grad


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    lengths=st.lists(st.integers(1, 8), min_size=2, max_size=8),
    kind=st.sampled_from(sorted(AGGREGATIONS)),
    cuts=st.sets(st.integers(1, 7)),
    shuffle=st.randoms(use_true_random=False),
)
def test_micro_batches_and_order_give_the_same_gradient(name, lengths, kind, cuts, shuffle, batch):
    order = list(range(len(lengths)))
    whole = gradient(name, kind, lengths, [order], batch)
    shuffle.shuffle(order)
    edges = [0, *sorted(cut for cut in cuts if cut < len(order)), len(order)]
    chunks = [order[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    torch.testing.assert_close(gradient(name, kind, lengths, chunks, batch), whole, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
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
        LOSSES[name].function(torch.zeros(logp), torch.zeros(old), torch.zeros(advantages))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_BT": torch.ones(2, 2, dtype=torch.bool)}, r"mask_BT: expected shape \[2, 3\]"),
        ({"mask_BT": torch.ones(2, 3)}, "mask_BT: expected a bool tensor, got torch.float32"),
        ({"max_log_ratio": 0.0}, "max_log_ratio: expected a number above 0"),
    ],
)
def test_bad_mask_and_bound(name, options, message):
    with pytest.raises(ValueError, match=message):
        LOSSES[name].function(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2), **options)
