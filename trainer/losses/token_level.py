"""Policy losses in which each token has its own probability ratio.

Shapes: B rows (completions), T tokens. `r = exp(logp - old_logp)` is a token's ratio, and `A` is the advantage. All losses take
`(logp_BT, old_logp_BT, advantages, *, mask_BT=None)` and settings of their own; see `losses` for their common properties.
"""

from __future__ import annotations

import torch

from verigym.trainer.losses.common import LossAndMetrics, check_range, clamp_log_ratio, outside_clip, prepare


def clipped(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    delta: float | None = None,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute PPO's clipped surrogate loss: `-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)`.

    Here `r = exp(logp - old_logp)`, and `A` is the advantage. See PPO, arXiv 1707.06347; GRPO, arXiv 2402.03300; and DAPO,
    arXiv 2503.14476, for a higher upper bound ("clip-higher"). With `dual_clip` c (arXiv 1912.09729), the loss is at most
    `-c A` where `A < 0`. With `delta` (two-sided clip, arXiv 2505.07291), the r of the unclipped term is `min(r, delta)`. If
    `delta` and c are the same number, at least `1 + clip_high`, the two options give the same loss.

    At `r = 1` the gradient is that of REINFORCE. No gradient flows into the old log-probabilities and the advantages, so
    `clipped(logp, logp, A)` is the on-policy loss.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the policy that the clip range is centred on, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all are real. The loss is 0 where the mask is False, even at nan.
        clip_low: distance of the lower bound of r from 1; 0 to 1.
        clip_high: distance of the upper bound of r from 1; at least 0.
        dual_clip: c, above 1; None for no dual clip.
        delta: upper bound of r in the unclipped term, above 1; None for no bound.
        max_log_ratio: see `common.clamp_log_ratio`, in nats.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`.

    Raises:
        ValueError: the shapes do not fit, or a bound is outside its range.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    check_range(clip_low, clip_high)
    for name, bound in (("dual_clip", dual_clip), ("delta", delta)):
        if bound is not None and not bound > 1.0:
            raise ValueError(f"{name}: expected a number above 1, or None for none, got {bound}")
    ratio_BT = clamp_log_ratio(logp_BT - old_logp_BT, max_log_ratio).exp()
    unclipped_BT = ratio_BT if delta is None else ratio_BT.clamp(max=delta)
    loss_BT = -torch.minimum(unclipped_BT * advantages_BT, ratio_BT.clamp(1 - clip_low, 1 + clip_high) * advantages_BT)

    ratio_BT, bad_BT = ratio_BT.detach(), advantages_BT < 0
    clipped_BT = outside_clip(ratio_BT, advantages_BT, clip_low, clip_high)
    if dual_clip is not None:
        loss_BT = torch.where(bad_BT, torch.minimum(loss_BT, -dual_clip * advantages_BT), loss_BT)
        clipped_BT = clipped_BT | (bad_BT & (ratio_BT > dual_clip))
    if delta is not None:
        # Below 1 + clip_high, delta bounds both terms, except where A < 0 and the clipped term still grows.
        clipped_BT = clipped_BT | (bad_BT & (ratio_BT > max(delta, 1 + clip_high))) | ((advantages_BT > 0) & (ratio_BT > delta))
    return loss_BT, {"ratio_BT": ratio_BT, "clipped_BT": clipped_BT}


def cispo(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    clip_low: float = 1.0,
    clip_high: float = 4.0,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute REINFORCE's loss weighted with a clipped ratio: `-sg[clip(r, 1 - clip_low, 1 + clip_high)] A logp`.

    This is CISPO (arXiv 2506.13585). `r = exp(logp - old_logp)`, `A` is the advantage, and `sg` stops the gradient. No token
    loses its gradient, so rare tokens that change the course of a solution still count. The default clip range has no lower
    bound and an upper bound of 5.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the old policy, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        clip_low: distance of the lower bound of r from 1; 0 to 1, where 1 means no lower bound.
        clip_high: distance of the upper bound of r from 1; at least 0.
        max_log_ratio: see `common.clamp_log_ratio`, in nats.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`.

    Raises:
        ValueError: the shapes do not fit, or a bound is outside its range.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    check_range(clip_low, clip_high)
    ratio_BT = clamp_log_ratio(logp_BT.detach() - old_logp_BT, max_log_ratio).exp()
    weight_BT = ratio_BT.clamp(1 - clip_low, 1 + clip_high)
    clipped_BT = (weight_BT != ratio_BT) & (advantages_BT != 0)
    return -weight_BT * advantages_BT * logp_BT, {"ratio_BT": ratio_BT, "clipped_BT": clipped_BT}


def sapo(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute PPO's loss with a smooth gate in place of the clip: `-(4 / tau) sigmoid(tau (r - 1)) A` (SAPO, arXiv 2511.20347).

    Here `r = exp(logp - old_logp)`, `A` is the advantage, and tau is `tau_positive` or `tau_negative`, by the sign of A. At
    `r = 1` the gradient is that of REINFORCE; away from 1, in either direction, it decreases smoothly to 0.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the old policy, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        tau_positive: tau where `A > 0`; above 0. A larger tau makes the gate narrower.
        tau_negative: tau where `A <= 0`; above 0.
        max_log_ratio: see `common.clamp_log_ratio`, in nats.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; nothing is ever clipped.

    Raises:
        ValueError: the shapes do not fit, or a setting is outside its range.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    for name, tau in (("tau_positive", tau_positive), ("tau_negative", tau_negative)):
        if not 0.0 < tau < float("inf"):
            raise ValueError(f"{name}: expected a finite number above 0, got {tau}")
    ratio_BT = clamp_log_ratio(logp_BT - old_logp_BT, max_log_ratio).exp()
    tau_BT = torch.where(advantages_BT > 0, tau_positive, tau_negative).to(logp_BT.dtype)
    loss_BT = -(4.0 / tau_BT) * torch.sigmoid(tau_BT * (ratio_BT - 1.0)) * advantages_BT
    return loss_BT, {"ratio_BT": ratio_BT.detach(), "clipped_BT": torch.zeros_like(ratio_BT, dtype=torch.bool)}


def dppo_tv(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    delta: float = 0.2,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute the loss `-r A`, or 0 for a token whose probability has already moved too far.

    This is DPPO (arXiv 2602.04879). `r = exp(logp - old_logp)`, and `A` is the advantage. A token is dropped if its probability
    has changed by more than `delta` and its gradient would change the probability further. This bounds the
    change `|p - p_old|` of the probability p (total variation) and not the ratio. So the probability of a rare token may
    double, while that of a likely token may change only by a small factor.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the old policy, which the paper takes to be the sampler, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        delta: largest change of a token's probability; above 0, at most 1.
        max_log_ratio: see `common.clamp_log_ratio`, in nats.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; `clipped_BT` marks the dropped tokens.

    Raises:
        ValueError: the shapes do not fit, or a setting is outside its range.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    if not 0.0 < delta <= 1.0:
        raise ValueError(f"delta: expected a probability above 0, at most 1, got {delta}")
    ratio_BT = clamp_log_ratio(logp_BT - old_logp_BT, max_log_ratio).exp()
    change_BT = logp_BT.detach().exp() - old_logp_BT.exp()
    dropped_BT = (change_BT.abs() > delta) & (change_BT * advantages_BT > 0)
    loss_BT = (-ratio_BT * advantages_BT).masked_fill(dropped_BT, 0.0)
    return loss_BT, {"ratio_BT": ratio_BT.detach(), "clipped_BT": dropped_BT}


def reinforce(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    mask_BT: torch.Tensor | None = None,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """Compute the plain policy-gradient loss `-A logp` (Williams 1992); correct only for tokens of the current policy.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the sampling policy; for the metric only.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token; constants.
        mask_BT: bool, True on real tokens; None if all tokens are real.
        max_log_ratio: see `common.clamp_log_ratio`, in nats; for the metric only.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; nothing is ever clipped.

    Raises:
        ValueError: the shapes do not fit.
    """
    logp_BT, old_logp_BT, advantages_BT = prepare(logp_BT, old_logp_BT, advantages, mask_BT)
    ratio_BT = clamp_log_ratio((logp_BT - old_logp_BT).detach(), max_log_ratio).exp()
    return -advantages_BT * logp_BT, {"ratio_BT": ratio_BT, "clipped_BT": torch.zeros_like(ratio_BT, dtype=torch.bool)}
