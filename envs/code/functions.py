"""`functions`: generated tasks that ask for a one-line Python function described in words, graded by calls in the sandbox."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from pydantic import Field

from verigym.envs.code.environment import CodeEnvironment, CodeOptions
from verigym.envs.code.reference import CodeReference
from verigym.envs.contract.generated import GeneratedTasks, Made
from verigym.envs.contract.schema import Prompt

# What each function is called with. Small numbers tell remainders and bounds apart, large ones sums and products: a test draws
# thousands of functions and finds no two that agree on these and differ elsewhere.
CALLS = (-50, -29, -13, -9, -7, -5, -4, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 23, 36)
LEAST_VALUES = 3
"""A function is used in a task only if it takes at least this many different values on the arguments in `CALLS`. If it took
fewer, a program that returns a constant could pass most tests."""


class Operation(NamedTuple):
    """A step of a function, in words and in Python."""

    words: str
    """With `{n}` where a number from 2 to 9 stands."""
    code: str
    """With `{x}` for what the steps before it gave."""
    needs: int
    """An expression put in the place of `{x}` needs parentheses if its precedence is below this value. The precedences are 0
    for a sum, 1 for a product, and 2 for a name or a call."""
    gives: int
    """Precedence of the resulting expression."""
    value: Callable[[int, int], int]


OPERATIONS = (
    Operation("add {n}", "{x}+{n}", 0, 0, lambda x, n: x + n),
    Operation("subtract {n}", "{x}-{n}", 0, 0, lambda x, n: x - n),
    Operation("multiply by {n}", "{x}*{n}", 1, 1, lambda x, n: x * n),
    Operation("take the remainder by {n}", "{x}%{n}", 1, 1, lambda x, n: x % n),
    Operation("square", "{x}**2", 2, 1, lambda x, n: x**2),
    Operation("change the sign", "-{x}", 2, 1, lambda x, n: -x),
    Operation("make it positive", "abs({x})", 0, 2, lambda x, n: abs(x)),
    Operation("raise it to at least {n}", "max({x},{n})", 0, 2, max),
)


class FunctionsOptions(CodeOptions):
    """Options of the `functions` environment: the options of `code`, and the length of the functions."""

    steps: int = Field(default=2, ge=1, le=6)
    """Most steps of a function, one after the other."""


class FunctionsEnvironment(GeneratedTasks[CodeReference, CodeOptions], CodeEnvironment):
    """Tasks to write a Python function that applies 1 to `steps` arithmetic steps to a whole number.

    For example: `Write f(x) in Python: add 4, multiply by 3.`
    """

    name = "functions"
    version = "2"
    options_type = FunctionsOptions

    def make(self, rng: random.Random) -> Made:
        """Return a random task. If the drawn function is nearly constant, its steps and numbers are drawn again."""
        steps = rng.randint(1, cast(FunctionsOptions, self.options).steps)
        while True:
            chosen = [(rng.choice(OPERATIONS), rng.randint(2, 9)) for _ in range(steps)]
            values = [_value(chosen, x) for x in CALLS]
            if len(set(values)) >= LEAST_VALUES:
                break
        words = ", ".join(operation.words.format(n=n) for operation, n in chosen)
        tests = [{"type": "call", "function": "f", "args": [x], "expected": y} for x, y in zip(CALLS, values, strict=True)]
        return Made(f"Write f(x) in Python: {words}.", f"def f(x): return {_code(chosen)}", facts={"tests": tests})

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return task number `index` of `split` for `seed`; the sequence has no end.

        Raises:
            UsageError: `split` is neither train nor test.
        """
        made = self.drawn(split, seed, index)
        metadata = {"split": split, "seed": seed, "index": index}
        # A call takes microseconds; a program that hangs should not hold up training for the ten seconds of the default.
        return self.prompt(made.question, metadata=metadata, solution=made.answer, limits={"wall_s": 2.0}, **made.facts)

    def demonstration(self, split: str, seed: int, index: int) -> tuple[Prompt, str]:
        """Return a task with a function that does it, in a fence."""
        prompt = self.prompt_at(split, seed, index)
        return prompt, f"```python\n{self.reference(prompt).solution}\n```"

    def examples(self) -> Sequence[Prompt]:
        """Return a few of its own tasks, in place of those of `code`."""
        return tuple(self.prompt_at("train", 0, index) for index in range(4))


def _value(steps: Sequence[tuple[Operation, int]], x: int) -> int:
    for operation, n in steps:
        x = operation.value(x, n)
    return x


def _code(steps: Sequence[tuple[Operation, int]]) -> str:
    text, holds = "x", 2
    for operation, n in steps:
        text = operation.code.format(x=text if holds >= operation.needs else f"({text})", n=n)
        holds = operation.gives
    return text
