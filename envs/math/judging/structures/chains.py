"""Compares chains of equations: `x = 2 + 3 = 5` claims one value several times, and every link of the chain has to be true."""

from __future__ import annotations

from collections.abc import Iterator

from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.quantities.conversions import converted
from verigym.envs.math.judging.quantities.decimals import decimal_of, digits_of, rounded_at
from verigym.envs.math.judging.quantities.measured import is_measured, measure
from verigym.envs.math.judging.quantities.measures import same_unit
from verigym.envs.math.judging.readings import Item
from verigym.envs.math.judging.scalars import in_ten
from verigym.envs.math.judging.statements.statements import Same
from verigym.envs.math.judging.structures.structures import same_structure
from verigym.envs.math.tree import Add, Call, Div, Mul, Node, Number, Pow, Root, Symbol, Text, Verdict, symbols, walk

MIN_ROUNDED = 3


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
    verdict = all_of(_links(case, gold, answer._replace(sides=sides), same))
    if verdict == "different" and answer.rounded and _is_rounded(case, gold, sides):
        # 100/3, about 33.33, is an answer where 33.33 is the gold.
        return all_of(same_structure(case, gold, side, same) for side in answer.rounded)
    if verdict == "same" and case.policy.chains == "equal":
        for side in answer.rounded:
            if not _rounds(case, side, sides[-1]) and same_structure(case, sides[-1], side, same) != "same":
                return case.refuse("it is said to be about another value")
    return verdict


def _links(case: Case, gold: Node, answer: Item, same: Same) -> Iterator[Verdict]:
    """Compare the sides with the gold: only the last has to be simplified and in the gold's base, and no link may be false."""
    *before, last = answer.sides
    claimed = [side for side in before if not _is_formula(gold, answer.name, side)]
    lenient, wanted, unit = case.lenient(), in_ten(gold), measure(last).unit
    linked = bool(claimed) and any(map(is_measured, (gold, *answer.sides)))
    for side in claimed:
        if linked:  # 12 cm is not 12 m, though the gold may be 12
            yield same_structure(lenient, last, converted(side, unit), same)
        if not (linked and unit and is_measured(side)):
            yield same_structure(lenient, wanted, in_ten(side), same)
    yield same_structure(case, gold, last, same)


def _is_formula(gold: Node, name: Node | None, side: Node) -> bool:
    r"""Whether a side is the formula for what is named, before its value: the `\pi r^2` of `A = \pi r^2 = 16\pi`.

    Each letter stands there once and nothing is zero, so that none cancels and leaves a value which the chain gets wrong.
    """
    letters = [part.name for part in walk(side) if isinstance(part, Symbol)]
    if name is None or isinstance(side, Symbol) or not letters or len(set(letters)) < len(letters) or symbols(gold):
        return False
    zeros = any(isinstance(part, Number) and not part.value for part in walk(side))
    parts = isinstance(side, Add | Mul | Div | Pow | Root) and not any(isinstance(part, Call | Text) for part in walk(side))
    return parts and not zeros and symbols(name).isdisjoint(letters)


def _is_rounded(case: Case, gold: Node, sides: tuple[Node, ...]) -> bool:
    """Whether a gold is a decimal of three digits or more that rounds all the sides, none of which is a decimal itself."""
    written = decimal_of(measure(gold).value)
    if written is None or digits_of(*written) < MIN_ROUNDED or any(decimal_of(measure(side).value) for side in sides):
        return False
    return all(_rounds(case, gold, side) for side in sides)


def _rounds(case: Case, decimal: Node, exact: Node) -> bool:
    """Return whether a decimal is another number correctly rounded, in the same unit where both have one."""
    one, two = measure(decimal), measure(exact)
    alike = one.percent == two.percent and (not one.unit or not two.unit or same_unit(one.unit, two.unit))
    return alike and rounded_at(one.value, two.value, case.work)
