"""Rewards of turns: an episode's return, and the advantage of each token by the turn that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion
from verigym.trainer.advantages.turns import earned_before
from verigym.trainer.rollout.collect import Group


def rewards_of_turns(episode: Completion) -> list[float]:
    """Return the reward of each assistant turn in `episode`; 0 for a turn without a reward."""
    return [turn.reward or 0.0 for turn in episode.turns if turn.role == "assistant"]


def earned_by_turns(groups: Sequence[Group]) -> torch.Tensor:
    """Return earned_PG, the sum of the turn rewards of each episode in `groups`; 0 for completions that are not episodes."""
    rows = [[sum(rewards_of_turns(one)) for one in group.episodes] or [0.0] * len(group.scores) for group in groups]
    return torch.tensor(rows, dtype=torch.float64)


def turn_advantages(group: Group, advantage_G: Sequence[float], scale: float) -> list[tuple[float, ...]] | None:
    """Return, for each episode of `group`, an advantage for each of its tokens; None if `group` has no episodes.

    Args:
        group: episodes with verdicts.
        advantage_G: the advantage of each episode's first turn (`advantages.turns.turn_returns`).
        scale: factor by which rewards were multiplied before `advantage_G` was computed.
    """
    if not group.episodes:
        return None
    found = []
    for episode, done, advantage in zip(group.episodes, group.generated, advantage_G, strict=True):
        by_token = [0.0] * len(done.token_ids)
        before = earned_before(rewards_of_turns(episode))
        for (start, end), earned in zip(done.turns, before, strict=True):
            by_token[start:end] = [advantage - scale * earned] * (end - start)
        found.append(tuple(by_token))
    return found


def refuse_unused(group: Group) -> None:
    """Refuse a group that has turn rewards. Call this if the source's advantage would ignore them.

    Raises:
        UsageError: a turn has a reward.
    """
    for episode in group.episodes:
        if any(turn.reward is not None for turn in episode.turns):
            raise UsageError(
                f"source {group.source!r}: its environment rewards turns, and only advantage turn_returns looks at these; set "
                "advantage: turn_returns for this source, or switch the rewards of turns off in the environment"
            )
