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
    """Return how many tokens from the start of `token_ids` are needed to decode to at least `characters` characters.

    The number is at least 1 and at most `len(token_ids)`. The offsets of a tokenizer cannot be used, because tokenizing the
    text again may give other tokens than were sampled.
    """
    counts = range(1, len(token_ids) + 1)
    index = bisect_left(counts, characters, key=lambda count: len(codec.decode(token_ids[:count])))
    return counts[min(index, len(counts) - 1)]


def part_steps(score: Score, part: str) -> list[StepScore]:
    """Return the steps in `score` that the part `part` of a composed environment scored.

    `part` is empty for an environment without parts.
    """
    return [step for step in score.steps or () if step.part == part]


def step_rewards(score: Score, term: Term) -> list[float] | None:
    """Return the step rewards of the part that `term` describes; None if the part gave no reward.

    The reward of a part without steps counts as that of a single step.
    """
    reward = term.reward(score)
    return None if reward is None else [step.reward for step in part_steps(score, term.part)] or [reward]


def steps_of(
    score: Score, term: Term, codec: Codec, done: Generated, prompt_ids: Sequence[int] = ()
) -> tuple[list[float] | None, list[int]]:
    """Return the step rewards of the part that `term` describes and, for each step, the number of tokens up to its end.

    A part without steps counts as one step that ends with the completion. If the part gave no reward, return None and no ends.
    Steps that end within the same token are merged into one step with the smallest of their rewards. In an episode, the steps
    lie in the last turn, because that is the text that was judged.
    """
    rewards = step_rewards(score, term)
    if rewards is None:
        return None, []
    first, last = done.turns[-1] if done.turns else (0, len(done.token_ids))
    ids = done.token_ids[first:last]
    before = len(codec.opening([*prompt_ids, *done.token_ids[:first]]))  # characters that the prompt has written
    ends = [first + tokens_until(codec, ids, step.end - before) for step in part_steps(score, term.part)]
    ends = ends or [len(done.token_ids)]
    least: dict[int, float] = {}
    for end, reward in sorted(zip(ends, rewards, strict=True), reverse=True):
        least[end] = reward
    ends = sorted(least)
    return [least[end] for end in ends], ends


def credited_terms(group: Group, terms: Sequence[Term]) -> list[Term]:
    """Return the terms whose steps give advantages to single tokens of this group.

    In a composed environment, these are all parts that can score steps, even if they scored none in this group. So the outcome,
    which is the sum of the other parts, has the same parts in every group. An environment without parts has a single term. This
    term is returned only if it can score steps and a verdict in the group has some.
    """
    return [term for term in terms if term.steps and (term.part or any(score.steps for score in group.scores if score.scored))]


def token_advantages(
    group: Group, terms: Sequence[Term], outcome_G: Sequence[float], codec: Codec
) -> list[tuple[float, ...]] | None:
    """Return an advantage for each token of each completion; None if `credited_terms` returns no terms.

    In a composed environment, a token's advantage is a sum: the outcome advantage of its completion, and a summand for each
    part that scores steps. This summand is the part's weight times the token's advantage from process supervision, normalised
    over the steps of that part alone. In an environment without parts, the steps are the whole reward, so a token's advantage
    is that of process supervision only.

    Args:
        group: completions with verdicts.
        terms: the summands of the environment's reward.
        outcome_G: outcome advantage of each completion, computed from the parts that do not score steps.
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
        verdicts = zip(group.scores, group.generated, strict=True)
        steps_G = [steps_of(score, term, codec, done, group.prompt_ids) for score, done in verdicts]
        part_GT = process_supervision([rewards for rewards, _ in steps_G], [ends for _, ends in steps_G], lengths)
        total_GT += term.weight * part_GT
    return [tuple(row[:length]) for row, length in zip(total_GT.tolist(), lengths, strict=True)]


def steps_differ(group: Group, term: Term) -> list[bool]:
    """Return, for each completion, True if the steps of `term` could give one of its tokens a nonzero advantage.

    If any two step rewards of the group differ, the result is True for every completion with step rewards. It may be True
    although all advantages are 0: steps that end within the same token are merged and keep only their smallest reward, but
    which steps these are is unknown here, because completions are not decoded.
    """
    rewards = [step_rewards(score, term) for score in group.scores]
    differ = len({reward for steps in rewards for reward in steps or ()}) > 1
    return [differ and steps is not None for steps in rewards]
