"""Generated word and number problems, judged as in `math`: `arithmetic`, `units`, `bases` and `story`.

`envs/contract/generated.py` defines how tasks are drawn and assigned to splits. `puzzles/` has the environments with
difficulty levels.
"""

from __future__ import annotations

import random
from typing import Literal, cast

from pydantic import Field

from verigym.envs.contract.generated import HELD_OUT_SHARE, SPLITS, TRIES, GeneratedTasks, Made, split_of
from verigym.envs.contract.schema import Prompt
from verigym.envs.math.environment import MathEnvironment, MathOptions, MathReference

__all__ = [
    "HELD_OUT_SHARE",
    "SPLITS",
    "THINGS",
    "TRIES",
    "UNITS",
    "ArithmeticEnvironment",
    "BasesEnvironment",
    "ProceduralEnvironment",
    "StoryEnvironment",
    "UnitsEnvironment",
    "split_of",
]


class ProceduralOptions(MathOptions):
    """Options that all of these share."""

    symbolic: bool = False
    """Off: answers here are plain numbers."""
    unsimplified: Literal["accept", "refuse"] = "refuse"
    """With `refuse`, the default here, an answer must be a single number: 80+5 is wrong if the right answer is 85."""


class ProceduralEnvironment(GeneratedTasks[MathReference, MathOptions], MathEnvironment):
    """Base class of generated problems. A subclass writes `make`, which draws a question, its answer and a worked solution."""

    options_type = ProceduralOptions

    def demonstration(self, split: str, seed: int, index: int) -> tuple[Prompt, str]:
        """Return a task and its worked solution, on which a model can be trained before RL (a supervised cold start).

        The solution is the reasoning in `<think>` tags, followed by the boxed answer.
        """
        made = self.drawn(split, seed, index)
        prompt = self.prompt(made.question, answer=made.answer)
        return prompt, f"<think>{made.reasoning}</think>\\boxed{{{made.answer}}}"


class ArithmeticOptions(ProceduralOptions):
    """Options of `arithmetic`."""

    digits: int = Field(default=2, ge=1, le=6)
    """Most digits of an operand."""
    operations: str = Field(default="+-", pattern=r"^[+\-*]+$")
    """Which of + - * occur."""


class ArithmeticEnvironment(ProceduralEnvironment):
    """Sums, differences and products of whole numbers, with digit-by-digit solutions."""

    name = "arithmetic"
    version = "2"
    options_type = ArithmeticOptions

    def make(self, rng: random.Random) -> Made:
        """Return for example ("47+38=?", "85", "7+8=15,4+3+1=8")."""
        options = cast(ArithmeticOptions, self.options)
        operation = rng.choice(options.operations)
        top = 10**options.digits - 1
        a, b = rng.randint(0, top), rng.randint(0, top)
        if operation == "*":
            b = rng.randint(0, 9)
            return Made(f"{a}*{b}=?", str(a * b), _multiplication(a, b))
        if operation == "-":
            a, b = max(a, b), min(a, b)
            return Made(f"{a}-{b}=?", str(a - b), _subtraction(a, b))
        return Made(f"{a}+{b}=?", str(a + b), _addition(a, b))


def _addition(a: int, b: int) -> str:
    steps: list[str] = []
    carry = 0
    while a or b or not steps:
        parts = [a % 10, b % 10] + ([carry] if carry else [])
        steps.append("+".join(map(str, parts)) + f"={sum(parts)}")
        carry = sum(parts) // 10
        a, b = a // 10, b // 10
    return ",".join(steps)


def _subtraction(a: int, b: int) -> str:
    steps: list[str] = []
    borrow = 0
    while a or b or not steps:
        top, low = a % 10 - borrow, b % 10
        borrow = int(top < low)
        steps.append(f"{top + 10 * borrow}-{low}={top + 10 * borrow - low}")
        a, b = a // 10, b // 10
    return ",".join(steps)


def _multiplication(a: int, b: int) -> str:
    steps: list[str] = []
    carry = 0
    while a or not steps:
        value = a % 10 * b + carry
        steps.append(f"{a % 10}*{b}" + (f"+{carry}" if carry else "") + f"={value}")
        carry = value // 10
        a //= 10
    return ",".join(steps)


# larger unit, smaller unit, how many of the smaller make one of the larger
UNITS: tuple[tuple[str, str, int], ...] = (
    ("yards", "feet", 3),
    ("weeks", "days", 7),
    ("decades", "years", 10),
    ("feet", "inches", 12),
    ("dozen", "eggs", 12),
    ("days", "hours", 24),
)


class UnitsOptions(ProceduralOptions):
    """Options of `units`."""

    largest: int = Field(default=9, ge=1, le=99)
    """Most of the larger unit."""


class UnitsEnvironment(ProceduralEnvironment):
    """Conversions in words: how many days are 4 weeks and 3 days?"""

    name = "units"
    version = "2"
    options_type = UnitsOptions

    def make(self, rng: random.Random) -> Made:
        """Return a question, its answer and the steps.

        For example ("How many days are 4 weeks and 3 days?", "31", "4*7=28,28+3=31").
        """
        large, small, factor = rng.choice(UNITS)
        a, b = rng.randint(1, cast(UnitsOptions, self.options).largest), rng.randint(1, factor - 1)
        question = f"How many {small} are {a} {large} and {b} {small}?"
        return Made(question, str(a * factor + b), _product_and_sum(a, factor, b))


class BasesOptions(ProceduralOptions):
    """Options of `bases`."""

    largest: int = Field(default=9, ge=2, le=9)
    """The largest base that occurs; the smallest is 2."""


class BasesEnvironment(ProceduralEnvironment):
    """Tasks to convert a two-digit number from another base into base ten."""

    name = "bases"
    version = "2"
    options_type = BasesOptions

    def make(self, rng: random.Random) -> Made:
        """Return a question, its answer and the steps, for example ("35 in base 7 is?", "26", "3*7=21,21+5=26")."""
        base = rng.randint(2, cast(BasesOptions, self.options).largest)
        a, b = rng.randint(1, base - 1), rng.randint(0, base - 1)
        return Made(f"{a}{b} in base {base} is?", str(a * base + b), _product_and_sum(a, base, b))


PEOPLE = ("Ann", "Bob", "Eve", "Mia", "Sam", "Tom")
THINGS = ("apples", "books", "cards", "coins", "pens", "shells")


class StoryEnvironment(ProceduralEnvironment):
    """Word problems of two steps."""

    name = "story"
    version = "2"

    def make(self, rng: random.Random) -> Made:
        """Return a question about gains and losses or about bags of things, its answer and its two steps."""
        who, things = rng.choice(PEOPLE), rng.choice(THINGS)
        a, b, c = rng.randint(1, 9), rng.randint(1, 9), rng.randint(1, 9)
        if rng.random() < 0.5 and c <= a + b:
            question = f"{who} has {a} {things}, gets {b} more and gives away {c}. How many {things} are left?"
            return Made(question, str(a + b - c), f"{a}+{b}={a + b},{a + b}-{c}={a + b - c}")
        bags, each = rng.randint(2, 5), rng.randint(1, 4)
        question = f"{who} buys {bags} bags of {each} {things} and has {a} more. How many {things} is that?"
        return Made(question, str(bags * each + a), _product_and_sum(bags, each, a))


def _product_and_sum(a: int, b: int, c: int) -> str:
    return f"{a}*{b}={a * b},{a * b}+{c}={a * b + c}"
