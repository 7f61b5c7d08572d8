"""Shapes: B rows (completions), T tokens."""

from __future__ import annotations

import math

import pytest
import torch

from verigym.trainer.losses.corrections import CORRECTIONS, opsm, sampler_weights

OLD_BT = torch.full((1, 3), -1.0, dtype=torch.float64)
SAMPLER_BT = torch.tensor([[-0.5, -1.5, -0.8]], dtype=torch.float64)
MASK_BT = torch.ones(1, 3, dtype=torch.bool)
RAGGED_BT = torch.arange(5) < torch.tensor([2, 5, 3, 0])[:, None]
KINDS = sorted(CORRECTIONS)


def naive(kind: str, steps: list[float], low: float, high: float) -> list[float]:
    """The definition for one completion, one token at a time."""
    level, bounded = kind.split("_")
    total = math.fsum(steps)
    logs = {"token": steps, "sequence": [total] * len(steps), "geometric": [total / len(steps)] * len(steps)}[level]
    values = [math.exp(log) for log in logs]
    if bounded == "truncated":
        return [min(w, high) for w in values]
    return [w if low <= w <= high else 0.0 for w in values]


# --- literals


@pytest.mark.parametrize(
    ("kind", "bounds", "expected"),
    [
        ("token_truncated", {"high": 100.0}, [0.606531, 1.648721, 0.818731]),
        ("token_truncated", {"high": 1.2}, [0.606531, 1.2, 0.818731]),
        ("token_masked", {"low": 0.5, "high": 1.5}, [0.606531, 0.0, 0.818731]),
        ("token_masked", {"low": 0.7}, [0.0, 1.648721, 0.818731]),
        ("sequence_truncated", {}, [0.818731] * 3),
        ("sequence_truncated", {"high": 0.5}, [0.5] * 3),
        ("sequence_masked", {}, [0.818731] * 3),
        ("sequence_masked", {"low": 0.9}, [0.0] * 3),
        ("geometric_truncated", {}, [0.935507] * 3),
        ("geometric_truncated", {"high": 0.9}, [0.9] * 3),
        ("geometric_masked", {"low": 0.9, "high": 1.1}, [0.935507] * 3),
        ("geometric_masked", {"low": 0.99, "high": 1.01}, [0.0] * 3),
    ],
)
def test_literals(kind, bounds, expected, assert_literal):
    assert_literal(sampler_weights(OLD_BT, SAMPLER_BT, MASK_BT, kind=kind, **bounds), [expected])


def test_opsm_literals():
    # Means of old - new: .2 for both rows of each pair, and -.2; only what is bad and above delta goes.
    logp_BT = torch.tensor([[-1.0, -1.4, 9.0], [-1.3, -1.2, -1.1], [-0.8, -0.8, -0.8]], dtype=torch.float64)
    mask_BT = torch.tensor([[True, True, False], [True] * 3, [True] * 3])
    old_BT = OLD_BT.expand(3, 3)
    advantages_B = torch.tensor([-1.0, 1.0, -1.0])
    assert opsm(logp_BT, old_BT, advantages_B, mask_BT, delta=0.1).tolist() == [[0.0] * 3, [1.0] * 3, [1.0] * 3]
    assert opsm(logp_BT, old_BT, advantages_B, mask_BT, delta=0.3).tolist() == [[1.0, 1.0, 0.0], [1.0] * 3, [1.0] * 3]
    advantages_BT = torch.tensor([[1.0, -1.0, -1.0], [0.0, 1.0, -1.0], [-1.0] * 3])
    by_token = opsm(logp_BT, old_BT, advantages_BT, mask_BT, delta=0.1)
    assert by_token.tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0] * 3]


# --- properties


