"""Expressions that are linear in one of their parts, with a rational slope."""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.build import ZERO, minus, negative, scaled
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.tree import Add, Div, Mul, Neg, Node, walk


def linear(node: Node, atom: Node, work: WorkBudget | None = None) -> tuple[Fraction, Node] | None:
    """Return (a, b) with node = a * atom + b, where a is rational and b does not contain `atom`; None if there is no such pair.

    The cost is subtracted from the budget `work`, if given.
    """
    if node == atom:
        return Fraction(1), ZERO
    if not any(part == atom for part in walk(node)):
        return Fraction(0), node
    match node:
        case Neg(of):
            inner = linear(of, atom, work)
            return inner and (-inner[0], inner[1] if inner[1] == ZERO else negative(inner[1]))
        case Add(terms):
            slope = Fraction(0)
            rest: Node = ZERO
            for term in terms:
                part = linear(term, atom, work)
                if part is None:
                    return None
                slope += part[0]
                rest = part[1] if rest == ZERO else minus(rest, negative(part[1])) if part[1] != ZERO else rest
            return slope, rest
        case Mul(factors):
            holding = [factor for factor in factors if any(part == atom for part in walk(factor))]
            others = [rational(factor, work) for factor in factors if factor not in holding]
            inner = linear(holding[0], atom, work) if len(holding) == 1 and None not in others else None
            scale = Fraction(1)
            for other in others:
                scale *= other or 0
            return _times(inner, scale)
        case Div(top, bottom):
            divisor = rational(bottom, work)
            return _times(linear(top, atom, work), 1 / divisor) if divisor else None
    return None


def _times(line: tuple[Fraction, Node] | None, scale: Fraction) -> tuple[Fraction, Node] | None:
    if line is None:
        return None
    return line[0] * scale, ZERO if line[1] == ZERO else scaled(line[1], scale)
