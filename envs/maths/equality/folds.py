"""Where absolute values and even roots fold: the expressions whose sign they hide, and points on both sides of its changes.

Points drawn by hash cannot tell `(x - 2)*(x - 3)` from its absolute value: it is negative on a short interval only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from fractions import Fraction

from verigym.envs.maths.equality.exactly import rational
from verigym.envs.maths.tree import Add, Call, Constant, Div, Mul, Neg, Node, Number, Pow, Root, Symbol, symbols, walk

GRID = tuple(Fraction(step, 5) + Fraction(1, 128) for step in range(-100, 101))
"""Where sign changes are looked for along a line."""
_HALVINGS = 24
MAX_ARGUMENTS = 8
"""With more of them, nothing is concluded where they differ."""
MAX_MARKS = 24
"""Sign changes between which sides are compared, along one line."""
LINES = 3

Sign = Callable[[Node, Fraction], int | None]


class Folds:
    """The folds of two trees.

    Attributes:
        single: the arguments which one tree folds and the other does not, and whose sign is not evident.
        arguments: all that may change its sign under a fold.
        differ: whether the two fold different things.
    """

    def __init__(self, a: Node, b: Node) -> None:
        """Find them."""
        found = [dict(_folded(node)) for node in (a, b)]
        self.differ = found[0].keys() != found[1].keys()
        hidden = [{one for one, hides in side.items() if hides} for side in found]
        self.single = [one for side, other in (hidden, hidden[::-1]) for one in side if one not in other and not _evident(one)]
        self.arguments = list(dict.fromkeys(part for side in found for one in side for part in _factors(one) if symbols(part)))
        self.arguments = [one for one in self.arguments if not _evident(one)]


def _folded(node: Node) -> Iterator[tuple[Node, bool]]:
    """Yield what is under a fold, and whether the fold surely hides its sign."""
    plain: list[Node] = []
    hidden: list[Node] = []
    for part in walk(node):
        match part:
            case Call("abs", (of,)):
                hidden.append(of)
            case Root(of, degree) if _even(degree):
                plain.append(of)
            case Pow(base, exponent) if (power := rational(exponent)) is not None and power.denominator % 2 == 0:
                plain.append(base)
    for of in plain:
        hidden.extend(one.base for one in _products(of) if isinstance(one, Pow) and _even(one.exponent))
    yield from ((one, False) for one in plain if symbols(one))
    yield from ((one, True) for one in hidden if symbols(one))


def _products(node: Node) -> Iterator[Node]:
    """Yield the factors of a product or quotient."""
    match node:
        case Neg(of):
            yield from _products(of)
        case Mul(parts):
            for part in parts:
                yield from _products(part)
        case Div(top, bottom):
            yield from _products(top)
            yield from _products(bottom)
        case _:
            yield node


def _factors(node: Node) -> Iterator[Node]:
    """Yield what the sign of a product depends on, and the bases of its powers."""
    for part in _products(node):
        while isinstance(part, Pow):
            part = part.base  # noqa: PLW2901
        yield part


def _even(node: Node) -> bool:
    number = rational(node)
    return number is not None and number.denominator % 2 == 1 and number.numerator % 2 == 0


def _evident(node: Node) -> bool:
    """Tell whether an expression of real variables evidently never changes its sign."""
    while isinstance(node, Neg):
        node = node.of
    if not symbols(node) or _nonnegative(node):
        return True
    if isinstance(node, Add):
        return _nonnegative(node) or all(_negative(term) for term in node.terms)
    return isinstance(node, Mul | Div) and all(_evident(part) for part in _products(node))


def _negative(node: Node) -> bool:
    return (isinstance(node, Neg) and _nonnegative(node.of)) or (isinstance(node, Number) and node.value <= 0)


def _nonnegative(node: Node) -> bool:
    match node:
        case Number(value):
            return value >= 0
        case Constant("pi" | "e") | Call("abs" | "exp" | "cosh", _):
            return True
        case Add(parts) | Mul(parts):
            return all(map(_nonnegative, parts))
        case Div(top, bottom):
            return _nonnegative(top) and _nonnegative(bottom)
        case Pow(base, exponent):
            return _even(exponent) or _nonnegative(base)
        case Root(of, degree):
            return _even(degree) or _nonnegative(of)
    return False


def quadratic(node: Node, name: str) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return the coefficients of a polynomial of degree two at most in one variable, the constant one first."""
    match node:
        case Symbol(found) if found == name:
            return Fraction(0), Fraction(1), Fraction(0)
        case Neg(of):
            inner = quadratic(of, name)
            return None if inner is None else (-inner[0], -inner[1], -inner[2])
        case Add(terms):
            parts = [quadratic(term, name) for term in terms]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            below, slope, lead = (sum((part[place] for part in known), Fraction(0)) for place in range(3))
            return below, slope, lead
        case Mul(factors):
            return _product([quadratic(factor, name) for factor in factors])
        case Div(top, bottom) if not symbols(bottom):
            number, over = rational(bottom), quadratic(top, name)
            return (over[0] / number, over[1] / number, over[2] / number) if number and over is not None else None
        case Pow(base, Number(value)) if symbols(base) and value in (1, 2):
            return _product([quadratic(base, name)] * int(value))
    number = None if symbols(node) else rational(node)
    return None if number is None else (number, Fraction(0), Fraction(0))


