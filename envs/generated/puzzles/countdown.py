"""`countdown`: make a target from given numbers with + - * /. Any expression that equals the target is right."""

from __future__ import annotations

import random
from collections import Counter
from typing import Self

from pydantic import Field, model_validator

from verigym.envs.contract.generated import Made
from verigym.envs.contract.schema import Reference
from verigym.envs.generated.puzzles.base import TextOptions, TextPuzzle, at
from verigym.envs.generated.puzzles.expression import Unreadable, work_out

SIZES = (3, 3, 4, 5, 6)
LARGEST = (9, 25, 50, 99, 99)
HIGHEST = 999


class CountdownReference(Reference):
    """The numbers and what is to be made of them."""

    numbers: tuple[int, ...] = Field(min_length=1, max_length=20)
    """The numbers given, none below 0."""
    target: int
    """The number to reach."""
    answer: str | None = None
    """An expression that reaches the target. It serves as the gold (the known right answer). None: no expression is known."""

    @model_validator(mode="after")
    def _answer_is_right(self) -> Self:
        if min(self.numbers) < 0:
            raise ValueError("a number is below 0")
        problem = wrong(self, self.answer, use_all=False) if self.answer is not None else ""
        if problem:
            raise ValueError(f"the answer {self.answer!r} is none: {problem}")
        return self


class CountdownOptions(TextOptions):
    """Options of `countdown`."""

    use_all: bool = True
    """Whether every given number must be used. No number may be used more often than it is given."""


def wrong(reference: CountdownReference, answer: str, *, use_all: bool) -> str:
    """Return what is wrong with the expression `answer`, or an empty string if it reaches the target and obeys the rules."""
    try:
        value, numbers, stated = work_out(answer)
    except Unreadable as problem:
        return f"the answer {problem}"
    if stated is not None and stated != value:
        return "what stands on the other side of the equals sign is not its value"
    if value != reference.target:
        return f"not {reference.target}"
    used, given = Counter(numbers), Counter(reference.numbers)
    if not used <= given:
        return "a number is used that is not given, or more often than given"
    return "a given number is not used" if use_all and used != given else ""


class CountdownEnvironment(TextPuzzle[CountdownReference, CountdownOptions]):
    """Countdown, judged by a small parser of arithmetic expressions; nothing is evaluated as a program."""

    name = "countdown"
    version = "3"
    reference_type = CountdownReference
    options_type = CountdownOptions

    def make(self, rng: random.Random) -> Made:
        """Return a task with random numbers and a target.

        To make the target, two of the numbers at a time are combined by a random operation, until one number is left. All is
        drawn again until this last number is positive, not too large and different from all the given numbers.
        """
        while True:
            given = sorted(rng.randint(1, at(self.level, LARGEST)) for _ in range(at(self.level, SIZES)))
            parts = [(value, str(value)) for value in given]
            while len(parts) > 1:
                (a, left), (b, right) = (parts.pop(rng.randrange(len(parts))) for _ in range(2))
                parts.append(_join(rng, a, left, b, right))
            target, text = parts[0]
            if 0 < target <= HIGHEST and target not in given:
                break
        uses = "each exactly once" if self.options.use_all else "each at most once"
        question = f"Reach {target} with the numbers {', '.join(map(str, given))}, {uses}, and + - * / and parentheses."
        text = text.removeprefix("(").removesuffix(")")
        return Made(f"{question} Give the expression.", text, facts={"numbers": tuple(given), "target": target})

    def problem(self, reference: CountdownReference, answer: str) -> str:
        """Return what is wrong with `answer`, which must be an expression of the given numbers whose value is the target."""
        return wrong(reference, answer, use_all=self.options.use_all)


def _join(rng: random.Random, a: int, left: str, b: int, right: str) -> tuple[int, str]:
    """Return the sum, difference, product or whole quotient of two numbers, never below 0, and how it is written."""
    if a < b:
        a, left, b, right = b, right, a, left
    sign = rng.choice("+-*/" if b and a % b == 0 else "+-*")
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0}[sign]
    return value, f"({left} {sign} {right})"
