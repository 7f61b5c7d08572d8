"""Shared parts of the advantages: checks of the rewards, group means in float64, and which groups have different rewards.

Shapes: P prompts, G samples a prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from verigym.trainer.tensor_shapes import check_same_shape

EQUAL_RELATIVE = 1e-9
"""Rewards of a group count as equal if they differ by at most this share of the group's largest absolute reward. For example,
0.1 + 0.2 and 0.3 count as equal, although they differ by rounding. For float32 and narrower dtypes, 8 machine epsilons of the
dtype are used instead."""
EQUAL_ABSOLUTE = 1e-12
"""Rewards whose difference is at most this number count as equal, whatever their size. For example, 1 - 0.9 - 0.1 counts as
equal to 0."""


@dataclass(frozen=True)
class Groups:
    """The rewards of a batch with the mean and other statistics of each group, from which the advantages are computed.

    All numbers are in float64, so that sums of large rewards do not overflow.
    """

    reward_PG: torch.Tensor
    """The rewards; 0 where unscored."""
    scored_PG: torch.Tensor
    """bool, True where the verifier gave a verdict."""
    compared_PG: torch.Tensor
    """bool, True for the scored completions of groups whose rewards are not all equal."""
    scored_P1: torch.Tensor
    """Number n of scored completions in each group, or 2 where there are fewer, so that n and n - 1 can be divisors."""
    mean_P1: torch.Tensor
    """Mean of the scored rewards of each group; meaningful only for groups with at least 2 scored completions."""
    deviation_PG: torch.Tensor
    """Reward minus the group's mean; exactly 0 where `compared_PG` is False."""


def compare_groups(rewards_PG: torch.Tensor, scored_PG: torch.Tensor) -> Groups:
    """Check the rewards and return them with the statistics of their groups.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    check_same_shape("PG", rewards_PG=rewards_PG, scored_PG=scored_PG)
    if not rewards_PG.is_floating_point():
        raise ValueError(f"rewards_PG: expected a floating point tensor, got {rewards_PG.dtype}")
    if scored_PG.dtype != torch.bool:
        raise ValueError(f"scored_PG: expected a bool tensor, got {scored_PG.dtype}")
    if not bool((rewards_PG.isfinite() | ~scored_PG).all()):
        raise ValueError("rewards_PG: a scored reward is nan or infinite; mark it unscored or give it a finite reward")

    reward_PG = rewards_PG.masked_fill(~scored_PG, 0.0).double()
    scored_P1 = scored_PG.sum(dim=1, keepdim=True).double().clamp(min=2)
    mean_P1 = reward_PG.sum(dim=1, keepdim=True) / scored_P1
    compared_PG = scored_PG & _differ(reward_PG.detach(), scored_PG, max(EQUAL_RELATIVE, 8 * torch.finfo(rewards_PG.dtype).eps))
    deviation_PG = (reward_PG - mean_P1).masked_fill(~compared_PG, 0.0)
    return Groups(reward_PG, scored_PG, compared_PG, scored_P1, mean_P1, deviation_PG)


def _differ(reward_PG: torch.Tensor, scored_PG: torch.Tensor, relative: float) -> torch.Tensor:
    """Return bool `[P, 1]`: True for each group whose scored rewards are not all equal."""
    if reward_PG.shape[1] == 0:
        return scored_PG.new_zeros(len(reward_PG), 1)
    highest_P1 = reward_PG.masked_fill(~scored_PG, -torch.inf).amax(dim=1, keepdim=True)
    lowest_P1 = reward_PG.masked_fill(~scored_PG, torch.inf).amin(dim=1, keepdim=True)
    size_P1 = reward_PG.abs().amax(dim=1, keepdim=True)
    return highest_P1 - lowest_P1 > (relative * size_P1).clamp(min=EQUAL_ABSOLUTE)


def safe_divide(deviation_PG: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return `deviation_PG / scale`. Where `scale` is 0, the deviation is 0 too, and the result is 0 instead of nan."""
    return deviation_PG / scale.masked_fill(scale == 0.0, 1.0)


def check_scale(ddof: int, eps: float) -> None:
    """Check the options `ddof` and `eps` of a standard deviation.

    Raises:
        ValueError: `ddof` or `eps` is out of range.
    """
    if ddof not in (0, 1):
        raise ValueError(f"ddof: expected 0 (population) or 1 (sample), got {ddof}")
    if not 0.0 <= eps < float("inf"):
        raise ValueError(f"eps: expected a finite number of at least 0, got {eps}")
