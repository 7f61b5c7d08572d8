"""A composed reward taken apart: the parts of which it is the weighted sum, for what credits each part by itself."""

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
    """A part whose reward, times its weight, is a summand of the whole's."""

    part: str
    """Its name in the components of a score, such as `process` or `graded/process`; empty for an environment without parts."""
    weight: float
    """The product of the weights on the way to it; not 0."""
    low: float
    """Floor of its reward."""
    high: float
    """Maximum of its reward."""
    steps: bool
    """Whether its verdicts hold steps."""
    absent: tuple[float, ...] = ()
    """What its reward stands at where the first of `part`'s names, or the second and so on, was not judged."""

    def reward(self, score: Score) -> float | None:
        """Return the part's reward in a score of the whole; None where there is none.

        Behind a shut gate a part was not judged. The gate gives the floor of what is behind it, in which this part stands at
        the end of its range that is worth least there; a penalty on the gate as a whole does not turn that round.
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
    """Return the summands of an environment's reward, itself alone where it is no composition. Parts of weight 0 are left out.

    Raises:
        UsageError: a part scores steps inside a composition that is no weighted sum of its parts, so its steps have no weight.
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
    found: list[Term] = []
    for part, weight in summands.items():
        for term in terms_of(environment.parts[part]) if weight else ():
            absent = (term.low if term.weight > 0 else term.high, *term.absent)
            if part in environment.options.optional:  # where it fails it adds nothing, which may be its least
                term = replace(term, low=min(term.low, 0.0), high=max(term.high, 0.0))
            name = f"{part}/{term.part}" if term.part else part
            found.append(replace(term, part=name, weight=weight * term.weight, absent=absent))
    return tuple(found)


def step_parts(environment: Environment) -> frozenset[str]:
    """Return the names of all parts that score steps, those without a share of the reward too; "" for a whole without parts."""
    if not isinstance(environment, Composition):
        return frozenset({""} if scores_steps(environment) else ())
    return frozenset(
        f"{part}/{name}" if name else part for part, inner in environment.parts.items() for name in step_parts(inner)
    )


def parts_of(environment: Environment) -> list[str]:
    """Return the names of all parts, however deep, as in the components of a score; none of an environment without parts."""
    if not isinstance(environment, Composition):
        return []
    return [
        name
        for part, inner in environment.parts.items()
        for name in (part, *(f"{part}/{deeper}" for deeper in parts_of(inner)))
    ]


def weighted_sum(terms: Sequence[Term], score: Score) -> float | None:
    """Return the sum of weight times reward over these terms alone; None for an unscored completion."""
    if not score.scored:
        return None
    rewards = ((term.weight, term.reward(score)) for term in terms)
    return math.fsum(weight * reward for weight, reward in rewards if reward is not None)
