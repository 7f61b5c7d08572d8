"""Policy losses, per token and to be minimised. They do not reduce: `aggregate` owns the weights of the tokens.

Shapes: B rows (completions), T tokens. Padded places need finite log-probabilities (0 will do, in both tensors): a
weight of 0 hides a nan value, but not the nan in its gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from verigym.trainer.shapes import check_same_shape

LossAndMetrics = tuple[torch.Tensor, dict[str, torch.Tensor]]
"""`(loss_BT, metrics)`. Metrics are per token, detached, and averaged by the caller, who has the mask:
`ratio_BT` (probability ratio to the old policy) and `clipped_BT` (bool: clipping took this token's gradient)."""


def _advantages_BT(logp_BT: torch.Tensor, old_logp_BT: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    """Check the three shapes and give `[B]` advantages a token axis."""
    check_same_shape("BT", logp_BT=logp_BT, old_logp_BT=old_logp_BT)
    if advantages.shape == logp_BT.shape[:1]:
        advantages = advantages[:, None].expand_as(logp_BT)
    elif advantages.shape != logp_BT.shape:
        raise ValueError(
            f"advantages: expected shape {list(logp_BT.shape[:1])} (one a row) or {list(logp_BT.shape)} (one a token), "
            f"got shape {list(advantages.shape)}"
        )
    return advantages.detach()


def clipped(
    logp_BT: torch.Tensor,
    old_logp_BT: torch.Tensor,
    advantages: torch.Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = None,
    max_log_ratio: float = 20.0,
) -> LossAndMetrics:
    """PPO's clipped surrogate: `-min(r A, clip(r, 1 - low, 1 + high) A)` with `r = exp(logp - old_logp)`.

    PPO, arXiv 1707.06347; GRPO, arXiv 2402.03300; a higher upper bound ("clip-higher"), DAPO, arXiv 2503.14476;
    dual clip, arXiv 1912.09729: where `A < 0`, the loss is at most `-c A`.

    At `r = 1` its gradient is that of REINFORCE. The old log-probabilities and the advantages are constants: no
    gradient flows into them, so `clipped(logp, logp, A)` is the on-policy loss.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the policy that the clip range is centred on, in nats.
        advantages: `[B]`, one a completion, or `[B, T]`, one a token.
        clip_low: distance of the lower bound of r from 1; 0 to 1.
        clip_high: distance of the upper bound of r from 1; at least 0.
        dual_clip: c, above 1; None for no dual clip.
        max_log_ratio: `logp - old_logp` is held within plus or minus this many nats, with no gradient beyond, because
            `exp` overflows to inf and inf gives nan gradients even where the clip discards it.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`.

    Raises:
        ValueError: the shapes do not fit, or a bound is outside its range.
    """
    advantages_BT = _advantages_BT(logp_BT, old_logp_BT, advantages)
    _check_bounds(clip_low, clip_high, dual_clip, max_log_ratio)
    ratio_BT = (logp_BT - old_logp_BT.detach()).clamp(-max_log_ratio, max_log_ratio).exp()
    loss_BT = -torch.minimum(ratio_BT * advantages_BT, ratio_BT.clamp(1 - clip_low, 1 + clip_high) * advantages_BT)

    ratio_BT = ratio_BT.detach()
    good_BT, bad_BT = advantages_BT > 0, advantages_BT < 0
    clipped_BT = (good_BT & (ratio_BT > 1 + clip_high)) | (bad_BT & (ratio_BT < 1 - clip_low))
    if dual_clip is not None:
        loss_BT = torch.where(bad_BT, torch.minimum(loss_BT, -dual_clip * advantages_BT), loss_BT)
        clipped_BT = clipped_BT | (bad_BT & (ratio_BT > dual_clip))
    return loss_BT, {"ratio_BT": ratio_BT, "clipped_BT": clipped_BT}


def _check_bounds(clip_low: float, clip_high: float, dual_clip: float | None, max_log_ratio: float) -> None:
    if not 0.0 <= clip_low <= 1.0:
        raise ValueError(f"clip_low: expected a number from 0 to 1 (the ratio's lower bound is 1 - clip_low), got {clip_low}")
    if not clip_high >= 0.0:
        raise ValueError(f"clip_high: expected a number of at least 0 (the ratio's upper bound is 1 + it), got {clip_high}")
    if dual_clip is not None and not dual_clip > 1.0:
        raise ValueError(f"dual_clip: expected a number above 1, or None for no dual clip, got {dual_clip}")
    if not max_log_ratio > 0.0:
        raise ValueError(f"max_log_ratio: expected a number above 0, in nats, got {max_log_ratio}")


def reinforce(logp_BT: torch.Tensor, old_logp_BT: torch.Tensor, advantages: torch.Tensor) -> LossAndMetrics:
    """Plain policy gradient: `-A logp` (Williams 1992). Right only for tokens that the current policy has sampled.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the sampling policy; for the metric only.
        advantages: `[B]`, one a completion, or `[B, T]`, one a token; constants.

    Returns:
        `(loss_BT, {"ratio_BT", "clipped_BT"})`, see `LossAndMetrics`; nothing is ever clipped.

    Raises:
        ValueError: the shapes do not fit.
    """
    advantages_BT = _advantages_BT(logp_BT, old_logp_BT, advantages)
    ratio_BT = (logp_BT - old_logp_BT).detach().exp()
    return -advantages_BT * logp_BT, {
        "ratio_BT": ratio_BT,
        "clipped_BT": torch.zeros_like(ratio_BT, dtype=torch.bool),
    }


LOSSES: dict[str, Callable[..., LossAndMetrics]] = {"clipped": clipped, "reinforce": reinforce}
"""Every loss by name. All take `(logp_BT, old_logp_BT, advantages)`; keyword arguments are their own."""
