"""Policy losses of whole completions: every token of a row has the row's loss.

Shapes: B rows (completions), T tokens. `r = exp(logp - old_logp)` is a token's ratio, means are over a row's tokens, and `A` is
the advantage. All losses take `(logp_BT, old_logp_BT, advantages, *, mask_BT=None)` and settings of their own. They need the
aggregation `sequence_mean`, which counts the row's loss once; `token_mean` would weight a row by its length. The tokens of a
row must not be split over two calls.
"""

from __future__ import annotations

import torch

from verigym.trainer.losses.common import LossAndMetrics, check_range, clamp_log_ratio, outside_clip, prepare


def _row_mean(values_BT: torch.Tensor, mask_BT: torch.Tensor | None) -> torch.Tensor:
    """Average over the tokens of a row, as `[B, T]`; 0 for a row without tokens. Values outside the mask must be 0."""
    if mask_BT is None:
        return values_BT.mean(dim=1, keepdim=True).expand_as(values_BT)
    return (values_BT.sum(dim=1, keepdim=True) / mask_BT.sum(dim=1, keepdim=True).clamp(min=1)).expand_as(values_BT)


def gspo(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    clip_low: float = 3e-4,
    clip_high: float = 4e-4,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute PPO's clipped loss with one ratio per completion: `-min(s A, clip(s) A)`, where `s = exp(mean log r)`.

    This is GSPO (arXiv 2507.18071).

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the old policy, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        clip_low: distance of the lower bound of s from 1; 0 to 1. The default is small because s is a geometric mean, which
            moves far less than a token's ratio.
        clip_high: distance of the upper bound of s from 1; at least 0.
        max_log_ratio: see `common.clamp_log_ratio`, in nats; clamps the mean.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; both hold the row's value at each of its tokens.

    Raises:
        ValueError: the shapes do not fit, or a bound is outside its range.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    check_range(clip_low, clip_high)
    ratio_BT = clamp_log_ratio(_row_mean(logp_BT - old_logp_BT, mask_BT), max_log_ratio).exp()
    loss_BT = -torch.minimum(ratio_BT * advantages_BT, ratio_BT.clamp(1 - clip_low, 1 + clip_high) * advantages_BT)
    ratio_BT = ratio_BT.detach()
    return loss_BT, {"ratio_BT": ratio_BT, "clipped_BT": outside_clip(ratio_BT, advantages_BT, clip_low, clip_high)}


def gmpo(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    clip_low: float = 0.4,
    clip_high: float = 0.4,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute a loss from the geometric mean of clipped token ratios: `-exp(mean clip(log r)) A` (GMPO, arXiv 2507.20673).

    `log r` is at most `clip_high` where `A > 0` and at least `-clip_low` where `A < 0`; it is not bounded in the
    opposite direction.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the old policy, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        clip_low: `log r` is clipped below at `-clip_low`, in nats; at least 0.
        clip_high: `log r` is clipped above at `clip_high`, in nats; at least 0.
        max_log_ratio: see `common.clamp_log_ratio`, in nats; clamps the mean.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; both hold each token's own value.

    Raises:
        ValueError: the shapes do not fit, or a bound is outside its range.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    for name, bound in (("clip_low", clip_low), ("clip_high", clip_high)):
        if not bound >= 0.0:
            raise ValueError(f"{name}: expected a number of at least 0, in nats, got {bound}")
    log_ratio_BT = logp_BT - old_logp_BT
    good_BT, bad_BT = advantages_BT > 0, advantages_BT < 0
    bounded_BT = torch.where(good_BT, log_ratio_BT.clamp(max=clip_high), log_ratio_BT)
    bounded_BT = torch.where(bad_BT, log_ratio_BT.clamp(min=-clip_low), bounded_BT)
    loss_BT = -clamp_log_ratio(_row_mean(bounded_BT, mask_BT), max_log_ratio).exp() * advantages_BT

    log_ratio_BT = log_ratio_BT.detach()
    clipped_BT = (good_BT & (log_ratio_BT > clip_high)) | (bad_BT & (log_ratio_BT < -clip_low))
    return loss_BT, {"ratio_BT": clamp_log_ratio(log_ratio_BT, max_log_ratio).exp(), "clipped_BT": clipped_BT}


def sequence_reinforce(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute REINFORCE's loss of whole completions: `-A log p(completion)`, where `log p` is the sum over tokens.

    Aggregated by `sequence_mean`, it has the gradient of `reinforce` with `sequence_sum_mean`: long completions weigh more.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the sampling policy; for the metric only.
        advantages: `[B]`, one per completion, or `[B, T]`: then the row's loss is `-sum(A logp)`.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        max_log_ratio: see `common.clamp_log_ratio`, in nats; for the metric only.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; nothing is ever clipped.

    Raises:
        ValueError: the shapes do not fit.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    loss_BT = -(advantages_BT * logp_BT).sum(dim=1, keepdim=True).expand_as(logp_BT)
    if mask_BT is not None:
        loss_BT = loss_BT.masked_fill(~mask_BT, 0.0)
    ratio_BT = clamp_log_ratio((logp_BT - old_logp_BT).detach(), max_log_ratio).exp()
    return loss_BT, {"ratio_BT": ratio_BT, "clipped_BT": torch.zeros_like(ratio_BT, dtype=torch.bool)}