@pytest.mark.parametrize("kind", KINDS)
def test_parity_with_the_naive_loop(kind, batch, assert_same):
    old_BT, sampler_BT = batch("old", 4, 5), batch("sampler", 4, 5)
    bounds = {"low": 0.6, "high": 1.8} if kind.endswith("masked") else {"high": 1.8}
    actual_BT = sampler_weights(old_BT, sampler_BT, RAGGED_BT, kind=kind, **bounds)
    for row, length in enumerate((2, 5, 3)):
        steps = (old_BT - sampler_BT)[row, :length].tolist()
        assert_same(actual_BT[row], naive(kind, steps, 0.6, 1.8) + [0.0] * (5 - length))
    assert (actual_BT[3] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_no_gap_gives_1_and_the_mask(kind, batch, assert_same):
    logp_BT = batch("logp", 4, 5)
    assert_same(sampler_weights(logp_BT, logp_BT, RAGGED_BT, kind=kind), RAGGED_BT.double())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_padding_order_and_gradient(kind, junk, batch, assert_same):
    old_BT, sampler_BT = batch("old", 4, 5), batch("sampler", 4, 5)
    whole_BT = sampler_weights(old_BT, sampler_BT, RAGGED_BT, kind=kind)
    dirty_BT = old_BT.masked_fill(~RAGGED_BT, junk).requires_grad_()
    order = torch.tensor([2, 0, 3, 1])
    parts = [sampler_weights(dirty_BT[i], sampler_BT[i], RAGGED_BT[i], kind=kind) for i in order.split(3)]
    assert_same(torch.cat(parts), whole_BT[order])
    assert not parts[0].requires_grad


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_gaps_stay_finite(kind):
    for old, sampler in ((-1.0, -1e4), (-1e4, -1.0), (-1.0, -math.inf)):
        weights_BT = sampler_weights(torch.full((1, 2), old), torch.full((1, 2), sampler), MASK_BT[:, :2], kind=kind)
        assert weights_BT.isfinite().all()
        assert (weights_BT <= CORRECTIONS[kind].high).all()


def test_opsm_ignores_padding_and_has_no_gradient(batch):
    logp_BT = batch("logp", 4, 5).masked_fill(~RAGGED_BT, math.nan).requires_grad_()
    kept_BT = opsm(logp_BT, batch("old", 4, 5), torch.tensor([-1.0, -1.0, 1.0, -1.0]), RAGGED_BT, delta=0.0)
    moved = [float((batch("old", 4, 5) - batch("logp", 4, 5))[row, :length].mean()) > 0 for row, length in ((0, 2), (1, 5))]
    assert [bool((kept_BT[row] == 0).all()) for row in (0, 1)] == moved
    assert torch.equal(kept_BT[2:], RAGGED_BT[2:].double())
    assert not kept_BT.requires_grad


# --- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "tis"}, "kind: unknown correction 'tis'; known: geometric_masked"),
        ({"kind": "token_truncated", "low": 0.5}, "low: token_truncated has no lower bound, got 0.5"),
        ({"kind": "token_masked", "low": 2.0, "high": 1.0}, "0 <= low <= high, got 2.0 and 1.0"),
        ({"kind": "token_masked", "low": -1.0}, "low, high: expected finite numbers"),
        ({"kind": "token_masked", "low": 9.0}, "got 9.0 and 5.0"),
        ({"kind": "token_truncated", "high": math.inf}, "low, high: expected finite numbers"),
        ({"kind": "token_truncated", "high": math.nan}, "low, high: expected finite numbers"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        sampler_weights(OLD_BT, SAMPLER_BT, MASK_BT, **options)


def test_bad_tensors():
    with pytest.raises(ValueError, match=r"sampler_logp_BT: expected shape \[1, 3\] like old_logp_BT"):
        sampler_weights(OLD_BT, SAMPLER_BT[:, :2], MASK_BT, kind="token_masked")
    with pytest.raises(ValueError, match="mask_BT: expected a bool tensor"):
        sampler_weights(OLD_BT, SAMPLER_BT, MASK_BT.float(), kind="token_masked")
    with pytest.raises(ValueError, match=r"advantages: expected shape \[1\] or \[1, 3\], got \[3\]"):
        opsm(OLD_BT, OLD_BT, torch.zeros(3), MASK_BT, delta=0.1)
    with pytest.raises(ValueError, match="delta: expected a number of at least 0"):
        opsm(OLD_BT, OLD_BT, torch.zeros(1), MASK_BT, delta=-0.1)
