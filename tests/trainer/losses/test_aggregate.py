"""Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.trainer.losses.aggregate import AGGREGATIONS, token_weights, weighted_sum
from verigym.trainer.losses.token_level import clipped

KINDS = sorted(AGGREGATIONS)
MAX_TOKENS = 8


def weights(mask_BT: torch.Tensor, kind: str) -> torch.Tensor:
    return token_weights(mask_BT, kind, max_tokens=MAX_TOKENS, dtype=torch.float64)


def ragged(rows: list[list[float]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pad the rows with 99, a value that shows where it should not be, and mask the padding."""
    length = max(len(row) for row in rows)
    values = [row + [99.0] * (length - len(row)) for row in rows]
    mask = [[True] * len(row) + [False] * (length - len(row)) for row in rows]
    return torch.tensor(values, dtype=torch.float64), torch.tensor(mask)


def naive(values: list[list[float]], mask: list[list[bool]], kind: str) -> float:
    """The definition, one token at a time."""
    rows = [[v for v, m in zip(*row, strict=True) if m] for row in zip(values, mask, strict=True)]
    rows = [row for row in rows if row]
    if not rows:
        return 0.0
    return {
        "sequence_mean": sum(sum(row) / len(row) for row in rows) / len(rows),
        "token_mean": sum(map(sum, rows)) / sum(map(len, rows)),
        "fixed_length": sum(map(sum, rows)) / (len(rows) * MAX_TOKENS),
        "sequence_sum_mean": sum(map(sum, rows)) / len(rows),
    }[kind]


# --- literals


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("sequence_mean", 1.5, 2.0),
        ("token_mean", 1.5, 2.333333),
        ("fixed_length", 0.5625, 0.875),
        ("sequence_sum_mean", 4.5, 7.0),
    ],
)
def test_loss_literals(kind, first, second, assert_literal):
    for rows, expected in (([[1, 2], [1, 1, 1, 3]], first), ([[1, 1], [3, 3, 3, 3]], second)):
        values_BT, mask_BT = ragged(rows)
        assert_literal(weighted_sum(values_BT, weights(mask_BT, kind)), expected)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sequence_mean", [[0.25, 0.25, 0, 0], [0, 0, 0, 0], [0.125] * 4]),
        ("token_mean", [[0.166667, 0.166667, 0, 0], [0, 0, 0, 0], [0.166667] * 4]),
        ("fixed_length", [[0.0625, 0.0625, 0, 0], [0, 0, 0, 0], [0.0625] * 4]),
        ("sequence_sum_mean", [[0.5, 0.5, 0, 0], [0, 0, 0, 0], [0.5] * 4]),
    ],
)
def test_weight_literals_with_a_masked_row_left_out(kind, expected, assert_literal):
    mask_BT = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=torch.bool)
    assert_literal(weights(mask_BT, kind), expected)


def test_the_mask_may_have_holes(assert_literal):
    mask_BT = torch.tensor([[True, False, True], [False, True, False]])
    assert_literal(weights(mask_BT, "sequence_mean"), [[0.25, 0, 0.25], [0, 0.5, 0]])


# --- gradients


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_in_the_values_is_the_weight(kind, batch, assert_same):
    mask_BT = batch("mask", 3, 5) > 0
    values_BT = batch("values", 3, 5).requires_grad_()
    weighted_sum(values_BT, weights(mask_BT, kind)).backward()
    assert_same(values_BT.grad, weights(mask_BT, kind))
    assert torch.autograd.gradcheck(lambda v: weighted_sum(v, weights(mask_BT, kind)), (values_BT,))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fully_masked_batch_gives_zero_with_a_graph(kind):
    weights_BT = token_weights(torch.zeros(2, 3, dtype=torch.bool), kind, max_tokens=MAX_TOKENS)
    values_BT = torch.full((2, 3), float("nan"), requires_grad=True)
    loss = weighted_sum(values_BT, weights_BT)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(values_BT.grad, torch.zeros(2, 3))


# --- properties


