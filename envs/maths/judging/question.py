"""The formulas in a task's text, parsed: for names that the question speaks of, and for answers that hand it back."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from verigym.envs.maths.judging.shapes import shape
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


class Formulas(NamedTuple):
    """What a question holds."""

    wholes: tuple[Node, ...]
    """The shapes of its formulas, of each side of an equation and each element of a list."""
    shapes: frozenset[Node]
    """The shapes of all formulas and their parts."""
    joined: tuple[tuple[Node, Counter[Node]], ...]
    """Of the shapes that are sums and products, the terms and factors."""
    numbers: frozenset[Fraction]
    """All numbers in the text, in digits or words, without powers of ten: 17, 1.7 and 170 are one."""


@lru_cache(maxsize=256)
def formulas(question: str) -> Formulas:
    """Parse the formulas of a question; what cannot be parsed is no formula."""
    text = question[:MAX_CHARS]
    runs = [next(group for group in match.groups() if group is not None) for match in _SPAN.finditer(text)]
    runs += [run.strip(" ,.:") for run in _RUN.findall(_SPAN.sub(" ; ", text))]
    wholes: dict[Node, None] = {}
    shapes: set[Node] = set()
    for run in [run for run in runs if 1 < len(run) <= MAX_RUN_CHARS and not run.isalpha()][:MAX_RUNS]:
        try:
            tree = parse(run)
        except ParseError:
            continue
        for part in tree.sides if isinstance(tree, Relation) else tree.items if isinstance(tree, Listing) else (tree,):
            wholes[shape(part)] = None
        shapes.update(shape(part) for part in walk(tree))
    joined = tuple((one, Counter(children(one))) for one in shapes if isinstance(one, Add | Mul))
    return Formulas(tuple(wholes), frozenset(shapes), joined, frozenset(map(significant, _numbers_in(text))))


def _numbers_in(text: str) -> list[Fraction]:
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


def numbers_of(node: Node) -> tuple[Fraction, ...]:
    """Return the numbers written in a tree, sorted."""
    return tuple(sorted(part.value for part in walk(node) if isinstance(part, Number)))
