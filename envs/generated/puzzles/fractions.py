"""`fractions`: sums, differences and products of fractions, exactly."""

from __future__ import annotations

import operator
import random
from fractions import Fraction

from verigym.envs.contract.generated import Made
from verigym.envs.generated.puzzles.base import NumberPuzzle, at

TERMS = (2, 2, 3, 4, 5)
DENOMINATORS = (6, 12, 12, 20, 30)
_DO = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _value(terms: list[Fraction], signs: list[str]) -> Fraction:
    """Work a row of terms out, products first."""
    sums, rest = [terms[0]], []
    for sign, term in zip(signs, terms[1:], strict=True):
        if sign == "*":
            sums[-1] *= term
        else:
            sums.append(term)
            rest.append(sign)
    total = sums[0]
    for sign, term in zip(rest, sums[1:], strict=True):
        total = _DO[sign](total, term)
    return total


class FractionsEnvironment(NumberPuzzle):
    """Arithmetic with fractions; products occur from level 3 on."""

    name = "fractions"
    version = "2"

    def make(self, rng: random.Random) -> Made:
        """Return for example ("Work out 1/2 + 3/4. ...", "5/4", "")."""
        most = at(self.level, DENOMINATORS)
        bottoms = [rng.randint(2, most) for _ in range(at(self.level, TERMS))]
        tops = [rng.randint(1, bottom) for bottom in bottoms]
        signs = [rng.choice("+-*" if self.level > 2 else "+-") for _ in bottoms[1:]]
        row = f"{tops[0]}/{bottoms[0]}"
        for sign, top, bottom in zip(signs, tops[1:], bottoms[1:], strict=True):
            row += f" {sign} {top}/{bottom}"
        value = _value([Fraction(*pair) for pair in zip(tops, bottoms, strict=True)], signs)
        return Made(f"Work out {row}. Give a fraction in lowest terms, or a whole number.", str(value), "")
