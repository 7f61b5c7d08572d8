"""Rewards of a completion's steps: from characters of its text to its tokens, and to an advantage a token."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from verigym.envs.schema import Score
from verigym.trainer.advantages import process_supervision
from verigym.trainer.rollout import Group
from verigym.trainer.tokens import Codec


def tokens_until(codec: Codec, token_ids: Sequence[int], characters: int) -> int:
    """Return how many tokens it takes to write so many characters of the completion's text; at least 1, at most all.

    A tokenizer's own offsets would be those of the text tokenized anew, which need not give the sampled tokens.
    """
    counts = range(1, len(token_ids) + 1)
    place = bisect_left(counts, characters, key=lambda count: len(codec.decode(token_ids[:count])))
    return counts[min(place, len(counts) - 1)]


def step_rewards(score: Score) -> list[float]:
    """Return the rewards of a verdict's steps; a verdict without steps is one step."""
    return [step.reward for step in score.steps or ()] or [score.reward or 0.0]


def steps_of(score: Score, codec: Codec, token_ids: Sequence[int]) -> tuple[list[float], list[int]]:
    """Return a scored completion's step rewards and, for each, how many tokens have been written at its end.

    A verdict without steps is one step that ends with the completion. Steps that end within one token are one step with the
    least of their rewards.
    """
    ends = [tokens_until(codec, token_ids, step.end) for step in score.steps or ()] or [len(token_ids)]
    least: dict[int, float] = {}
    for end, reward in sorted(zip(ends, step_rewards(score), strict=True), reverse=True):
        least[end] = reward
    rising = sorted(least)
    return [least[end] for end in rising], rising


def step_advantages(group: Group, codec: Codec) -> list[tuple[float, ...]] | None:
    """Return one advantage a token of each completion, None where no verdict of the group scores steps.

    Args:
        group: completions with verdicts.
        codec: decodes them.
    """
    if not any(score.scored and score.steps for score in group.scores):
        return None
    rewards: list[list[float] | None] = []
    ends: list[list[int]] = []
    for score, done in zip(group.scores, group.generated, strict=True):
        found = steps_of(score, codec, done.token_ids) if score.scored else (None, [])
        rewards.append(found[0])
        ends.append(found[1])
    lengths = [len(done.token_ids) for done in group.generated]
    advantages_GT = process_supervision(rewards, ends, lengths)
    return [tuple(row[:length]) for row, length in zip(advantages_GT.tolist(), lengths, strict=True)]
