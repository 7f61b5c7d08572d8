r"""Refuses an equation of the question where it is to be rewritten: `2x + 3y = 6`, where `y = 2 - \frac23 x` is asked.

All equations with the same solutions are equal, so that the question's own would answer "solve for y" and "write in standard
form". Where the question states an equation with the gold's solutions, the gold is that equation rewritten. The answer then has
to be like the gold in all that sets the gold apart from the question's equation.
"""

from __future__ import annotations

from math import gcd
from typing import TypeGuard

from verigym.envs.math.build import minus
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.values import proportional
from verigym.envs.math.judging.guards.reduced import coefficient, is_factored
from verigym.envs.math.judging.question import formulas
from verigym.envs.math.judging.shapes import shape
from verigym.envs.math.tree import Div, Node, Number, Relation, Symbol, symbols, walk

MAX_CHECKS = 8
"""At most this many equations of the question are compared with the answer."""


def is_restated(question: str, gold: Node, answer: Node, work: WorkBudget) -> bool:
    """Return whether `answer`, which equals `gold`, is an equation of the question that is not rewritten as the gold is.

    The cost is subtracted from the budget `work`.
    """
    if not question or not (_is_equation(gold) and _is_equation(answer)):
        return False
    stated = [one for one in formulas(question).trees if _is_equation(one) and symbols(one) == symbols(answer)]
    wanted, given = _form(gold), _form(answer)
    for one in stated[:MAX_CHECKS]:
        apart = [place for place, trait in enumerate(_form(one)) if trait != wanted[place]]
        unlike = any(given[place] != wanted[place] for place in apart) if apart else _sides(answer) == _sides(one)
        if unlike and _sides(gold) != _sides(one) and _is_same(one, answer, work):
            return True
    return False


def _is_equation(node: Node) -> TypeGuard[Relation]:
    return isinstance(node, Relation) and node.comparators == ("=",) and len(symbols(node)) > 1


def _sides(equation: Relation) -> frozenset[Node]:
    return frozenset(map(shape, equation.sides))


def _is_same(one: Relation, two: Relation, work: WorkBudget) -> bool:
    return _sides(one) == _sides(two) or proportional(minus(*one.sides), minus(*two.sides), work=work).verdict == "same"


def _form(equation: Relation) -> tuple[object, ...]:
    """Return what is asked for where an equation is to be rewritten.

    The names that stand alone on one side, whether a side is 0, whether a side is factored, whether it has fractions, and
    whether an integer divides both sides.
    """
    left, right = sides = tuple(map(shape, equation.sides))
    alone = frozenset(
        one for one, other in ((left, right), (right, left)) if isinstance(one, Symbol) and one.name not in symbols(other)
    )
    parts = [part for side in sides for part in walk(side)]
    fractions = any(isinstance(part, Div) or (isinstance(part, Number) and part.value.denominator > 1) for part in parts)
    is_zero = any(isinstance(side, Number) and side.value == 0 for side in sides)
    return alone, is_zero, any(map(is_factored, parts)), fractions, gcd(*map(coefficient, sides)) > 1
