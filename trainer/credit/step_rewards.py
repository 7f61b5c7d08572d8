"""Rewards of a completion's steps: from characters of its text to its tokens, and to an advantage a token.

Legend: G samples of one prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import torch

from verigym.envs.composition.terms import Term
from verigym.envs.contract.schema import Score, StepScore
from verigym.trainer.advantages.steps import process_supervision
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group


def tokens_until(codec: Codec, token_ids: Sequence[int], characters: int) -> int:
    """Return how many tokens it takes to write so many characters of the completion's text; at least 1, at most all.

    A tokenizer's own offsets would be those of the text tokenized anew, which need not give the sampled tokens.
    """
    counts = range(1, len(token_ids) + 1)
    place = bisect_left(counts, characters, key=lambda count: len(codec.decode(token_ids[:count])))
    return counts[min(place, len(counts) - 1)]


def part_steps(score: Score, part: str) -> list[StepScore]:
    """Return the steps that a part has judged."""
    return [step for step in score.steps or () if step.part == part]


def step_rewards(score: Score, term: Term) -> list[float] | None:
    """Return the rewards of a part's steps; a part without steps is one step. None where the part gave no reward."""
    reward = term.reward(score)
    return None if reward is None else [step.reward for step in part_steps(score, term.part)] or [reward]


def steps_of(score: Score, term: Term, codec: Codec, token_ids: Sequence[int]) -> tuple[list[float] | None, list[int]]:
    """Return a part's step rewards and, for each, how many tokens have been written at its end.

    A part without steps is one step that ends with the completion. Steps that end within one token are one step with the least
    of their rewards.
    """
    rewards = step_rewards(score, term)
    if rewards is None:
        return None, []
    ends = [tokens_until(codec, token_ids, step.end) for step in part_steps(score, term.part)] or [len(token_ids)]
    least: dict[int, float] = {}
    for end, reward in sorted(zip(ends, rewards, strict=True), reverse=True):
        least[end] = reward
    rising = sorted(least)
    return [least[end] for end in rising], rising


def credited_terms(group: Group, terms: Sequence[Term]) -> list[Term]:
    """Return the parts whose steps are credited by token in this group.

    Of a composition these are all parts that score steps, whether they did so here or not: what the outcome is must not
    depend on the group. An environment without parts is credited by its reward where no verdict of the group has steps.
    """
    return [term for term in terms if term.steps and (term.part or any(score.steps for score in group.scores if score.scored))]


def token_advantages(
    group: Group, terms: Sequence[Term], outcome_G: Sequence[float], codec: Codec
) -> list[tuple[float, ...]] | None:
    """Return one advantage a token of each completion, None where the one environment has scored no steps in this group.

    Of a composition, a token's advantage is the completion's, plus for each part that scores steps its weight times the
    part's process supervision, normalised over the steps of this part alone. An environment without parts is all process
    supervision: its reward is made of its steps, so nothing is left beside them.

    Args:
        group: completions with verdicts.
        terms: of the source's environment.
        outcome_G: advantage of each completion, by the rewards without the parts that score steps.
        codec: decodes the completions.
    """
    by_step = credited_terms(group, terms)
    if not by_step:
        return None
    lengths = [len(done.token_ids) for done in group.generated]
    total_GT = torch.zeros(len(lengths), max(lengths), dtype=torch.float64)
    if by_step[0].part:
        total_GT += torch.tensor(outcome_G, dtype=torch.float64)[:, None]
    for term in by_step:
        found = [
            steps_of(score, term, codec, done.token_ids) for score, done in zip(group.scores, group.generated, strict=True)
        ]
        part_GT = process_supervision([rewards for rewards, _ in found], [ends for _, ends in found], lengths)
        total_GT += term.weight * part_GT
    return [tuple(row[:length]) for row, length in zip(total_GT.tolist(), lengths, strict=True)]


def steps_differ(group: Group, term: Term) -> list[bool]:
    """Return for each completion whether a part's steps could move one of its tokens, without decoding any.

    At which tokens steps end is left out, because to know it costs decoding. Steps that end within one token are merged into
    their least reward. That never makes equal rewards different, but it can move the mean away from a completion's reward; so
    where any steps of the group differ, each completion could be moved.
    """
    rewards = [step_rewards(score, term) for score in group.scores]
    differ = len({reward for steps in rewards for reward in steps or ()}) > 1
    return [differ and steps is not None for steps in rewards]
