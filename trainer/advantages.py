"""Advantages: how much better a completion is than its group, from the rewards alone.

Shapes: P prompts, G samples a prompt. Row-major flattening of `[P, G]` gives the B = P*G rows of a batch.

Shared by all variants:

- A completion without a score (its verifier failed) leaves its group *before* mean and standard deviation are taken,
  gets advantage 0, and must also be masked from the loss. Whatever stands in its place, nan included, is ignored.
- A group whose scored rewards are all equal, or with fewer than two of them, gives exactly 0: there is nothing to
  compare, and a rounding residue divided by its own standard deviation would be a full-sized gradient of noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from verigym.trainer.shapes import check_same_shape


@dataclass(frozen=True)
class _Groups:
    """What every variant starts from, in float64, so that a sum of large float32 rewards does not overflow."""

    deviation_PG: torch.Tensor
    """Reward minus the group's mean; 0 where there is nothing to learn."""
    scored_P1: torch.Tensor
    """Scored completions in each group, at least 2 (where there are fewer, the deviations are 0 anyway)."""


def _groups(rewards_PG: torch.Tensor, scored_PG: torch.Tensor) -> _Groups:
    check_same_shape("PG", rewards_PG=rewards_PG, scored_PG=scored_PG)
    if not rewards_PG.is_floating_point():
        raise ValueError(f"rewards_PG: expected a floating point tensor, got {rewards_PG.dtype}")
    if scored_PG.dtype != torch.bool:
        raise ValueError(f"scored_PG: expected a bool tensor, got {scored_PG.dtype}")
    if not bool((rewards_PG.isfinite() | ~scored_PG).all()):
        raise ValueError("rewards_PG: a scored reward is nan or infinite; mark it unscored or give it a finite reward")
    if rewards_PG.numel() == 0:
        return _Groups(rewards_PG.double(), scored_PG.new_full((len(rewards_PG), 1), 2, dtype=torch.float64))

    reward_PG = rewards_PG.double()
    highest_P1 = reward_PG.masked_fill(~scored_PG, -torch.inf).amax(dim=1, keepdim=True)
    lowest_P1 = reward_PG.masked_fill(~scored_PG, torch.inf).amin(dim=1, keepdim=True)
    scored_P1 = scored_PG.sum(dim=1, keepdim=True).double().clamp(min=2)
    mean_P1 = reward_PG.masked_fill(~scored_PG, 0.0).sum(dim=1, keepdim=True) / scored_P1
    compared_PG = scored_PG & (highest_P1 > lowest_P1)
    return _Groups((reward_PG - mean_P1).masked_fill(~compared_PG, 0.0), scored_P1)


def grpo(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, ddof: int = 1, eps: float = 1e-4) -> torch.Tensor:
    """Normalise each group: `A = (r - mean) / (std + eps)` (GRPO, arXiv 2402.03300).

    The defaults are TRL's convention; verl and SkyRL use `ddof=1, eps=1e-6`, open-instruct `ddof=0, eps=0`.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        ddof: 0 divides the sum of squares by n (population), 1 by n - 1 (sample).
        eps: added to the standard deviation, in the unit of the rewards; at least 0.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward is not finite, or `ddof` or `eps` is out of range.
    """
    groups = _groups(rewards_PG, scored_PG)
    if ddof not in (0, 1):
        raise ValueError(f"ddof: expected 0 (population) or 1 (sample), got {ddof}")
    if not 0.0 <= eps < float("inf"):
        raise ValueError(f"eps: expected a finite number of at least 0, got {eps}")
    variance_P1 = groups.deviation_PG.square().sum(dim=1, keepdim=True) / (groups.scored_P1 - ddof)
    scale_P1 = variance_P1.sqrt() + eps
    # With eps=0 a group of equal rewards has scale 0, and its deviations are 0: 0/1 rather than 0/0.
    return (groups.deviation_PG / scale_P1.masked_fill(scale_P1 == 0.0, 1.0)).to(rewards_PG.dtype)


def centred(rewards_PG: torch.Tensor, scored_PG: torch.Tensor) -> torch.Tensor:
    """Subtract the group's mean and divide by nothing: `A = r - mean` (Dr. GRPO, arXiv 2503.20783).

    Without the division, questions that are nearly always or nearly never solved are not weighted up.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    return _groups(rewards_PG, scored_PG).deviation_PG.to(rewards_PG.dtype)


def rloo(rewards_PG: torch.Tensor, scored_PG: torch.Tensor) -> torch.Tensor:
    """Subtract the mean of the *other* completions: `A = n/(n-1) (r - mean)` (RLOO, arXiv 2402.14740).

    The baseline does not depend on the completion itself, so the gradient is unbiased. n counts the scored ones.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    groups = _groups(rewards_PG, scored_PG)
    return (groups.deviation_PG * groups.scored_P1 / (groups.scored_P1 - 1)).to(rewards_PG.dtype)


ADVANTAGES: dict[str, Callable[..., torch.Tensor]] = {"grpo": grpo, "centred": centred, "rloo": rloo}
"""Every variant by name. All take `(rewards_PG, scored_PG)`; `grpo` also takes `ddof` and `eps`."""
