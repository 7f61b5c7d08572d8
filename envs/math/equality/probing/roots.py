"""Divides a line into cells (intervals) at the zeros and poles of rational functions, and finds a point in each cell.

The functions are those under roots and absolute values. Within a cell none of these functions changes its sign, so the compared
expressions are analytic there. Two analytic expressions that differ in a cell differ at almost every point of it, so one point
in each cell suffices. Sturm's theorem finds the cells exactly, however narrow they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm

from verigym.envs.math.equality.budget import Unsupported, WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.tree import Add, Div, Mul, Neg, Node, Pow, Symbol, symbols

MAX_DEGREE = 32
"""Of one polynomial, and of the product of all."""
MAX_BITS = 4_000
"""Coefficients with more of them are not computed with."""

Poly = tuple[int, ...]
"""The integer coefficients of a polynomial, without a common divisor. The constant term is first; the last is positive."""
Line = Mapping[str, tuple[Fraction, Fraction]]
"""Maps each variable to (constant, slope): its value at place t of the line is constant + slope * t."""
Constants = Callable[[Node], Fraction | None]
_Parts = tuple[list[Fraction], list[Fraction]]


def along(node: Node, line: Line, constant: Constants, work: WorkBudget) -> Poly | None:
    """Return the polynomial whose zeros are the zeros and poles of `node` along `line`.

    Args:
        node: the tree of the function.
        line: constant and slope of each variable.
        constant: returns the value of a subtree without variables, or None if it has no rational value.
        work: the budget that the cost is subtracted from.

    Returns:
        The polynomial; None if the function is not rational, or its degree or coefficients are too large.

    Raises:
        TooMuch: the budget is spent.
    """
    try:
        parts = _quotient(node, line, constant, work)
        return None if parts is None else primitive(_times(*parts, work))
    except Unsupported:
        return None


def _quotient(node: Node, line: Line, constant: Constants, work: WorkBudget) -> _Parts | None:
    work.spend(20)
    if not symbols(node):
        number = constant(node)
        return None if number is None else ([number], [Fraction(1)])
    match node:
        case Symbol(name) if name in line:
            return list(line[name]), [Fraction(1)]
        case Neg(of):
            inner = _quotient(of, line, constant, work)
            return inner and ([-one for one in inner[0]], inner[1])
        case Add(terms):
            return _folded([_quotient(term, line, constant, work) for term in terms], True, work)
        case Mul(factors):
            return _folded([_quotient(factor, line, constant, work) for factor in factors], False, work)
        case Div(top, bottom):
            above, below = _quotient(top, line, constant, work), _quotient(bottom, line, constant, work)
            return above and below and (_times(above[0], below[1], work), _times(above[1], below[0], work))
        case Pow(base, exponent) if not symbols(exponent):
            power, inner = rational(exponent, work), _quotient(base, line, constant, work)
            if power is None or power.denominator != 1 or abs(power) > MAX_DEGREE or inner is None:
                return None
            parts = _folded([inner] * abs(power.numerator), False, work) if power else ([Fraction(1)], [Fraction(1)])
            return parts and (parts if power > 0 else parts[::-1])
    return None


def _folded(parts: Sequence[_Parts | None], total: bool, work: WorkBudget) -> _Parts | None:
    result: _Parts = ([Fraction(0 if total else 1)], [Fraction(1)])
    for part in parts:
        if part is None:
            return None
        if not total:
            result = _times(result[0], part[0], work), _times(result[1], part[1], work)
        elif result[1] == part[1]:
            result = _plus(result[0], part[0]), result[1]
        else:
            crossed = _plus(_times(result[0], part[1], work), _times(part[0], result[1], work))
            result = crossed, _times(result[1], part[1], work)
    return result


def _plus(one: list[Fraction], two: list[Fraction]) -> list[Fraction]:
    size = max(len(one), len(two))
    padded = [[*poly, *[Fraction(0)] * (size - len(poly))] for poly in (one, two)]
    return [left + right for left, right in zip(*padded, strict=True)]


def _times(one: Sequence[Fraction | int], two: Sequence[Fraction | int], work: WorkBudget) -> list[Fraction]:
    if len(one) + len(two) > MAX_DEGREE + 2:
        raise Unsupported("a polynomial of a high degree")
    work.spend(10 * len(one) * len(two))
    result = [Fraction(0)] * (len(one) + len(two) - 1)
    for place, left in enumerate(one):
        for other, right in enumerate(two):
            result[place + other] += left * right
    return result


def primitive(poly: Sequence[Fraction | int]) -> Poly | None:
    """Return `poly`, multiplied by a constant so that its coefficients are coprime integers; None if it is zero.

    Raises:
        Unsupported: the coefficients are too large.
    """
    size = len(poly)
    while size and not poly[size - 1]:
        size -= 1
    if not size:
        return None
    common = lcm(*(Fraction(one).denominator for one in poly[:size]))
    whole = [int(one * common) for one in poly[:size]]
    divisor = gcd(*whole) * (1 if whole[-1] > 0 else -1)
    if max(abs(one) for one in whole).bit_length() > MAX_BITS:
        raise Unsupported("a polynomial with large coefficients")
    return tuple(one // divisor for one in whole)


def product(polys: Sequence[Poly], work: WorkBudget) -> Poly:
    """Return the product of the different polynomials in `polys`.

    Raises:
        Unsupported: the degree or the coefficients of the product are too large.
        TooMuch: the budget `work` is spent.
    """
    result: Poly = (1,)
    for poly in dict.fromkeys(polys):
        result = primitive(_times(result, poly, work)) or result
    return result


def cells(poly: Poly, work: WorkBudget, *, whole: bool = False) -> list[Fraction]:
    """Return one point from each of the intervals into which the real zeros of `poly` divide the line.

    With `whole`, return instead the positive integers next to each zero, and one above all zeros.

    Raises:
        Unsupported: the coefficients become too large.
        TooMuch: the budget `work` is spent.
    """
    if len(poly) < 2:
        return []
    chain = _chain(poly, work)
    bound = Fraction(2 << max(max(abs(one) for one in poly[:-1]) // abs(poly[-1]), 1).bit_length())
    ends = _changes(chain, -bound, work), _changes(chain, bound, work)
    todo, points, beside = [(-bound, bound, *ends)], {ends[0]: -bound, ends[1]: bound}, {bound}
    while todo:
        low, high, before, after = todo.pop()
        if before == after or (before - after == 1 and not whole):
            continue
        if whole and high - low < Fraction(1, 4):
            beside |= {Fraction(low.__floor__() + step) for step in (0, 1, 2)}
            continue
        middle = _between(poly, low, high)
        changes = _changes(chain, middle, work)
        points.setdefault(changes, middle)
        todo += [(low, middle, before, changes), (middle, high, changes, after)]
    return sorted(place for place in beside if place >= 1) if whole else sorted(points.values())


def _between(poly: Poly, low: Fraction, high: Fraction) -> Fraction:
    """Return a point about in the middle that is no zero."""
    middle = (low + high) / 2
    for step in range(len(poly)):
        if _value(poly, middle):
            break
        middle += (high - low) / (16 << step)
    return middle


def _chain(poly: Poly, work: WorkBudget) -> list[Poly]:
    """Return Sturm's chain."""
    chain: list[Sequence[int]] = [poly, [place * one for place, one in enumerate(poly)][1:]]
    while len(chain[-1]) > 1:
        work.spend(20 * len(chain[-1]) ** 2)
        rest = [-one for one in _remainder(chain[-2], chain[-1])]
        while rest and not rest[-1]:
            rest.pop()
        if not rest:
            break
        divisor = gcd(*rest)
        chain.append([one // divisor for one in rest])
        if max(abs(one) for one in chain[-1]).bit_length() > MAX_BITS:
            raise Unsupported("a polynomial with large coefficients")
    return [tuple(one) for one in chain]


def _remainder(top: Sequence[int], bottom: Sequence[int]) -> list[int]:
    """Return a positive multiple of the remainder."""
    rest, lead = list(top), bottom[-1]
    while len(rest) >= len(bottom):
        factor, shift = rest[-1], len(rest) - len(bottom)
        sign = 1 if lead > 0 else -1
        rest = [one * abs(lead) for one in rest]
        for place, one in enumerate(bottom):
            rest[place + shift] -= sign * factor * one
        rest.pop()
    return rest


def _changes(chain: list[Poly], place: Fraction, work: WorkBudget) -> int:
    work.spend(2 * len(chain) * len(chain[0]))
    signs = [one > 0 for one in (_value(poly, place) for poly in chain) if one]
    return sum(one is not two for one, two in zip(signs, signs[1:], strict=False))


def _value(poly: Poly, place: Fraction) -> int:
    """Return a positive multiple of the value."""
    top, bottom = place.numerator, place.denominator
    result, scale = 0, 1
    for one in reversed(poly):
        result = result * top + one * scale
        scale *= bottom
    return result
