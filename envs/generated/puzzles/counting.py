"""`counting`: how many whole numbers of a range fit a condition on divisors."""

from __future__ import annotations

import random

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import NumberPuzzle, at

LAST = (50, 200, 500, 1000, 3000)


class CountingEnvironment(NumberPuzzle):
    """Tasks to count the multiples of given numbers in a range.

    Level 1 asks for multiples of a number up to a bound, level 2 for those between two bounds, level 3 for multiples of at
    least one of two numbers, and levels 4 and 5 for multiples of exactly one of two numbers. At level 5, multiples of a third
    number are not counted.
    """

    name = "counting"
    version = "2"

    def make(self, rng: random.Random) -> Made:
        """Return a question, its answer and an empty worked solution.

        For example ("How many whole numbers from 1 to 40 are divisible by 7?", "5", "").
        """
        while True:
            words, start, end, count = self._condition(rng)
            if count:
                return Made(f"How many whole numbers from {start} to {end}, both included, are {words}?", str(count), "")

    def _condition(self, rng: random.Random) -> tuple[str, int, int, int]:
        """Return a condition in words, both ends of the range, and how many numbers fit."""
        level = self.level
        end = rng.randint(20, at(level, LAST))
        start = rng.randint(2, end - 10) if level > 1 else 1
        p, q, r = rng.sample(range(2, 13), 3)
        if level <= 2:
            fits, words = [n for n in range(start, end + 1) if n % p == 0], f"divisible by {p}"
        elif level == 3:
            fits = [n for n in range(start, end + 1) if n % p == 0 or n % q == 0]
            words = f"divisible by {p} or by {q} (or by both)"
        elif level == 4:
            fits = [n for n in range(start, end + 1) if (n % p == 0) != (n % q == 0)]
            words = f"divisible by exactly one of {p} and {q}"
        else:
            fits = [n for n in range(start, end + 1) if (n % p == 0 or n % q == 0) and n % r]
            words = f"divisible by {p} or by {q} (or by both), but not by {r}"
        return words, start, end, len(fits)
