"""Advantages scaled by the whole batch, so that groups whose rewards hardly differ are not amplified.

Shapes: P prompts, G samples per prompt. All functions except `gdpo` take `(rewards_PG, scored_PG, *, lengths_PG=None)` and
options of their own; `advantages` lists the rules that they share. Means and standard deviations are taken over completions,
not tokens, and over the rewards of one call, so pass the whole batch of a step.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from verigym.trainer.advantages.common import check_scale, compare_groups, safe_divide
from verigym.trainer.advantages.group import grpo


def batch_std(
    rewards_PG: torch.Tensor,
    scored_PG: torch.Tensor,
    *,
    lengths_PG: torch.Tensor | None = None,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """Subtract the group's mean and divide by the standard deviation of the whole batch (Lite PPO, arXiv 2508.08221).

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.
        ddof: 0 divides the sum of squares by n (population), 1 by n - 1 (sample).
        eps: added to the standard deviation, in the unit of the rewards; at least 0.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward is not finite, or `ddof` or `eps` is out of range.
    """
    batch = compare_groups(rewards_PG, scored_PG)
    check_scale(ddof, eps)
    whole = compare_groups(rewards_PG.reshape(1, -1), scored_PG.reshape(1, -1))
    scale = _deviation(whole.deviation_PG, scored_PG, ddof) + eps
    return safe_divide(batch.deviation_PG, scale).to(rewards_PG.dtype)


def reinforce_pp(
    rewards_PG: torch.Tensor,
    scored_PG: torch.Tensor,
    *,
    lengths_PG: torch.Tensor | None = None,
    ddof: int = 0,
    eps: float = 1e-8,
) -> torch.Tensor:
    """Normalise over the whole batch, not by group: `A = (r - batch mean) / (batch std + eps)` (REINFORCE++, arXiv 2501.03262).

    A group of equal rewards usually has nonzero advantages, because it is compared with the other prompts. They are 0 only
    if all rewards of the batch are equal.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.
        ddof: 0 divides the sum of squares by n (population), 1 by n - 1 (sample).
        eps: added to the standard deviation, in the unit of the rewards; at least 0.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward is not finite, or `ddof` or `eps` is out of range.
    """
    compare_groups(rewards_PG, scored_PG)  # the checks, before the shape is lost
    return grpo(rewards_PG.reshape(1, -1), scored_PG.reshape(1, -1), ddof=ddof, eps=eps).reshape(rewards_PG.shape)


def reinforce_pp_baseline(
    rewards_PG: torch.Tensor,
    scored_PG: torch.Tensor,
    *,
    lengths_PG: torch.Tensor | None = None,
    ddof: int = 0,
    eps: float = 1e-8,
) -> torch.Tensor:
    """Subtract the group's mean, then divide by the batch's standard deviation of these differences (arXiv 2501.03262).

    Unlike in `batch_std`, differences between the groups' means do not increase the standard deviation.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.
        ddof: 0 divides the sum of squares by n (population), 1 by n - 1 (sample).
        eps: added to the standard deviation, in the unit of the rewards; at least 0.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward is not finite, or `ddof` or `eps` is out of range.
    """
    batch = compare_groups(rewards_PG, scored_PG)
    check_scale(ddof, eps)
    return safe_divide(batch.deviation_PG, _deviation(batch.deviation_PG, scored_PG, ddof) + eps).to(rewards_PG.dtype)


def gdpo(
    rewards_PGR: torch.Tensor,
    scored_PG: torch.Tensor,
    weights_R: Sequence[float] | torch.Tensor,
    *,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """Normalise each of R rewards within its group, sum them with `weights_R`, and normalise the sum over the batch.

    This is GDPO (arXiv 2601.05242). If only the sum of the raw rewards were normalised, completions with different rewards but
    equal sums would get equal advantages.

    Args:
        rewards_PGR: floating point rewards `[P, G, R]`, each in any unit; ignored where unscored.
        scored_PG: bool, True where the completion has every one of the R rewards.
        weights_R: weight of each reward, finite.
        ddof: 0 divides the sums of squares by n (population), 1 by n - 1 (sample), in groups and batch.
        eps: added to the standard deviations, in groups and batch; at least 0.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward or a weight is not finite, or `ddof` or `eps` is out of
            range.
    """
    if rewards_PGR.ndim != 3:
        raise ValueError(f"rewards_PGR: expected 3 axes [P, G, R], got shape {list(rewards_PGR.shape)}")
    weights = torch.as_tensor(weights_R, dtype=torch.float64, device=rewards_PGR.device)
    if weights.shape != rewards_PGR.shape[2:] or not bool(weights.isfinite().all()):
        raise ValueError(f"weights_R: expected {rewards_PGR.shape[2]} finite numbers, one a reward, got {weights.tolist()}")
    check_scale(ddof, eps)
    total_PG = torch.zeros(rewards_PGR.shape[:2], dtype=torch.float64, device=rewards_PGR.device)
    for reward_PG, weight in zip(rewards_PGR.unbind(dim=2), weights, strict=True):
        total_PG = total_PG + weight * grpo(reward_PG, scored_PG, ddof=ddof, eps=eps).double()
    # Each group already sums to 0; subtracting the batch's mean would only add rounding errors to groups of equal rewards.
    return safe_divide(total_PG, _deviation(total_PG, scored_PG, ddof) + eps).to(rewards_PGR.dtype)


def _deviation(centred_PG: torch.Tensor, scored_PG: torch.Tensor, ddof: int) -> torch.Tensor:
    """Return the root mean square of `centred_PG` over the scored completions, a scalar; unscored entries must be 0."""
    return (centred_PG.square().sum() / (scored_PG.sum() - ddof).clamp(min=1)).sqrt()
