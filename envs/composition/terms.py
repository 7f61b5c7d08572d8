"""A composed reward as a weighted sum of terms, for advantages that are computed for each part separately."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from verigym.envs.composition.base import Composition
from verigym.envs.composition.part_scores import scores_steps
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score


@dataclass(frozen=True)
class Term:
    """A part of a composition whose reward, times a weight, is added to the composed reward."""

    part: str
    """Name of the part in `Score.components`, such as `process` or `graded/process`; empty for an environment without parts."""
    weight: float
    """Product of the weights on the path from the outermost composition to the part; not 0."""
    low: float
    """Floor of its reward."""
    high: float
    """Maximum of its reward."""
    steps: bool
    """Whether its verdicts hold steps."""
    absent: tuple[float, ...] = ()
    """Rewards to assume if a Gate left a part unjudged, one for each name in the path `part`. For example, if `part` is `a/b`,
    the first entry applies if the part `a` was not judged, and the second if `a` was judged but `a/b` was not."""

    def reward(self, score: Score) -> float | None:
        """Return the part's reward in `score`, a score of the composition, or None if the score has no reward for this part.

        If the condition of a Gate failed, the gate's second part was not judged, and the gate's reward is the floor of the
        second part. If this term is the second part, this method returns that floor. If this term is a part inside the second
        part, the method returns the end of the term's reward range that contributes least to the gate's reward: the low end if
        the term's weight within the second part is positive, and else the high end. The weight of the gate does not matter.
        """
        if not score.scored or not self.part:
            return score.reward
        names = self.part.split("/")
        for level, absent in enumerate(self.absent, 1):
            name = "/".join(names[:level])
            if name not in score.components:
                return absent
            if score.components[name] is None:
                return None  # an optional part, or one of its parts, failed
        return score.components[self.part]


def terms_of(environment: Environment) -> tuple[Term, ...]:
    """Return the terms of the environment's reward. Parts of weight 0 are left out.

    If the reward is no weighted sum of parts, there is a single term, with an empty name and the weight 1.

    Raises:
        UsageError: a part scores steps inside a composition that is not a weighted sum, so that its steps have no weight.
    """
    low, high = environment.reward_range
    if not isinstance(environment, Composition):
        return (Term("", 1.0, low, high, scores_steps(environment)),)
    summands = environment.summands
    if summands is None:
        for part, inner in environment.parts.items():
            if scores_steps(inner):
                raise UsageError(
                    f"{environment.name!r}: its part {part!r} scores steps, but the reward of {type(environment).__name__} is "
                    "no weighted sum of its parts, so the steps have no share of it; put the part into a WeightedSum or a Gate"
                )
        return (Term("", 1.0, low, high, False),)
    terms: list[Term] = []
    for part, weight in summands.items():
        for term in terms_of(environment.parts[part]) if weight else ():
            absent = (term.low if term.weight > 0 else term.high, *term.absent)
            if part in environment.options.optional:  # a failed part adds 0, which may be less than its floor
                term = replace(term, low=min(term.low, 0.0), high=max(term.high, 0.0))
            name = f"{part}/{term.part}" if term.part else part
            terms.append(replace(term, part=name, weight=weight * term.weight, absent=absent))
    return tuple(terms)


def step_parts(environment: Environment) -> frozenset[str]:
    """Return the names of all parts that score steps, including parts of weight 0.

    If the environment scores steps but has no parts, the only name is "".
    """
    if not isinstance(environment, Composition):
        return frozenset({""} if scores_steps(environment) else ())
    return frozenset(
        f"{part}/{name}" if name else part for part, inner in environment.parts.items() for name in step_parts(inner)
    )


def parts_of(environment: Environment) -> list[str]:
    """Return the names of all parts at any depth, as in `Score.components`; empty for an environment without parts."""
    if not isinstance(environment, Composition):
        return []
    return [
        name
        for part, inner in environment.parts.items()
        for name in (part, *(f"{part}/{deeper}" for deeper in parts_of(inner)))
    ]


def weighted_sum(terms: Sequence[Term], score: Score) -> float | None:
    """Return the sum of weight times reward over `terms` in `score`, or None if `score` has no reward."""
    if not score.scored:
        return None
    rewards = ((term.weight, term.reward(score)) for term in terms)
    return math.fsum(weight * reward for weight, reward in rewards if reward is not None)
