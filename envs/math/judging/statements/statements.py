"""Compares equations and inequalities as statements: `2x + 4y = 3` is `y = 3/4 - x/2`, `x + y < 3` is `3 > x + y`."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from verigym.envs.math.build import minus, negative
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.values import approximation, proportional
from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.statements.linear import linear
from verigym.envs.math.tree import Comparator, Node, Relation, Symbol, Verdict, symbols

Same = Callable[[Case, Node, Node], Verdict]

_TURNED: dict[Comparator, Comparator] = {"<": ">", "<=": ">="}
EQUAL = frozenset({"=", "approx"})


def is_equation(node: Node) -> bool:
    """Return whether `node` is an equation or a chain of equations, rounded values included."""
    return isinstance(node, Relation) and EQUAL.issuperset(node.comparators)


def same_equations(case: Case, gold: Relation, answer: Relation) -> Verdict:
    """Compare the equations `gold` and `answer`, which have two sides each.

    They have the same solutions if the differences of their sides are proportional.
    """
    if gold.comparators != ("=",) or answer.comparators != ("=",):
        return case.refuse("a chain of equations")
    if is_solved(gold) and not is_solved(answer):
        return case.refuse("an equation that is not solved")
    return _same_difference(case, gold, answer)


def is_solved(relation: Relation) -> bool:
    """Return whether one side of `relation` is a variable alone and the other has no variables, as in `x = 5`."""
    left, right = relation.sides
    return (isinstance(left, Symbol) and not symbols(right)) or (isinstance(right, Symbol) and not symbols(left))


def same_statements(case: Case, gold: Relation, answer: Relation, same: Same) -> Verdict:
    """Compare two inequalities or other relations.

    Two relations are the same if they have the same sides after both are written in the same direction (with > instead of <).
    Relations of two sides are also the same if their differences, left side minus right side, are proportional; for
    inequalities, the factor must be positive. `same` compares two sides.
    """
    one, two = _forward(gold), _forward(answer)
    if one.comparators != two.comparators:
        return case.refuse("another relation")
    verdict = all_of(same(case, left, right) for left, right in zip(one.sides, two.sides, strict=True))
    if verdict == "same" or len(one.sides) > 2 or one.comparators[0] not in ("!=", ">", ">="):
        return verdict
    by_difference = _same_difference(case, one, two)
    if by_difference != "same" or one.comparators[0] == "!=":
        return by_difference
    slopes = _positive(minus(*one.sides), case.work), _positive(minus(*two.sides), case.work)
    if None in slopes:
        return case.values(minus(*one.sides), minus(*two.sides))
    return "same" if slopes[0] == slopes[1] else case.refuse("the opposite relation")


def _same_difference(case: Case, gold: Relation, answer: Relation) -> Verdict:
    if symbols(gold) != symbols(answer):
        return case.refuse("a relation between other variables")
    one, two = minus(*gold.sides), minus(*answer.sides)
    verdict = proportional(one, two, case.seed, case.work).verdict
    if verdict == "unknown" and "same" in (case.values(one, two), case.values(one, negative(two))):
        return "same"
    return case.refuse("another relation") if verdict == "different" else verdict


def _forward(relation: Relation) -> Relation:
    """Turn a chain of `<` round, so that all chains descend; other relations stay."""
    if {"<", "<="}.issuperset(relation.comparators):
        turned = tuple(_TURNED[comparator] for comparator in reversed(relation.comparators))
        return Relation(tuple(reversed(relation.sides)), turned)
    return relation


def _positive(node: Node, work: WorkBudget) -> bool | None:
    """Return the sign of the first variable's coefficient where it is linear, which tells two proportional sides apart."""
    for name in sorted(symbols(node)):
        line = linear(node, Symbol(name), work)
        if line is None:
            continue
        if line[0]:
            return line[0] > 0
        rest = approximation(line[1], work=work)
        if rest:
            return rest > Fraction(0)
    return None
