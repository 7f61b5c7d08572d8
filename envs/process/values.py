"""Computes the values of a claim's sides, and compares them as people write them: rounded, in percent, in other units."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from verigym.envs.latex.vocabulary import SCALES
from verigym.envs.math.build import rebuild
from verigym.envs.math.judging.quantities.conversions import converted
from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import FUNCTIONS, Call, Div, Neg, Node, Number, Percent, Phrase, Quantity, Text, walk
from verigym.envs.process.tokens import Relation

_CLOSE = Fraction(1, 10**20)
"""How near two constants must be, relative to their size, that are not rational."""
_UNIT = re.compile(r"\\text\{[^{}]*\}")
SCALE = re.compile(r"\*12(?=\))| (?:hundred|thousand|million|billion|trillion)\b")


class Value(NamedTuple):
    """A reading of a side that has a value."""

    number: Fraction
    exact: bool
    slack: Fraction
    """Rounding error: how far `number` may be from the value that it stands for. Half a unit of the last decimal written; 0 for
    a whole number."""
    near: Fraction
    """Rounding error if the value is compared by an approximate equals sign: half a unit of the last digit, also for a whole
    number."""
    text: str
    node: Node
    """The tree, with units."""
    counted: bool = False
    """Whether the side is a percentage and `number` counts the percent: 40 for 40%, not 0.4."""


def tree(text: str) -> Node | None:
    """Return the parsed expression tree of `text`, one side of an equation, or None if it cannot be parsed.

    If the parser takes the words of a unit for something else, the text is parsed without them.
    """
    for spelt in (text, _UNIT.sub(" ", text)) if "\\text" in text else (text,):
        try:
            node = parse(spelt)
        except ParseError:
            continue
        if not any(isinstance(part, Text | Phrase) for part in walk(node)):
            return node
    return None


def in_unit(node: Node, unit: str) -> Node:
    """Return `node` converted to `unit`. If `unit` is cents and `node` has no unit, its numbers are taken as dollars."""
    if unit == "cent" and not any(isinstance(part, Quantity) for part in walk(node)):
        node = Quantity(node, "dollar")
    return converted(node, unit)


def is_function(node: Node) -> bool:
    """Return whether `node` is a call of a function that the solution defines, such as `f(2)`."""
    return isinstance(node, Call) and node.name not in FUNCTIONS


def without_units(node: Node) -> Node:
    """Return the tree of the numbers alone."""
    if not any(isinstance(part, Quantity) for part in walk(node)):
        return node
    return rebuild(node, lambda part: part.value if isinstance(part, Quantity) else part)


def in_degrees(node: Node) -> Node:
    """Return `node` without units, except for degrees in angles, which trigonometric functions need."""
    return rebuild(node, lambda part: part.value if isinstance(part, Quantity) and part.unit != "degree" else part)


def slacks(node: Node, text: str) -> tuple[Fraction, Fraction]:
    """Return two rounding errors of `node`: half a unit of its last decimal place, and half a unit of its last digit.

    The first is 0 for a whole number, which has no decimal places. Both are 0 if `node` is not a literal but a computation.
    `text` is the literal as written.
    """
    bare = node.of if isinstance(node, Neg) else node
    hundredth = isinstance(bare, Percent)
    bare = bare.of if isinstance(bare, Percent) else bare
    if not isinstance(bare, Number) or bare.style == "repeating":
        return Fraction(0), Fraction(0)
    half = Fraction(1, 2 * 10 ** min(bare.decimals, 100)) / (100 if hundredth else 1)
    if bare.style == "scientific":
        power = re.search(r"(?:\^\s?\{?\s?|[eE])([-+]?[0-9]{1,3})", text)
        half *= Fraction(10) ** int(power[1]) if power else 1
    elif scale := re.search(r"[a-z]{7,}", text):
        half *= SCALES.get(scale[0], 1)
    return (half if bare.decimals else Fraction(0)), half


def related(one: Value, other: Value, relation: Relation) -> bool:
    """Return whether `one` stands in `relation` to `other`. Rounding and other notations of a number are allowed."""
    if one.counted or other.counted:
        if one.counted and other.counted or not in_percent(one if other.counted else other):
            return False
    rounded = max(one.near, other.near) if relation == "approx" else max(one.slack, other.slack)
    apart = abs(one.number - other.number)
    same = apart == 0 or (not (one.exact and other.exact) and apart <= _CLOSE * max(abs(one.number), abs(other.number)))
    match relation:
        case "!=":
            return not same
        case "<":
            return one.number < other.number and not same
        case ">":
            return one.number > other.number and not same
        case "<=":
            return one.number <= other.number or same
        case ">=":
            return one.number >= other.number or same
    # What a program prints: 5.2727272727272725 for 58/11.
    printed = any(isinstance(part.node, Number) and part.node.decimals >= 12 for part in (one, other))
    return same or apart <= (max(rounded, abs(one.number) / 10**12) if printed else rounded)


def in_percent(value: Value) -> bool:
    """Return whether the author may have meant `value` as a percentage.

    This holds for `100 - 60 = 40%` and `3 / 4 * 100 = 75%`, but not for `3 / 2 = 1.5%`.
    """
    parts = list(walk(value.node))
    hundred = any(isinstance(part, Number) and part.value == 100 for part in parts)
    return hundred or not any(isinstance(part, Div) for part in parts)


def divides(node: Node, quotient: int, rest: int) -> bool | None:
    """Return whether `node` is a division with this integer quotient and remainder `rest`.

    Return False if `node` is no division, and None if it divides expressions other than plain numbers.
    """
    bare = without_units(node)
    if not isinstance(bare, Div):
        return False  # only a division leaves something
    if not isinstance(bare.top, Number) or not isinstance(bare.bottom, Number):
        return None
    return 0 <= rest < bare.bottom.value and bare.top.value == quotient * bare.bottom.value + rest


def congruent(one: Value, other: Value, modulus: int) -> bool | None:
    """Return whether two values leave the same remainder modulo `modulus`.

    Return None if a value is not an exact whole number, or if `modulus` is below 2.
    """
    apart = one.number - other.number
    if modulus < 2 or not (one.exact and other.exact) or one.number.denominator != 1 or other.number.denominator != 1:
        return None
    return apart % modulus == 0


def shown(value: Value) -> str:
    """Return a value for a reason."""
    if not value.exact:
        return f"{float(value.number):.6g}" if abs(value.number) < 10**18 else "something else"
    if max(abs(value.number.numerator), value.number.denominator) >= 10**18:
        return "something else"
    return str(value.number)


def in_words(text: str) -> str:
    """Return a side for a reason, without the marks of units."""
    return re.sub(r"(?<=[0-9)])([-+*/])(?=[0-9(])", r" \1 ", re.sub(r"\\text\{([^{}]*)\}", r"\1", text)).replace("\\%", "%")