def policy_gradient(kind: str, chunks: list[list[int]], padding: int, batch) -> torch.Tensor:
    """The gradient of a small policy's loss, accumulated over micro-batches of the given rows."""
    features, advantages_B = batch("features", 8, 6, 4), batch("advantages", 8)
    lengths_B = torch.tensor([1, 6, 3, 2, 0, 5, 4, 6])
    mask_BT = torch.arange(6 + padding) < lengths_B[:, None]
    features = torch.cat([features, torch.zeros(8, padding, 4, dtype=torch.float64)], dim=1)
    weights_BT = weights(mask_BT, kind)
    parameter = batch("parameter", 4).requires_grad_()
    old_BT = torch.nn.functional.logsigmoid(features @ (parameter.detach() + 0.3))
    for rows in chunks:
        logp_BT = torch.nn.functional.logsigmoid(features[rows] @ parameter)
        loss_BT, _ = clipped(logp_BT, old_BT[rows], advantages_B[rows])
        weighted_sum(loss_BT, weights_BT[rows]).backward()
    assert parameter.grad is not None
    return parameter.grad


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_order_and_padding_give_the_same_gradient(kind, batch, assert_same):
    whole = policy_gradient(kind, [list(range(8))], 0, batch)
    assert whole.abs().max() > 1e-3
    orders = ([0, 1, 2, 3, 4, 5, 6, 7], [5, 2, 7, 0, 4, 1, 6, 3])
    for order, size, padding in itertools.product(orders, (8, 4, 2, 1), (0, 3)):
        chunks = [order[i : i + size] for i in range(0, 8, size)]
        assert_same(policy_gradient(kind, chunks, padding, batch), whole)
    assert_same(policy_gradient(kind, [[1], [0, 2, 3, 4, 6], [5, 7]], 1, batch), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_trained_tokens_change_nothing(kind, batch, assert_same):
    mask_BT = batch("mask", 4, 5) > 0
    more_BT = torch.cat([mask_BT, torch.zeros(3, 5, dtype=torch.bool)])
    assert_same(weights(more_BT, kind)[:4], weights(mask_BT, kind))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    mask=st.integers(1, MAX_TOKENS).flatmap(
        lambda t: st.lists(st.lists(st.booleans(), min_size=t, max_size=t), min_size=1, max_size=5)
    )
)
def test_weights_of_the_means_sum_to_1(mask):
    mask_BT = torch.tensor(mask)
    expected = 1.0 if mask_BT.any() else 0.0
    for kind in ("sequence_mean", "token_mean"):
        assert weights(mask_BT, kind).sum().item() == pytest.approx(expected, abs=1e-12)
    for kind in KINDS:
        weights_BT = weights(mask_BT, kind)
        assert torch.equal(weights_BT > 0, mask_BT)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_lengths_make_the_means_agree(kind, batch, assert_same):
    values_BT, mask_BT = batch("values", 3, MAX_TOKENS), torch.ones(3, MAX_TOKENS, dtype=torch.bool)
    expected = values_BT.mean() * (MAX_TOKENS if kind == "sequence_sum_mean" else 1)
    assert_same(weighted_sum(values_BT, weights(mask_BT, kind)), expected)


def test_masked_nan_does_not_reach_the_loss(assert_literal):
    values_BT = torch.tensor([[1.0, float("nan")], [3.0, float("inf")]], dtype=torch.float64)
    mask_BT = torch.tensor([[True, False], [True, False]])
    assert_literal(weighted_sum(values_BT, weights(mask_BT, "token_mean")), 2.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_empty_batch(kind, shape):
    mask_BT = torch.ones(shape, dtype=torch.bool)
    assert weights(mask_BT, kind).shape == shape
    assert weighted_sum(torch.zeros(shape), weights(mask_BT, kind)).item() == 0.0


def test_dtype():
    mask_BT = torch.ones(2, 3, dtype=torch.bool)
    assert token_weights(mask_BT, "token_mean").dtype == torch.float32
    assert token_weights(mask_BT, "token_mean", dtype=torch.float64).dtype == torch.float64


# --- parity


@pytest.mark.parametrize("kind", KINDS)
def test_parity_with_the_naive_loop(kind, batch, assert_same):
    for rows in (1, 2, 5):
        values_BT, mask_BT = batch(f"values{rows}", rows, 7), batch(f"mask{rows}", rows, 7) > 0.5
        expected = naive(values_BT.tolist(), mask_BT.tolist(), kind)
        assert_same(weighted_sum(values_BT, weights(mask_BT, kind)), expected)


# --- errors


@pytest.mark.parametrize(
    ("mask_BT", "kind", "max_tokens", "message"),
    [
        (torch.ones(3, dtype=torch.bool), "token_mean", None, r"mask_BT: expected 2 axes \[B, T\], got shape \[3\]"),
        (torch.ones(2, 3), "token_mean", None, "mask_BT: expected a bool tensor, got torch.float32"),
        (torch.ones(2, 3, dtype=torch.bool), "mean", None, "unknown aggregation 'mean'; known: fixed_length, seq"),
        (torch.ones(2, 3, dtype=torch.bool), "fixed_length", None, "fixed_length needs the generation limit"),
        (torch.ones(2, 3, dtype=torch.bool), "fixed_length", 0, "at least 1 token, got 0"),
        (torch.ones(2, 3, dtype=torch.bool), "fixed_length", 2, "a row has 3 trained tokens, more than the limit of 2"),
    ],
)
def test_bad_arguments(mask_BT, kind, max_tokens, message):
    with pytest.raises(ValueError, match=message):
        token_weights(mask_BT, kind, max_tokens=max_tokens)


def test_weighted_sum_refuses_to_broadcast():
    with pytest.raises(ValueError, match=r"weights_BT: expected shape \[2, 3\] like values_BT, got shape \[2, 1\]"):
        weighted_sum(torch.zeros(2, 3), torch.zeros(2, 1))
