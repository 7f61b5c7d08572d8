"""The formulas in a task's text, parsed: for names that the question speaks of, and for answers that hand it back."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from verigym.envs.maths.judging.shapes import is_literal, shape
from verigym.envs.maths.reading.parse import ParseError, parse
from verigym.envs.maths.tree import Add, Listing, Mul, Node, Number, Relation, children, walk

MAX_CHARS = 20_000
MAX_RUNS = 60
MAX_RUN_CHARS = 400

_SPAN = re.compile(r"\$\$?([^$]++)\$\$?|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
# A stretch of symbols: two letters in a row are a word of the sentence.
_RUN = re.compile(r"(?:\\[A-Za-z]++|(?<![A-Za-z])(?:[A-Za-z]|d[A-Za-z])(?![A-Za-z])|[^A-Za-z$?;=<>\n])++")
_NUMBER = re.compile(r"[0-9]++(?:,[0-9]{3}(?![0-9]))*+(?:\.[0-9]++)?+")
_WORD = re.compile(r"[a-z]++")
_WORDS = {
    word: Fraction(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split()
    )
}
MAX_DIGITS = 40
_SIGNS = ("=", "<", ">")
_QUERY = re.compile(r"\s*=\s*\?")


class Formulas(NamedTuple):
    """What a question holds."""

    wholes: tuple[Node, ...]
    """The shapes of its formulas, of each side of an equation and each element of a list."""
    shapes: frozenset[Node]
    """The shapes of all formulas and their parts."""
    joined: tuple[tuple[Node, Counter[Node]], ...]
    """Of the shapes that are sums and products, the terms and factors."""
    alone: frozenset[Node]
    """The shapes of the formulas that are no side of an equation: what is asked for is among them, what is given is not."""
    folded: frozenset[Node]
    """Numbers and names that are the shapes of computations: 0 for 12 * 34 * 0."""
    literals: frozenset[Node]
    """The numbers that stand alone, as they are written."""
    equations: frozenset[Node]
    """The shapes of its equations, both ways round."""
    numbers: frozenset[Fraction]
    """All numbers in the text, in digits or words, without powers of ten: 17, 1.7 and 170 are one."""


@lru_cache(maxsize=256)
def formulas(question: str) -> Formulas:
    """Parse the formulas of a question; what cannot be parsed is no formula."""
    text = question[:MAX_CHARS]
    runs = [
        (_QUERY.sub("", next(filter(None, match.groups()))), not _is_side(text, *match.span()))
        for match in _SPAN.finditer(text)
    ]
    plain = _SPAN.sub(" ; ", text)
    runs += [(match.group().strip(" ,.:"), not _is_side(plain, *match.span())) for match in _RUN.finditer(plain)]
    wholes: dict[Node, None] = {}
    shapes: set[Node] = set()
    alone: set[Node] = set()
    folded: set[Node] = set()
    literals: set[Node] = set()
    equations: set[Node] = set()
    for run, free in [pair for pair in runs if 1 < len(pair[0]) <= MAX_RUN_CHARS and not pair[0].isalpha()][:MAX_RUNS]:
        try:
            tree = parse(run)
        except ParseError:
            continue
        parts = tree.sides if isinstance(tree, Relation) else tree.items if isinstance(tree, Listing) else (tree,)
        wholes.update((shape(part), None) for part in parts)
        literals.update(part for part in parts if is_literal(part))
        folded.update(one for part in parts if not is_literal(part) and is_literal(one := shape(part)))
        if isinstance(tree, Relation) and tree.comparators == ("=",):
            equations.update(shape(Relation(sides, ("=",))) for sides in (tree.sides, tree.sides[::-1]))
        shapes.update(shape(part) for part in walk(tree))
        if free and not isinstance(tree, Relation):
            alone.update(map(shape, parts))
    joined = tuple((one, Counter(children(one))) for one in shapes if isinstance(one, Add | Mul))
    numbers = frozenset(map(significant, numbers_in(text)))
    kinds = [frozenset(found) for found in (alone, folded, literals, equations)]
    return Formulas(tuple(wholes), frozenset(shapes), joined, kinds[0], kinds[1], kinds[2], kinds[3], numbers)


def _is_side(text: str, start: int, end: int) -> bool:
    """Whether what stands here in a text is a side of an equation or inequality, other than that of `x^2 + y^2 = ?`."""
    before, behind = text[max(0, start - 3) : start].rstrip(), text[end : end + 3].lstrip()
    return before.endswith(_SIGNS) or (behind.startswith(_SIGNS) and not _QUERY.match(text, end))


def numbers_in(text: str) -> list[Fraction]:
    """Return all numbers in a text, in digits or words."""
    digits = [found.replace(",", "") for found in _NUMBER.findall(text)]
    words = [_WORDS[word] for word in _WORD.findall(text.lower()) if word in _WORDS]
    return [Fraction(found) for found in digits if len(found) <= MAX_DIGITS] + words


def significant(value: Fraction) -> Fraction:
    """Return a number without its powers of ten, where it is a short decimal."""
    for _ in range(MAX_DIGITS):
        if value.denominator % 2 and value.denominator % 5:
            break
        value *= 10
    for _ in range(MAX_DIGITS):
        if not value or value.denominator != 1 or value.numerator % 10:
            break
        value /= 10
    return value


def mentions(question: str, node: Node) -> bool:
    """Whether the question speaks of an expression."""
    return shape(node) in formulas(question).shapes


def asks(question: str, node: Node) -> bool:
    """Whether the question speaks of an expression otherwise than in saying what it equals."""
    return shape(node) in formulas(question).alone


def numbers_of(node: Node) -> tuple[Fraction, ...]:
    """Return the numbers written in a tree, sorted."""
    return tuple(sorted(part.value for part in walk(node) if isinstance(part, Number)))
