"""`running_sums`: sums worked out one number at a time, for studies of process rewards."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import cast

from pydantic import Field

from verigym.envs.contract.generated import Made
from verigym.envs.generated.families import ProceduralEnvironment, ProceduralOptions


class RunningSumsOptions(ProceduralOptions):
    """What is added up, and what is asked."""

    terms: tuple[int, int] = (4, 6)
    """Least and most numbers of a task."""
    largest: int = Field(default=30, ge=1, le=999)
    """The largest number that occurs; the smallest is 1."""
    modulus: int = Field(default=0, ge=0, le=99)
    """With 0 the total is asked for, with m > 0 the total modulo m. A modulus lets wrong steps lead to a right answer."""


class RunningSumsEnvironment(ProceduralEnvironment):
    """Tasks such as `17+8+25=?`, solved by `17+8=25,25+25=50`."""

    name = "running_sums"
    version = "1"
    options_type = RunningSumsOptions

    def make(self, rng: random.Random) -> Made:
        """Return a question, its answer and the steps, for example ("17+8+25=? mod 2", "0", "17+8=25,25+25=50")."""
        options = cast(RunningSumsOptions, self.options)
        numbers = [rng.randint(1, options.largest) for _ in range(rng.randint(*options.terms))]
        asked = f" mod {options.modulus}" if options.modulus else ""
        total = sum(numbers)
        question = "+".join(map(str, numbers)) + "=?" + asked
        return Made(question, str(total % options.modulus if options.modulus else total), worked(numbers))


def worked(numbers: list[int]) -> str:
    """Return the steps, one for each number after the first."""
    totals = list(accumulate(numbers))
    return ",".join(
        f"{before}+{number}={after}" for before, number, after in zip(totals, numbers[1:], totals[1:], strict=False)
    )
