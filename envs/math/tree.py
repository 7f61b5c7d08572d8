r"""The typed tree of a mathematical answer: immutable, hashable, compared by structure. It says what is written, not its value.

Invariants of the trees that `parse` makes:
- `Add`, `Mul` and `SetOp` have at least two parts.
- No sum is directly inside a sum, no product inside a product, and no set operation inside one of the same kind, with one
  exception: a set difference may be on the right of a set difference.
- Parentheses that only group are dropped.
- `Number` is never negative: `-3` is `Neg(Number(3))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

MAX_HEIGHT = 120
"""Higher trees are neither read nor compared, since functions on trees recurse."""

Comparator = Literal["=", "!=", "<", "<=", ">", ">=", "approx", "in", "notin", "subset", "equiv", "to", ":"]


@dataclass(frozen=True, slots=True)
class Number:
    r"""A literal: `12`, `1,234.50`, `.5`, `7\frac34` (mixed), `0.\overline{3}`, `1.5e3`. `\frac{1}{2}` is a `Div`."""

    value: Fraction
    decimals: int = 0
    """Digits after the decimal point as written; 0 for integers."""
    style: Literal["plain", "mixed", "repeating", "scientific"] = "plain"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable or any other name: `x`, `alpha` (for Greek letters), `x_1`, `S_{ABC}`, `A'`, `APC` (capitals in a row)."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant with a name: pi, e, i or infinity."""

    name: Literal["pi", "e", "i", "infinity"]


@dataclass(frozen=True, slots=True)
class Add:
    """A sum; subtracted terms are `Neg`."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Mul:
    """A product, written with a sign or without one."""

    factors: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Neg:
    """The negative of a node."""

    of: Node


@dataclass(frozen=True, slots=True)
class PlusMinus:
    r"""`\pm x` (sign 1) or `\mp x` (sign -1). All signs of an answer are linked: `\pm 1 \mp 2` is {1 - 2, -1 + 2}."""

    of: Node
    sign: Literal[1, -1] = 1


@dataclass(frozen=True, slots=True)
class Div:
    r"""A quotient: a fraction, `/` or `\div`."""

    top: Node
    bottom: Node


@dataclass(frozen=True, slots=True)
class Pow:
    """A power."""

    base: Node
    exponent: Node


@dataclass(frozen=True, slots=True)
class Root:
    """A root; the degree of a square root is 2."""

    of: Node
    degree: Node = Number(Fraction(2))


@dataclass(frozen=True, slots=True)
class Call:
    r"""A function applied to arguments.

    Names in `FUNCTIONS` have a known meaning; all others are unknown functions, as in `f(x)`.

    The following also count as unknown functions, so that two of them are equal only if their arguments are: `modulus` (see
    `Relation`); `cross`, the product of vectors or sets; and the connectives `and`, `or`, `xor`, `not`, `implies`, `iff`
    between names, as in `p \lor q`.
    """

    name: str
    args: tuple[Node, ...]


_FUNCTIONS = {
    "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh": 1,
    "exp ln abs floor ceil factorial doublefactorial re im conj arg det sign norm": 1,
    "log": 2,  # log(x, base); \log x without a base is log(x, 10), \lg too, \ln x is ln(x)
    "binom mod perm": 2,
    "gcd lcm max min": None,  # any number
    "sum prod int": 4,  # (body, Symbol, from, to); an indefinite integral is an unknown function "integral"
    "lim": 3,  # (body, Symbol, to)
    "diff": 2,  # (body, Symbol): d/dx
}
FUNCTIONS: dict[str, int | None] = {name: count for names, count in _FUNCTIONS.items() for name in names.split()}
"""Functions with a known meaning, and their number of arguments; None for any number."""
BINDERS = frozenset("sum prod int lim diff".split())
"""Functions whose second argument is a symbol that they bind."""


@dataclass(frozen=True, slots=True)
class Percent:
    r"""A percentage: `50\%` or `50 percent`."""

    of: Node


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit, such as `cm^2`, `degree`, `dollar` or `mile per hour`.

    The unit is singular, and in lower case where case does not matter.
    """

    value: Node
    unit: str


