"""Decides whether an answer is less simplified than the gold, for the option `unsimplified=refuse`."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.tree import Add, Call, Div, Mul, Neg, Node, Number, Pow, Root, Symbol, children, walk

MAX_POWER_BITS = 64
SIMPLE_WORK = 300_000
"""Units of work for one answer with its gold."""


def is_unsimplified(gold: Node, answer: Node, work: WorkBudget | None = None) -> bool:
    """Return whether `answer`, which equals `gold`, is less simplified: 2+3 for 5, 2/4 for 1/2, a product for a sum.

    The cost is subtracted from the budget `work`, if given.
    """
    own = WorkBudget(SIMPLE_WORK) if work is None else work
    if any(_work_left(part, own) for part in walk(answer)) and not any(_work_left(part, own) for part in walk(gold)):
        return True
    return _form(gold) != _form(answer)


def _work_left(node: Node, work: WorkBudget) -> bool:
    match node:
        case Add(parts) | Mul(parts):
            numbers = [part for part in parts if rational(part, work) is not None]
            return len(numbers) > 1
        case Div(top, bottom):
            one, two = rational(top, work), rational(bottom, work)
            if one is not None and two is not None:
                whole = one.denominator == two.denominator == 1
                return not whole or two == 1 or gcd(int(one), int(two)) != 1
        case Pow(base, exponent):
            one, two = rational(base, work), rational(exponent, work)
            return one is not None and two is not None and _short_power(one, two)
        case Root() | Call():
            return rational(node, work) is not None
        case Neg(Neg()):
            return True
        case Number(value, decimals):
            return decimals > 0 and value.denominator == 1
    return False


def _short_power(base: Fraction, exponent: Fraction) -> bool:
    bits = max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(exponent)
    return bits <= MAX_POWER_BITS


def _form(node: Node) -> str:
    """Tell a product of sums from everything else."""
    while isinstance(node, Neg):
        node = node.of
    factors = node.factors if isinstance(node, Mul) else (node,)
    sums = [part for part in factors if isinstance(part.base if isinstance(part, Pow) else part, Add)]
    with_letters = [part for part in sums if any(isinstance(inner, Symbol) for inner in walk(part))]
    factored = bool(with_letters) and (len(factors) > 1 or isinstance(node, Pow))
    return "factored" if factored and children(node) else "other"
