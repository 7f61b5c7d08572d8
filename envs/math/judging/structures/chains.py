"""Compares chains of equations: `x = 2 + 3 = 5` claims one value several times, and every link of the chain has to be true."""

from __future__ import annotations

import re
from collections.abc import Iterator

from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.quantities.conversions import converted
from verigym.envs.math.judging.quantities.decimals import decimal_of, digits_of, rounded_at, written_places
from verigym.envs.math.judging.quantities.measured import is_measured, measure
from verigym.envs.math.judging.quantities.measures import same_unit
from verigym.envs.math.judging.question import MAX_CHARS, mentions, speaks_of
from verigym.envs.math.judging.readings import Item
from verigym.envs.math.judging.scalars import in_ten
from verigym.envs.math.judging.statements.statements import Same
from verigym.envs.math.judging.structures.structures import same_structure
from verigym.envs.math.tree import (
    FUNCTIONS,
    Add,
    Call,
    Constant,
    Div,
    Mul,
    Neg,
    Node,
    Number,
    Pow,
    Root,
    Symbol,
    Text,
    Verdict,
    children,
    symbols,
    walk,
)  # fmt: skip

MIN_ROUNDED = 3
MAX_LETTERS = 12
_ROUNDED = re.compile(
    r"\b(?:nearest|round(?:ed|ing)?|estimate|approximate(?:ly)?|approximation|decimals?|significant)\b", re.IGNORECASE
)


def same_chain(case: Case, gold: Node, answer: Item, same: Same) -> Verdict:
    """Compare every side of the chain `answer` with `gold`, using `same`; with the policy `chains=last`, only the last side.

    A side after an approximate equals sign must be the value before that sign, rounded.
    """
    sides = answer.sides
    if case.policy.chains == "last" and len(sides) > 1:
        case.note("chains=last")
        sides = sides[-1:]
    if not sides:
        return all_of(same_structure(case, gold, side, same) for side in answer.rounded)
    if answer.rounded and _is_rounding(case, gold, answer._replace(sides=sides), same):
        return "same"
    verdict = all_of(_links(case, gold, answer._replace(sides=sides), same))
    if verdict == "same" and case.policy.chains == "equal":
        for side in answer.rounded:
            if not _rounds(case, side, sides[-1]) and same_structure(case, sides[-1], side, same) != "same":
                return case.refuse("it is said to be about another value")
    return verdict


def _links(case: Case, gold: Node, answer: Item, same: Same) -> Iterator[Verdict]:
    """Compare the sides with the gold: only the last has to be simplified and in the gold's base, and no link may be false."""
    *before, last = answer.sides
    claimed = [side for side in before if not _is_formula(case, gold, answer.name, side)]
    claimed = claimed[_given(case, gold, claimed, same) :]
    lenient, wanted, unit = case.lenient(), in_ten(gold), measure(last).unit
    linked = bool(claimed) and any(map(is_measured, (gold, *answer.sides)))
    for side in claimed:
        if linked:  # 12 cm is not 12 m, though the gold may be 12
            yield same_structure(lenient, last, converted(side, unit), same)
        if not (linked and unit and is_measured(side)):
            yield same_structure(lenient, wanted, in_ten(side), same)
    yield same_structure(case, gold, last, same)


def _given(case: Case, gold: Node, sides: list[Node], same: Same) -> int:
    r"""Return how many sides at the start only name what is to be expressed in letters: the `\log 12` of `\log 12 = 2p + q`.

    The first stands in the question, and the others are equal to it: `\ln 6 = \ln 2 + \ln 3 = a + b`.
    """
    count = next((place for place, side in enumerate(sides) if symbols(side)), len(sides))
    if not symbols(gold) or not count or rational(sides[0], case.work) is not None or not mentions(case.question, sides[0]):
        return 0
    return count if all(same_structure(case.lenient(), sides[0], side, same) == "same" for side in sides[1:count]) else 0


