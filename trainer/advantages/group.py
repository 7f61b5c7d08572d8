"""Advantages within a group: how much better a completion is than the others of the same prompt.

Shapes: P prompts, G samples per prompt. All functions take `(rewards_PG, scored_PG, *, lengths_PG=None)` and options of
their own; `advantages` lists the rules that they share. In formulas, r is the reward of a completion.
"""

from __future__ import annotations

import torch

from verigym.trainer.advantages.common import check_scale, compare_groups, safe_divide
from verigym.trainer.tensor_shapes import check_same_shape


def grpo(
    rewards_PG: torch.Tensor,
    scored_PG: torch.Tensor,
    *,
    lengths_PG: torch.Tensor | None = None,
    ddof: int = 1,
    eps: float = 1e-4,
) -> torch.Tensor:
    """Normalise each group: `A = (r - mean) / (std + eps)` (GRPO, arXiv 2402.03300).

    The defaults are TRL's convention; verl and SkyRL use `ddof=1, eps=1e-6`, open-instruct `ddof=0, eps=0`.

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
    variance_P1 = batch.deviation_PG.square().sum(dim=1, keepdim=True) / (batch.scored_P1 - ddof)
    return safe_divide(batch.deviation_PG, variance_P1.sqrt() + eps).to(rewards_PG.dtype)


def centred(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Subtract the group's mean without dividing by a standard deviation: `A = r - mean` (Dr. GRPO, arXiv 2503.20783).

    A division by the standard deviation would give a larger weight to questions that are nearly always or nearly never solved.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    return compare_groups(rewards_PG, scored_PG).deviation_PG.to(rewards_PG.dtype)


def rloo(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Subtract the mean of the group's *other* completions: `A = n/(n-1) (r - mean)` (RLOO, arXiv 2402.14740).

    The baseline does not depend on the completion itself, so the gradient is unbiased. n is the number of scored completions.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    batch = compare_groups(rewards_PG, scored_PG)
    return (batch.deviation_PG * batch.scored_P1 / (batch.scored_P1 - 1)).to(rewards_PG.dtype)


def maxrl(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Subtract the group's mean and divide by it: `A = (r - mean) / mean` (MaxRL, arXiv 2602.02710).

    Rare successes get the largest weight: with rewards of 0 and 1, the gradient is that of the log of the pass rate.

    Args:
        rewards_PG: floating point rewards of at least 0, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is negative or not finite.
    """
    batch = compare_groups(rewards_PG, scored_PG)
    if bool((batch.reward_PG < 0).any()):
        raise ValueError(
            "rewards_PG: maxrl divides by the mean reward, so a reward below 0 has no meaning here; "
            "shift the rewards to start at 0, or take another advantage"
        )
    return safe_divide(batch.deviation_PG, batch.mean_P1).to(rewards_PG.dtype)


def passk(
    rewards_PG: torch.Tensor,
    scored_PG: torch.Tensor,
    *,
    lengths_PG: torch.Tensor | None = None,
    ddof: int = 1,
    eps: float = 1e-6,
) -> torch.Tensor:
    """Credit only the group's best completion, by its lead over the second: `A = (r1 - r2) / (std + eps)` (arXiv 2503.19595).

    Here r1 and r2 are the largest and the second largest reward of the group. The objective is pass@k: without its best
    completion, the group's best reward would be r2, so r1 - r2 is the gain from that completion. If two completions share
    the first place, all advantages are 0.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.
        ddof: 0 divides the sum of squares by n (population), 1 by n - 1 (sample).
        eps: added to the standard deviation, in the unit of the rewards; at least 0.

    Returns:
        Advantages `[P, G]`, without a unit, in the dtype of the rewards; at most one per group is not 0.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward is not finite, or `ddof` or `eps` is out of range.
    """
    batch = compare_groups(rewards_PG, scored_PG)
    check_scale(ddof, eps)
    if rewards_PG.shape[1] < 2:
        return torch.zeros_like(rewards_PG)
    variance_P1 = batch.deviation_PG.square().sum(dim=1, keepdim=True) / (batch.scored_P1 - ddof)
    best_PG, order_PG = batch.deviation_PG.masked_fill(~batch.scored_PG, -torch.inf).sort(dim=1, descending=True, stable=True)
    compared_P1 = batch.compared_PG.any(dim=1, keepdim=True)
    lead_P1 = torch.where(compared_P1, best_PG[:, :1] - best_PG[:, 1:2], 0.0)
    credit_P1 = safe_divide(lead_P1, variance_P1.sqrt() + eps)
    return torch.zeros_like(batch.deviation_PG).scatter(1, order_PG[:, :1], credit_P1).to(rewards_PG.dtype)


def opo(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Subtract the group's length-weighted mean reward: `A = r - sum(l r) / sum(l)` (OPO, arXiv 2505.23585).

    This baseline has the smallest variance if the squared gradient of a completion grows with its length.

    Args:
        rewards_PG: floating point rewards, in any unit; ignored where unscored.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: lengths l of the completions, in tokens; ignored where unscored.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, a scored reward is not finite, or the lengths are missing or below 0.
    """
    batch = compare_groups(rewards_PG, scored_PG)
    if lengths_PG is None:
        raise ValueError("lengths_PG: opo weights rewards with the completions' lengths in tokens; got None")
    check_same_shape("PG", rewards_PG=rewards_PG, lengths_PG=lengths_PG)
    lengths_PG = lengths_PG.masked_fill(~scored_PG, 0).double()
    if bool((lengths_PG < 0).any()):
        raise ValueError("lengths_PG: a length is below 0 tokens")
    total_P1 = lengths_PG.sum(dim=1, keepdim=True).clamp(min=1)
    # Deviations rather than rewards: the same by algebra, and large rewards keep their digits.
    baseline_P1 = (lengths_PG * batch.deviation_PG).sum(dim=1, keepdim=True) / total_P1
    return (batch.deviation_PG - baseline_P1).masked_fill(~batch.compared_PG, 0.0).to(rewards_PG.dtype)
