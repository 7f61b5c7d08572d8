"""Step rewards: from positions in a completion's text to token positions, and to one advantage for each token.

Legend: G samples of one prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import torch

from verigym.envs.composition.terms import Term
from verigym.envs.contract.schema import Score, StepScore
from verigym.trainer.advantages.steps import process_supervision
from verigym.trainer.engines.base import Generated
from verigym.trainer.models.codec import Codec
from verigym.trainer.rollout.collect import Group


def tokens_until(codec: Codec, token_ids: Sequence[int], characters: int) -> int:
    """Return how many of the completion's tokens decode to at least `characters` characters; at least 1, at most all.

    A tokenizer's offsets cannot be used: they belong to the tokenized text, which may differ from the sampled tokens.
    """
    counts = range(1, len(token_ids) + 1)
    index = bisect_left(counts, characters, key=lambda count: len(codec.decode(token_ids[:count])))
    return counts[min(index, len(counts) - 1)]


def part_steps(score: Score, part: str) -> list[StepScore]:
    """Return the steps that a part has scored."""
    return [step for step in score.steps or () if step.part == part]


def step_rewards(score: Score, term: Term) -> list[float] | None:
    """Return the rewards of a part's steps; a part without steps counts as one step. None where the part gave no reward."""
    reward = term.reward(score)
    return None if reward is None else [step.reward for step in part_steps(score, term.part)] or [reward]


def steps_of(score: Score, term: Term, codec: Codec, done: Generated) -> tuple[list[float] | None, list[int]]:
    """Return a part's step rewards and, for each step, the number of tokens up to its end.

    A part without steps counts as one step that ends with the completion. Steps that end within the same token are merged into
    one step with the least of their rewards. In an episode, steps lie in the last turn, whose text was judged.
    """
    rewards = step_rewards(score, term)
    if rewards is None:
        return None, []
    first, last = done.turns[-1] if done.turns else (0, len(done.token_ids))
    ids = done.token_ids[first:last]
    ends = [first + tokens_until(codec, ids, step.end) for step in part_steps(score, term.part)] or [len(done.token_ids)]
    least: dict[int, float] = {}
    for end, reward in sorted(zip(ends, rewards, strict=True), reverse=True):
        least[end] = reward
    ends = sorted(least)
    return [least[end] for end in ends], ends


def credited_terms(group: Group, terms: Sequence[Term]) -> list[Term]:
    """Return the parts whose steps are credited by token in this group.

    For a composition these are all parts that can score steps, whether or not they did in this group: which parts make up the
    outcome must not depend on the group. An environment without parts is credited by its reward where no verdict has steps.
    """
    return [term for term in terms if term.steps and (term.part or any(score.steps for score in group.scores if score.scored))]


def token_advantages(
    group: Group, terms: Sequence[Term], outcome_G: Sequence[float], codec: Codec
) -> list[tuple[float, ...]] | None:
    """Return an advantage for each token of each completion; None where an environment without parts has scored no steps.

    For a composition, a token's advantage is its completion's plus, for each part that scores steps, the part's weight times
    its process supervision, normalised over the steps of this part alone. For an environment without parts it is process
    supervision only, because the reward consists of the steps.

    Args:
        group: completions with verdicts.
        terms: of the source's environment.
        outcome_G: advantage of each completion, from the rewards without the parts that score steps.
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
        steps_G = [steps_of(score, term, codec, done) for score, done in zip(group.scores, group.generated, strict=True)]
        part_GT = process_supervision([rewards for rewards, _ in steps_G], [ends for _, ends in steps_G], lengths)
        total_GT += term.weight * part_GT
    return [tuple(row[:length]) for row, length in zip(total_GT.tolist(), lengths, strict=True)]


def steps_differ(group: Group, term: Term) -> list[bool]:
    """Return for each completion whether a part's steps could give one of its tokens an advantage, without decoding.

    Decoding would tell which steps end within the same token and are merged into their least reward. Merging never makes equal
    rewards different, but it can move the mean away from a completion's reward. So where any steps of the group differ, every
    completion may get an advantage.
    """
    rewards = [step_rewards(score, term) for score in group.scores]
    differ = len({reward for steps in rewards for reward in steps or ()}) > 1
    return [differ and steps is not None for steps in rewards]
