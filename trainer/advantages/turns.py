"""Advantages of the turns of an episode, where the environment rewards turns.

Shapes: P prompts, G episodes a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from verigym.trainer.advantages.group import rloo


def turn_returns(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Return what the first turn of each episode gets: its return minus the mean return of the prompt's other episodes.

    A turn t gets `A_t = sum of the rewards from t on - mean return of the others`, which is this less what was earned before t
    (`earned_before`). The baseline does not depend on the episode itself nor on the turn, so the gradient is unbiased also
    where the policy chooses how many turns it takes; a mean by turn index would not be.

    Args:
        rewards_PG: the return of each episode: the verdict's reward and those of all turns.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    return rloo(rewards_PG, scored_PG, lengths_PG=lengths_PG)


def earned_before(turn_rewards: Sequence[float]) -> list[float]:
    """Return, for each turn, the sum of the rewards of the turns before it."""
    return [0.0, *accumulate(turn_rewards)][: len(turn_rewards)]
