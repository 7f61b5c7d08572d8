"""Selection rules of rejection sampling: they decide which completions of a prompt are kept. Pure functions."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from verigym.envs.composition.terms import parts_of
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score, Status, sha256_hex


@dataclass(frozen=True)
class Candidate:
    """A graded completion."""

    text: str
    tokens: int
    score: Score
    cut_off: bool = False
    """Whether the token limit cut the completion off. Training on such a text would teach the model to stop there."""


Rule = Callable[[Sequence[Candidate]], list[int]]


def best(candidates: Sequence[Candidate]) -> list[int]:
    """Return the indices of all scored candidates, by descending reward; among equal rewards, the shortest first.

    Wrong candidates are included, so combine this rule with a least reward.
    """
    scored = [n for n, one in enumerate(candidates) if one.score.reward is not None]
    return sorted(scored, key=lambda n: (-(candidates[n].score.reward or 0.0), candidates[n].tokens, n))


def all_correct(candidates: Sequence[Candidate]) -> list[int]:
    """Return the correct candidates in the order of sampling."""
    return [n for n, one in enumerate(candidates) if one.score.status is Status.CORRECT]


def shortest_correct(candidates: Sequence[Candidate]) -> list[int]:
    """Return the correct candidates, the shortest first."""
    return sorted(all_correct(candidates), key=lambda n: (candidates[n].tokens, n))


def longest_correct(candidates: Sequence[Candidate]) -> list[int]:
    """Return the correct candidates, the longest first."""
    return sorted(all_correct(candidates), key=lambda n: (-candidates[n].tokens, n))


RULES: dict[str, Rule] = {
    "best": best,
    "all_correct": all_correct,
    "shortest_correct": shortest_correct,
    "longest_correct": longest_correct,
}
"""Rules by name. A rule returns the indices of the completions that may be kept, in order of preference."""


_COMPARISON = re.compile(r"\s*(<=|>=|==|<|>)\s*([-+]?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)\s*")
_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Condition:
    """A bound on the reward of a part of a composed environment, such as an added reward, or on one component of the part."""

    name: str
    """Name of a part, such as `language`, or of one of its components, such as `paragraphs/longest`."""
    comparison: str
    number: float

    def __str__(self) -> str:
        """Return the condition as text, for example `language >= 0.95`."""
        return f"{self.name} {self.comparison} {self.number:g}"

    def component(self, environment: Environment) -> str:
        """Return the name in `Score.components` of the value that the condition bounds; empty for the reward itself.

        Raises:
            UsageError: the environment has no part of that name, or several.
        """
        part, _, inner = self.name.partition("/")
        paths = parts_of(environment)
        found = [path for path in paths if path.rpartition("/")[2] == part]
        if not paths and part == environment.name:
            return inner
        if len(found) != 1:
            known = sorted({path.rpartition("/")[2] for path in paths} or {environment.name})
            what = f"{len(found)} parts are" if found else "no part is"
            raise UsageError(f"keep_if: {what} called {part!r}; the parts are {', '.join(known)}")
        return f"{found[0]}/{inner}" if inner else found[0]

    def holds(self, value: float) -> bool:
        """Return True if `value` satisfies the condition."""
        return _OPERATORS[self.comparison](value, self.number)


def condition(name: str, text: str) -> Condition:
    """Return the condition on the part or component `name`, such as `language`; `text` is a comparison such as `>= 0.95`.

    Raises:
        ValueError: `text` is not a comparison with a finite number.
    """
    found = _COMPARISON.fullmatch(text)
    if found is None or math.isinf(float(found[2])):
        raise ValueError(f"keep_if: {name}: {text!r} is no comparison with a number; write for example '>= 0.95' or '<= 300'")
    return Condition(name, found[1], float(found[2]))


@dataclass(frozen=True)
class Selection:
    """The completions of a prompt that are kept."""

    numbers: list[int]
    """In the order of the rule."""
    removed: dict[int, str]
    """The reason for each of the others."""


def select(
    candidates: Sequence[Candidate],
    rule: str,
    *,
    at_most: int | None = None,
    least_reward: float | None = None,
    conditions: Sequence[tuple[Condition, str]] = (),
) -> Selection:
    """Choose which of a prompt's completions are kept.

    A completion is never kept if it has no verdict, was cut off, has the same text (apart from white space) as a completion
    already kept, or if its verdict lacks a component that a condition is about. A component is missing, for example, if a
    gate failed and the component was not computed.

    Args:
        candidates: a prompt's completions.
        rule: a name in RULES.
        at_most: most completions to keep; None for no bound.
        least_reward: smallest reward of a kept completion; None for no bound.
        conditions: conditions that must all hold, each with the name that its component has in the scores.
    """
    order = RULES[rule](candidates)
    kept: list[int] = []
    removed = {number: rule for number in range(len(candidates)) if number not in order}
    removed |= {number: "no verdict" for number, one in enumerate(candidates) if one.score.reward is None}
    seen: set[str] = set()
    for number in order:
        one = candidates[number]
        text = text_key(one.text)
        reason = _unfit(one, least_reward, conditions) or ("same text" if text in seen else "")
        if not reason and at_most is not None and len(kept) == at_most:
            reason = "at_most"
        if reason:
            removed[number] = reason
            continue
        seen.add(text)
        kept.append(number)
    return Selection(kept, removed)


def _unfit(one: Candidate, least_reward: float | None, conditions: Sequence[tuple[Condition, str]]) -> str:
    """Return the reason why a completion cannot be kept, independently of the others; empty if there is none."""
    reward = one.score.reward
    if reward is None:
        return "no verdict"
    if one.cut_off:
        return "cut off"
    if least_reward is not None and reward < least_reward:
        return f"reward >= {least_reward:g}"
    for wanted, component in conditions:
        value = one.score.components.get(component) if component else reward
        if value is None or not wanted.holds(value):
            return str(wanted)
    return ""


def text_key(text: str) -> str:
    """Return a hash of `text` that ignores differences in white space."""
    return sha256_hex(" ".join(text.split()))
