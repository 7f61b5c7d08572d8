"""Functions that the policy losses share: they check shapes, neutralise padding and bound probability ratios.

Shapes: B rows (completions), T tokens.
"""

from __future__ import annotations

import torch

from verigym.trainer.tensor_shapes import check_same_shape

LossAndMetrics = tuple[torch.Tensor, dict[str, torch.Tensor]]
"""Result of a policy loss: `(loss_BT, metrics)`. Metrics are per token and detached; the caller, who has the mask, averages
them. They are `ratio_BT` (the token's probability divided by its old probability) and `clipped_BT` (bool: clipping removed or
bounded the token's gradient)."""


def prepare(
    logp_BT: torch.Tensor, old_logp_BT: torch.Tensor, advantages: torch.Tensor, mask_BT: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Check the shapes, give `[B]` advantages a token axis, and put 0 wherever the mask is False.

    Args:
        logp_BT: log-probabilities of the sampled tokens under the policy, in nats.
        old_logp_BT: the same under the old policy, in nats.
        advantages: `[B]`, one per completion, or `[B, T]`, one per token.
        mask_BT: bool, True on real tokens; None if all tokens are real.

    Returns:
        `(logp_BT, old_logp_BT, advantages_BT)`, the last two detached. Values outside the mask, nan included, reach neither
        results nor gradients.

    Raises:
        ValueError: the shapes do not fit, or the mask is not bool.
    """
    check_same_shape("BT", logp_BT=logp_BT, old_logp_BT=old_logp_BT)
    if advantages.shape == logp_BT.shape[:1]:
        advantages = advantages[:, None].expand_as(logp_BT)
    elif advantages.shape != logp_BT.shape:
        raise ValueError(
            f"advantages: expected shape {list(logp_BT.shape[:1])} (one a row) or {list(logp_BT.shape)} (one a token), "
            f"got shape {list(advantages.shape)}"
        )
    old_logp_BT, advantages_BT = old_logp_BT.detach(), advantages.detach()
    if mask_BT is not None:
        check_same_shape("BT", logp_BT=logp_BT, mask_BT=mask_BT)
        if mask_BT.dtype != torch.bool:
            raise ValueError(f"mask_BT: expected a bool tensor, got {mask_BT.dtype}")
        logp_BT = logp_BT.masked_fill(~mask_BT, 0.0)
        old_logp_BT = old_logp_BT.masked_fill(~mask_BT, 0.0)
        advantages_BT = advantages_BT.masked_fill(~mask_BT, 0.0)
    return logp_BT, old_logp_BT, advantages_BT


def clamp_log_ratio(log_ratio: torch.Tensor, max_log_ratio: float) -> torch.Tensor:
    """Clamp `log_ratio` to plus or minus `max_log_ratio` nats; where the clamp acts, the gradient is 0.

    Without the clamp, the ratio `exp(log_ratio)` could overflow to inf. The gradient would then be nan, even where the loss
    clips the ratio and so does not use the inf.

    Raises:
        ValueError: `max_log_ratio` is not above 0.
    """
    if not max_log_ratio > 0.0:
        raise ValueError(f"max_log_ratio: expected a number above 0, in nats, got {max_log_ratio}")
    return log_ratio.clamp(-max_log_ratio, max_log_ratio)


def check_range(clip_low: float, clip_high: float) -> None:
    """Check that the clip range `[1 - clip_low, 1 + clip_high]` is valid: `clip_low` is in [0, 1] and `clip_high` at least 0.

    Raises:
        ValueError: `clip_low` or `clip_high` is out of range; the message names it.
    """
    if not 0.0 <= clip_low <= 1.0:
        raise ValueError(f"clip_low: expected a number from 0 to 1 (the ratio's lower bound is 1 - clip_low), got {clip_low}")
    if not clip_high >= 0.0:
        raise ValueError(f"clip_high: expected a number of at least 0 (the ratio's upper bound is 1 + it), got {clip_high}")


def outside_clip(ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float) -> torch.Tensor:
    """Return a bool tensor that is True where PPO's clip removes the gradient of a token.

    This is so if the ratio is above the clip range and the advantage is positive, or if the ratio is below the range and the
    advantage is negative.
    """
    return ((advantages > 0) & (ratio > 1 + clip_high)) | ((advantages < 0) & (ratio < 1 - clip_low))