def _product(
    parts: list[tuple[Fraction, Fraction, Fraction] | None],
) -> tuple[Fraction, Fraction, Fraction] | None:
    result = (Fraction(1), Fraction(0), Fraction(0))
    for part in parts:
        if part is None or result[1] * part[2] or result[2] * part[1] or result[2] * part[2]:
            return None
        result = (
            result[0] * part[0],
            result[0] * part[1] + result[1] * part[0],
            result[0] * part[2] + result[1] * part[1] + result[2] * part[0],
        )
    return result


def one_signed(node: Node, names: list[str]) -> bool:
    """Tell whether an argument is a quadratic of the only variable without two real roots."""
    found = quadratic(node, names[0]) if len(names) == 1 else None
    return found is not None and found[1] ** 2 <= 4 * found[0] * found[2]


def hints(node: Node, names: list[str]) -> list[Fraction]:
    """Return the points beside which the sign of a quadratic changes: its vertex, and far to both sides of its roots."""
    found = quadratic(node, names[0]) if len(names) == 1 else None
    if found is None or (not found[1] and not found[2]):
        return []
    below, slope, lead = found
    if not lead:
        return [-below / slope - 1, -below / slope + 1]
    vertex = -slope / (2 * lead)
    span = 1 + abs(slope / lead) + abs(below / lead)
    return [vertex - span, vertex, vertex + span]


def line(names: list[str], whole: frozenset[str], seed: str, index: int) -> Callable[[Fraction], dict[str, Fraction]]:
    """Return a line through the space of the real variables: the axis for one, drawn ones for several."""
    drawn = {name: hashlib.sha256(f"{seed}/fold/{index}/{name}".encode("utf-8", "replace")).digest() for name in names}
    free = [name for name in names if name not in whole]

    def at(t: Fraction) -> dict[str, Fraction]:
        if len(free) == 1 == len(names):
            return {names[0]: t}
        return {
            name: Fraction(1 + drawn[name][0] % 9)
            if name in whole
            else Fraction(drawn[name][0] - 128, 32) + t * Fraction(2 * drawn[name][1] - 255, 256)
            for name in names
        }

    return at


def marks(arguments: list[Node], names: list[str], sign: Sign) -> tuple[list[Fraction], dict[Node, set[int]]]:
    """Return where the arguments change their signs along a line, and the signs that each was seen with."""
    found: set[Fraction] = set()
    seen: dict[Node, set[int]] = {}
    for one in arguments:
        ways, last = seen.setdefault(one, set()), None
        for place in sorted({*GRID, *hints(one, names)}):
            now = sign(one, place)
            if not now:
                last = None if now is None else last
                continue
            ways.add(now)
            if last is not None and last[1] != now:
                found.add(_halved(one, last[0], place, last[1], sign))
            last = (place, now)
    return sorted(found), seen


def _halved(node: Node, low: Fraction, high: Fraction, below: int, sign: Sign) -> Fraction:
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        now = sign(node, middle)
        if not now:
            return middle
        low, high = (middle, high) if now == below else (low, middle)
    return (low + high) / 2


def between(places: list[Fraction]) -> list[Fraction]:
    """Return points between consecutive marks and beyond the first and the last."""
    if not places:
        return []
    inner = [(one * 3 + two * 4) / 7 for one, two in zip(places, places[1:], strict=False)]
    return [places[0] - Fraction(1, 3), *inner, places[-1] + Fraction(1, 3)][:MAX_MARKS]
