"""Off-policy corrections: weights of tokens that were sampled from another distribution than the policy.

Shapes: B rows (completions), T tokens. `w = exp(old_logp - sampler_logp)` is the importance weight of a token: the policy's
probability divided by the sampler's. The weight differs from 1 if an engine generates with other kernels or in another
precision, and for completions that were sampled some updates ago. The sampler's log-probabilities must be those of the
distribution that was sampled from, after temperature, top-p and top-k.

`sampler_weights` returns bounded importance weights. `opsm` returns weights of 1 or 0: it drops completions of negative
advantage that the policy has already made unlikely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from verigym.trainer.tensor_shapes import check_same_shape


def _sequence(log_w_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    return log_w_BT.sum(dim=1, keepdim=True).expand_as(log_w_BT)


def _geometric(log_w_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    return _sequence(log_w_BT, mask_BT) / mask_BT.sum(dim=1, keepdim=True).clamp(min=1)


class Correction(NamedTuple):
    """One kind of importance weight, with its default bounds."""

    log_weight: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    """Function of the tokens' log ratios (0 outside the mask) and the mask; it returns the logs of the unbounded weights."""
    masked: bool
    """If True, weights outside `[low, high]` become 0; if False, weights above `high` become `high`."""
    low: float
    high: float


CORRECTIONS: dict[str, Correction] = {
    "token_truncated": Correction(lambda log_w_BT, mask_BT: log_w_BT, False, 0.0, 2.0),
    "token_masked": Correction(lambda log_w_BT, mask_BT: log_w_BT, True, 0.5, 5.0),
    "sequence_truncated": Correction(_sequence, False, 0.0, 3.0),
    "sequence_masked": Correction(_sequence, True, 0.0, 3.0),
    "geometric_truncated": Correction(_geometric, False, 0.0, 2.0),
    "geometric_masked": Correction(_geometric, True, 0.9, 1.1),
}
"""Every kind by name, with its default bounds."""


def sampler_weights(
    old_logp_BT: torch.Tensor,
    sampler_logp_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    *,
    kind: str,
    low: float | None = None,
    high: float | None = None,
) -> torch.Tensor:
    """Return a weight for each token's loss that corrects for the difference between the policy and the sampler.

    The weight is the ratio of the policy's probability to the sampler's, bounded. `kind` is `RATIO_BOUND`, such as
    `token_truncated`: the first part says how the ratio is formed, the second how it is bounded.

    - `token_`: each token has its own ratio.
    - `sequence_`: every token has the product of its row's ratios. This is exact for the completion, but its variance grows
      with the completion's length.
    - `geometric_`: every token has the geometric mean of its row's ratios. It has low variance, but is not an importance
      weight.
    - `_truncated`: a ratio above `high` becomes `high`, so that a few tokens cannot dominate the gradient (TIS).
    - `_masked`: a ratio below `low` or above `high` becomes 0, because it says more about the difference between policy and
      sampler than about the task (IcePop; TRL's sequence mask).

    Args:
        old_logp_BT: log-probabilities of the sampled tokens under the policy before the update, in nats.
        sampler_logp_BT: the same under the distribution that they were drawn from, in nats.
        mask_BT: bool, True on real tokens.
        kind: a name in `CORRECTIONS`.
        low: lower bound of the ratio, at least 0; only masked kinds use it. None for the kind's default.
        high: upper bound of the ratio, finite; None for the kind's default.

    Returns:
        Weights `[B, T]` without a unit or a gradient, 0 outside the mask; multiply `loss_BT` with them.

    Raises:
        ValueError: the shapes do not fit, `kind` is unknown, or a bound does not fit.
    """
    _check(mask_BT, old_logp_BT=old_logp_BT, sampler_logp_BT=sampler_logp_BT)
    if kind not in CORRECTIONS:
        raise ValueError(f"kind: unknown correction {kind!r}; known: {', '.join(sorted(CORRECTIONS))}")
    correction = CORRECTIONS[kind]
    if low is not None and not correction.masked:
        raise ValueError(f"low: {kind} has no lower bound, got {low}; leave it out or take a masked kind")
    low, high = correction.low if low is None else low, correction.high if high is None else high
    if not 0.0 <= low <= high < float("inf"):
        raise ValueError(f"low, high: expected finite numbers with 0 <= low <= high, got {low} and {high}")
    log_w_BT = (old_logp_BT - sampler_logp_BT).detach().masked_fill(~mask_BT, 0.0)
    w_BT = correction.log_weight(log_w_BT, mask_BT).exp()
    dropped_BT = ~mask_BT | ((w_BT < low) | (w_BT > high) if correction.masked else False)
    return w_BT.clamp(max=high).masked_fill(dropped_BT, 0.0)


def opsm(
    logp_BT: torch.Tensor, old_logp_BT: torch.Tensor, advantages: torch.Tensor, mask_BT: torch.Tensor, *, delta: float
) -> torch.Tensor:
    """Return a mask that drops completions of negative advantage that the policy has already made unlikely.

    This is OPSM (arXiv 2512.02556). Such a completion is dropped if the mean of `old_logp - logp` over its tokens is above
    `delta`. Making unlikely completions still less likely costs stability and teaches little.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the policy that sampled them, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token: then only tokens of negative advantage are dropped.
        mask_BT: bool, True on real tokens.
        delta: largest mean difference, in nats per token; at least 0.

    Returns:
        The mask `[B, T]` in the dtype of `logp_BT`, without a gradient: 0 for dropped tokens and outside `mask_BT`, 1 for all
        other tokens.

    Raises:
        ValueError: the shapes do not fit, or `delta` is below 0.
    """
    _check(mask_BT, logp_BT=logp_BT, old_logp_BT=old_logp_BT)
    if not delta >= 0.0:
        raise ValueError(f"delta: expected a number of at least 0, in nats, got {delta}")
    if advantages.shape == logp_BT.shape[:1]:
        advantages = advantages[:, None]
    elif advantages.shape != logp_BT.shape:
        expected = f"expected shape {list(logp_BT.shape[:1])} or {list(logp_BT.shape)}"
        raise ValueError(f"advantages: {expected}, got {list(advantages.shape)}")
    moved_BT = _geometric((old_logp_BT - logp_BT).detach().masked_fill(~mask_BT, 0.0), mask_BT)
    return (mask_BT & ~((advantages < 0) & (moved_BT > delta))).to(logp_BT.dtype)


def _check(mask_BT: torch.Tensor, **logp_BT: torch.Tensor) -> None:
    check_same_shape("BT", **logp_BT, mask_BT=mask_BT)
    if mask_BT.dtype != torch.bool:
        raise ValueError(f"mask_BT: expected a bool tensor, got {mask_BT.dtype}")
