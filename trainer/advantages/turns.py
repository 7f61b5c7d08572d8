"""Advantages of the turns of an episode, where the environment rewards turns.

Shapes: P prompts, G episodes a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from verigym.trainer.advantages.group import rloo


def turn_returns(rewards_PG: torch.Tensor, scored_PG: torch.Tensor, *, lengths_PG: torch.Tensor | None = None) -> torch.Tensor:
    """Return the advantage of each episode's first turn: the episode's return minus the mean return of the other episodes.

    The other episodes are those of the same prompt. The advantage of a later turn t is `A_t = sum of the rewards from t on -
    mean return of the other episodes`. This is the advantage of the first turn minus the rewards of the turns before t
    (`earned_before`). The baseline depends neither on the episode itself nor on the turn, so the gradient is unbiased even
    though the policy chooses the number of turns. A separate mean for each turn index would be biased.

    Args:
        rewards_PG: the return of each episode: the reward of its verdict plus the rewards of all its turns.
        scored_PG: bool, True where the verifier gave a verdict.
        lengths_PG: unused.

    Returns:
        Advantages `[P, G]` in the unit and dtype of the rewards.

    Raises:
        ValueError: shapes or dtypes do not fit, or a scored reward is not finite.
    """
    return rloo(rewards_PG, scored_PG, lengths_PG=lengths_PG)


def earned_before(turn_rewards: Sequence[float]) -> list[float]:
    """Return, for each turn of an episode, the sum of the rewards of all earlier turns.

    `turn_rewards` holds the reward of each turn.
    """
    return [0.0, *accumulate(turn_rewards)][: len(turn_rewards)]