def _is_formula(case: Case, gold: Node, name: Node | None, side: Node) -> bool:
    r"""Whether a side is the formula for what is asked, before its value: the `\pi r^2` of `A = \pi r^2 = 16\pi`.

    Each letter stands there once and nothing is zero, so that none cancels and leaves a value which the chain gets wrong.
    Without a name before it, `b^2 - 4ac = 49`, it is a known formula rather than an equation to be solved if it is not linear,
    has several letters or a constant, and has no letter of the question's.
    """
    letters = list(_unknowns(side))
    once = len(set(letters)) == len(letters)
    if symbols(gold) or isinstance(side, Symbol | Call) or not 0 < len(letters) <= MAX_LETTERS or not once:
        return False
    zeros = any(isinstance(part, Number) and not part.value for part in walk(side))
    known = any(isinstance(part, Text) or (isinstance(part, Call) and part.name in FUNCTIONS) for part in walk(side))
    if zeros or known or not isinstance(side, Add | Mul | Div | Pow | Root | Neg):
        return False
    if name is not None:
        return frozenset(_unknowns(name)).isdisjoint(letters)
    several = len(letters) > 1 or any(isinstance(part, Constant) for part in walk(side))
    return (
        several
        and any(map(_is_bent, walk(side)))
        and bool(case.question)
        and not any(speaks_of(case.question, letter) for letter in letters)
    )


def _is_bent(node: Node) -> bool:
    """Return whether a node is a power, quotient or product of letters, or a product with a constant such as pi."""
    match node:
        case Pow(base, exponent):
            return bool(symbols(base) | symbols(exponent))
        case Div(_, bottom):
            return bool(symbols(bottom))
        case Mul(factors):
            return sum(isinstance(factor, Constant) or bool(symbols(factor)) for factor in factors) > 1
    return False


def _unknowns(node: Node) -> Iterator[str]:
    """Yield the letters of a formula; `n(E)` is one."""
    match node:
        case Symbol(name):
            yield name
        case Call(name, args) if name not in FUNCTIONS:
            yield repr(node) if args else name
        case _:
            for part in children(node):
                yield from _unknowns(part)


def _is_rounding(case: Case, gold: Node, answer: Item, same: Same) -> bool:
    r"""Whether a chain ends in the gold, a rounded number: `\sqrt{61} \approx 7.8102 \approx 7.81`, `100/3 \approx 33.33`.

    No side before the first approximate sign is a decimal, all of them are one number, and every side after it is that number
    rounded, to fewer digits each time. A gold of less than three digits counts only if the question asks for a rounded number.
    """
    sides, rounded = answer.sides, answer.rounded
    value = measure(gold).value
    written = decimal_of(value)
    asked = _ROUNDED.search(case.question[:MAX_CHARS]) is not None
    if not asked and (written is None or digits_of(*written) < MIN_ROUNDED):
        return False
    if rational(value) is None or any(decimal_of(measure(side).value) for side in sides):
        return False
    claimed = [side for side in sides[:-1] if not _is_formula(case, gold, answer.name, side)] + [sides[-1]]
    if any(same_structure(case.lenient(), claimed[-1], side, same) != "same" for side in claimed[:-1]):
        return False
    places = [written_places(measure(side).value) for side in rounded]
    if places != sorted(places, reverse=True) or same_structure(case, gold, rounded[-1], same) != "same":
        return False
    return all(_rounds(case, side, claimed[-1], whole=True) for side in (gold, *rounded))


def _rounds(case: Case, decimal: Node, exact: Node, *, whole: bool = False) -> bool:
    """Return whether a decimal is another number correctly rounded, in the same unit where both have one.

    With `whole`, it may be a whole number.
    """
    one, two = measure(decimal), measure(exact)
    alike = one.percent == two.percent and (not one.unit or not two.unit or same_unit(one.unit, two.unit))
    return alike and rounded_at(one.value, two.value, case.work, whole=whole)
