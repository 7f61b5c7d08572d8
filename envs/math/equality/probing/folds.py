"""Finds folds, the places where absolute values and even roots hide a change of sign, and points on both sides of each.

For example, `(x - 2)*(x - 3)` differs from its absolute value only between 2 and 3, where it is negative. Randomly drawn points
may all miss this short interval.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations

from verigym.envs.math.build import minus
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.tree import Add, Call, Constant, Div, Mul, Neg, Node, Number, Pow, Root, Symbol, symbols, walk

GRID = tuple(Fraction(step, 5) + Fraction(1, 128) for step in range(-100, 101))
"""Places along a line at which signs are compared."""
_HALVINGS = 24
MAX_ARGUMENTS = 8
"""Maximum number of expressions that cause folds in two trees with different folds. With more, the verdict is unknown."""
MAX_MARKS = 24
"""Maximum number of points that `between` returns for one line. There is one point in each interval between sign changes."""
MAX_AXES = 3
"""Integers along whose axes sides are compared."""
MAX_DIPS = 6
MAX_COMPARED = 4
"""Maximum number of arguments of a `max` or `min` that is searched for folds. A `max` or `min` with more arguments is only
treated as a step function."""

ValueAt = Callable[[Node, Fraction], Fraction | None]


class Folds:
    """The folds of two trees. A tree has a fold where it hides the sign of an expression inside it, as an absolute value does.

    Attributes:
        single: the expressions whose sign is hidden by exactly one of the two trees. Expressions that evidently never change
            their sign are left out.
        arguments: expressions with variables. Folds can lie only where one of these expressions is zero.
        differ: whether the two trees have different folds.
    """

    def __init__(self, a: Node, b: Node, whole: frozenset[str]) -> None:
        """Find them."""
        sides = [dict(_folded(node)) for node in (a, b)]
        self.differ = sides[0].keys() != sides[1].keys()
        hidden = [{one for one, hides in side.items() if hides} for side in sides]
        self.single = [one for one in hidden[0] ^ hidden[1] if not _evident(one, whole)]
        self.single.sort(key=repr)
        self.arguments = list(dict.fromkeys(part for side in sides for one in side for part in _factors(one) if symbols(part)))
        self.arguments = [one for one in self.arguments if not _positive(one)]


def _folded(node: Node) -> Iterator[tuple[Node, bool]]:
    """Yield what is under a fold, and whether the fold surely hides its sign."""
    beside: list[Node] = []
    plain: list[Node] = []
    hidden: list[Node] = []
    for part in walk(node):
        match part:
            case Call("abs", (of,)):
                beside.append(of)
                hidden.extend(_odd_factors(of))
            case Call("sign", (of,)):
                beside.append(of)
            case Call("ln" | "log", (of, *_)):
                plain.append(of)
            case Call("max" | "min", parts) if len(parts) <= MAX_COMPARED:
                beside.extend(minus(one, two) for one, two in combinations(parts, 2))
            case Root(of, _):
                plain.append(of)
            case Pow(base, exponent) if (power := rational(exponent)) is None or power.denominator != 1:
                plain.append(base)
    for of in plain:
        hidden.extend(one for power in _products(of) if isinstance(power, Pow) and _even(power.exponent)
                      for one in _odd_factors(power.base))  # fmt: skip
    yield from ((one, False) for one in (*beside, *plain) if symbols(one))
    yield from ((one, True) for one in hidden if symbols(one))


def _odd_factors(node: Node) -> Iterator[Node]:
    """Yield the factors that the sign of a product depends on."""
    for part in _products(node):
        match part:
            case Pow(base, exponent) if (power := rational(exponent)) is not None and power.denominator == 1:
                if power.numerator % 2:
                    yield from _odd_factors(base)
            case _:
                yield part


def _products(node: Node) -> Iterator[Node]:
    """Yield the factors of a product or quotient, and of a modulus."""
    match node:
        case Neg(of) | Call("abs", (of,)):
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
    """Yield the parts at whose zeros a product has its own: bases of powers and what is under roots, not they themselves."""
    for part in _products(node):
        if isinstance(part, Pow | Root):
            yield from _factors(part.base if isinstance(part, Pow) else part.of)
        else:
            yield part


def _even(node: Node) -> bool:
    number = rational(node)
    return number is not None and number.denominator % 2 == 1 and number.numerator % 2 == 0


def _evident(node: Node, whole: frozenset[str]) -> bool:
    """Return whether an expression of real variables and positive integers evidently never changes its sign."""
    while isinstance(node, Neg):
        node = node.of
    if not symbols(node) or _nonnegative(node, whole):
        return True
    if isinstance(node, Add):
        return all(isinstance(term, Neg) and _nonnegative(term.of, whole) for term in node.terms)
    return isinstance(node, Mul | Div) and all(_evident(part, whole) for part in _products(node))


def _positive(node: Node) -> bool:
    """Return whether an expression of real variables evidently has no zero."""
    match node:
        case Number(value):
            return value > 0
        case Constant("pi" | "e") | Call("exp" | "cosh", _):
            return True
        case Add(terms):
            return all(_nonnegative(term, frozenset()) for term in terms) and any(map(_positive, terms))
        case Mul(parts):
            return all(map(_positive, parts))
        case Pow(base, _) | Root(base, _):
            return _positive(base)
    return False


def _nonnegative(node: Node, whole: frozenset[str]) -> bool:
    def all_are(*parts: Node) -> bool:
        return all(_nonnegative(part, whole) for part in parts)

    match node:
        case Symbol(name):
            return name in whole
        case Call("factorial" | "binom", _):
            return symbols(node) <= whole
        case Number(value):
            return value >= 0
        case Constant("pi" | "e") | Call("abs" | "exp" | "cosh", _):
            return True
        case Add(parts) | Mul(parts):
            return all_are(*parts)
        case Div(top, bottom):
            return all_are(top, bottom)
        case Pow(base, exponent):
            return _even(exponent) or all_are(base)
        case Root(of, degree):
            return _even(degree) or all_are(of)
    return False


class Line:
    """A line through the space of the variables.

    Along the line, either one integer variable or all real variables change; the other variables are constant. If there is only
    one variable, the line is its axis. Otherwise the constants are drawn at random, and so are the directions in which several
    real variables change.

    Attributes:
        whole: whether an integer variable changes along the line, so that only its positive integers are compared.
    """

    def __init__(self, names: list[str], whole: frozenset[str], seed: str, index: int) -> None:
        """Draw line number `index`. Real variables change along the first lines, one integer variable along each later line."""
        free = [name for name in names if name not in whole]
        drawn = {name: hashlib.sha256(f"{seed}/fold/{index}/{name}".encode("utf-8", "replace")).digest() for name in names}
        axes = [] if index < _real_lines(free) else sorted(whole)[index - _real_lines(free) :][:1]
        self.whole = bool(axes)
        self.ways: dict[str, tuple[Fraction, Fraction]] = {}
        for name in names:
            first, second, *_ = drawn[name]
            if name in axes or (len(free) == 1 == len(names)):
                self.ways[name] = Fraction(0), Fraction(1)
            elif name in whole:
                self.ways[name] = Fraction(1 + first % 9), Fraction(0)
            else:
                slope = Fraction(0) if self.whole else Fraction(2 * second - 255, 256)
                self.ways[name] = Fraction(first - 128, 32) + Fraction(1, 128), slope

    def at(self, place: Fraction) -> dict[str, Fraction]:
        """Return the point at the coordinate `place` on the line: variable -> value."""
        return {name: start + place * slope for name, (start, slope) in self.ways.items()}


def _real_lines(free: list[str]) -> int:
    return min(len(free), 2) + (len(free) > 1)


def lines(names: list[str], whole: frozenset[str], seed: str) -> list[Line]:
    """Return the lines along which two trees are compared.

    For a single variable, this is its axis. For several variables, there are up to three lines for the real variables together,
    and one line for each of up to `MAX_AXES` integer variables.

    Args:
        names: the names of all variables.
        whole: the names of the variables that are integers.
        seed: seed of the drawn lines.
    """
    count = _real_lines([name for name in names if name not in whole]) + min(len(whole), MAX_AXES)
    return [Line(names, whole, seed, index) for index in range(count)]


def marks(arguments: list[Node], number: ValueAt) -> tuple[list[Fraction], dict[Node, set[int]]]:
    """Return the places on a line at which the expressions `arguments` change sign, and the signs that each one takes.

    Args:
        arguments: expressions with variables.
        number: returns the value of an expression at a place on the line, or None if it has no value there.

    Returns:
        The sorted places of sign changes; and a dict from each expression to the set of signs (1 or -1) that it was seen with.
    """
    crossings: set[Fraction] = set()
    seen: dict[Node, set[int]] = {}
    for one in arguments:
        known = [(place, value) for place in GRID if (value := number(one, place))]
        dips = sorted(
            (abs(b[1]), a[0], b[0], c[0]) for a, b, c in zip(known, known[1:], known[2:], strict=False) if _dips(a, b, c)
        )
        lowest = [_lowest(one, low, middle, high, number) for _, low, middle, high in dips[:MAX_DIPS]]
        known = sorted({*known, *((place, value) for place in lowest if (value := number(one, place)))})
        seen[one] = {1 if value > 0 else -1 for _, value in known}
        for (low, below), (high, above) in zip(known, known[1:], strict=False):
            if (below > 0) is not (above > 0):
                crossings.add(_halved(one, low, high, below > 0, number))
    return sorted(crossings), seen


def _dips(before: tuple[Fraction, Fraction], here: tuple[Fraction, Fraction], after: tuple[Fraction, Fraction]) -> bool:
    signs = {value > 0 for _, value in (before, here, after)}
    return len(signs) == 1 and abs(here[1]) <= abs(before[1]) and abs(here[1]) <= abs(after[1])


def _lowest(node: Node, low: Fraction, middle: Fraction, high: Fraction, number: ValueAt) -> Fraction:
    """Return the place between `low` and `high` where a value is nearest to zero, or one where it has changed sign."""
    value = number(node, middle)
    sign = 1 if value is not None and value > 0 else -1
    for _ in range(_HALVINGS):
        one, two = low + (high - low) * Fraction(3, 8), low + (high - low) * Fraction(5, 8)
        left, right = number(node, one), number(node, two)
        if left is None or right is None:
            break
        if left * sign < 0 or right * sign < 0:
            return one if left * sign < 0 else two
        low, high = (low, two) if left * sign < right * sign else (one, high)
    return (low + high) / 2


def _halved(node: Node, low: Fraction, high: Fraction, below: bool, number: ValueAt) -> Fraction:
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        now = number(node, middle)
        if not now:
            return middle
        low, high = (middle, high) if (now > 0) is below else (low, middle)
    return (low + high) / 2


def between(places: list[Fraction]) -> list[Fraction]:
    """Return points beside the sorted `places`: one before the first, one between any two neighbours, one after the last.

    The result is empty if there are no places, and has at most `MAX_MARKS` points.
    """
    if not places:
        return []
    inner = [(one * 3 + two * 4) / 7 for one, two in zip(places, places[1:], strict=False)]
    return [places[0] - Fraction(1, 3), *inner, places[-1] + Fraction(1, 3)][:MAX_MARKS]