@dataclass(frozen=True, slots=True)
class InBase:
    """A number written in another base than ten: `1012_3`."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Clock:
    """A time of day: `12:30`, `3:05 pm`.

    A text that may be either a time or a ratio, such as `7:32`, becomes a `Clock`. A ratio that cannot be a time becomes a
    `Relation`.
    """

    hour: int
    minute: int
    second: int | None = None
    half: Literal["am", "pm"] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Elements in brackets: a tuple, an interval, a set or a vector. The brackets and the gold tell which of these it is.

    `opening` and `closing` are each one of ( ) [ ] { } < >. TeX's own braces around a list (`{1,2}`) have the opening `tex{`
    and the closing `}`. A group of one element is kept only for sets, lists in square brackets and `(a,)`.
    """

    opening: str
    closing: str
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers without brackets: `1, 2`, `1 and 2`, `1 or 2`, `x=1, y=2`."""

    items: tuple[Node, ...]
    joiner: Literal["comma", "and", "or"] = "comma"


@dataclass(frozen=True, slots=True)
class SetBuilder:
    """A set given by a condition: `{x | x > 0}`, `{x : x > 0}`."""

    element: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class SetOp:
    """A union, an intersection or a difference of sets."""

    op: Literal["union", "intersection", "difference"]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class NamedSet:
    """A set with a name: R, Z, Q, N, C, or the empty set (`empty`)."""

    name: Literal["R", "Z", "Q", "N", "C", "empty"]


@dataclass(frozen=True, slots=True)
class Relation:
    r"""A chain of sides with comparators between them: `x = 5`, `1 < x <= 2`, `4 = 5`, `a : b : c`.

    The last side of a congruence is its modulus: `x \equiv 1 \pmod 3` has the sides x, mod(1, 3) and modulus(3).
    """

    sides: tuple[Node, ...]
    comparators: tuple[Comparator, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix; its rows have equal length."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Text:
    r"""Words: `\text{Evelyn}`, `odd`. Blanks are single, and the case is as written.

    A single letter is a `Symbol`, also in `\text{(C)}`.
    """

    words: str


@dataclass(frozen=True, slots=True)
class Ellipsis:
    """An ellipsis (three dots) among elements or terms."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sequence of formulas and words that is neither a quantity nor a list: `x for some a > 0`, `3 (or maybe 4)`."""

    parts: tuple[Node, ...]


Node = (
    Number
    | Symbol
    | Constant
    | Add
    | Mul
    | Neg
    | PlusMinus
    | Div
    | Pow
    | Root
    | Call
    | Percent
    | Quantity
    | InBase
    | Clock
    | Group
    | Listing
    | SetBuilder
    | SetOp
    | NamedSet
    | Relation
    | Matrix
    | Text
    | Ellipsis
    | Phrase
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct children of `node`, from left to right."""
    match node:
        case Add(parts) | Mul(parts) | Group(_, _, parts) | Listing(parts, _) | SetOp(_, parts) | Relation(parts, _):
            return parts
        case Call(_, parts) | Phrase(parts):
            return parts
        case Neg(of) | PlusMinus(of, _) | Percent(of) | Quantity(of, _):
            return (of,)
        case Div(one, two) | Pow(one, two) | Root(one, two) | SetBuilder(one, two):
            return (one, two)
        case Matrix(rows):
            return tuple(item for row in rows for item in row)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield `node` and all its descendants, parents first."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(children(node)))


def symbols(node: Node) -> frozenset[str]:
    """Return the names of all symbols in `node`."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Symbol))


Verdict = Literal["same", "different", "unknown"]
"""The result of a comparison; "unknown" if it cannot be decided."""


class ParseError(ValueError):
    """The text does not follow the grammar of answers. The message says what was found and where."""


class TooLarge(ParseError):
    """The text was not read because its length, its nesting or one of its numbers is beyond the limits."""
