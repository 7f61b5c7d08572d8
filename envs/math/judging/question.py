"""Parses the formulas in a question, to know the names that it mentions and to recognise answers that repeat it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from verigym.envs.math.judging.shapes import is_literal, is_plain, shape
from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import (
    Add,
    Call,
    Constant,
    Div,
    Listing,
    Matrix,
    Mul,
    Neg,
    Node,
    Number,
    Percent,
    Pow,
    Quantity,
    Relation,
    Root,
    walk,
)  # fmt: skip

MAX_CHARS = 20_000
MAX_RUNS = 60
MAX_RUN_CHARS = 400
MAX_FORMULAS = 20

_SPAN = re.compile(r"\$\$?([^$]++)\$\$?|\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]", re.DOTALL)
# A stretch of symbols: two letters in a row are a word of the sentence.
_RUN = re.compile(r"(?:\\[A-Za-z]++|(?<![A-Za-z])(?:[A-Za-z]|d[A-Za-z])(?![A-Za-z])|[^A-Za-z$?;=<>\n\\]++|\\)+")
_NUMBER = re.compile(r"[0-9]++(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]++)?")
_MATRIX = re.compile(rf"\\begin\{{([A-Za-z]?matrix|array)\}}.{{1,{MAX_RUN_CHARS}}}?\\end\{{\1\}}", re.DOTALL)
_NUMERAL = r"([0-9]++(?:,[0-9]{3}(?![0-9]))*(?:\.[0-9]++)?)"
_ROOT = re.compile(rf"(?:square root of |sqrt ?\(?){_NUMERAL}")
_POWER = re.compile(rf"{_NUMERAL} (?:raised )?to the (?:power(?: of)? )?{_NUMERAL}")
_WORD = re.compile(r"[a-z]++")
_WORDS = {
    word: Fraction(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
        "eighteen nineteen twenty".split()
    )
}
MAX_DIGITS = 40
_ARITHMETIC = (Number, Constant, Add, Mul, Div, Neg, Pow, Root, Percent, Call)
_SIGNS = ("=", "<", ">")
_QUERY = re.compile(r"\s*=\s*\?")


class Formulas(NamedTuple):
    """The parsed formulas of a question."""

    wholes: tuple[Node, ...]
    """The normal forms (see `shape`) of the question's formulas: of each side of an equation and each element of a list."""
    shapes: frozenset[Node]
    """The shapes of all formulas and their parts."""
    alone: frozenset[Node]
    """The normal forms of formulas that are not a side of an equation. An expression that the question asks for is among them;
    one that occurs only in a given equation is not."""
    literals: frozenset[Node]
    """The numbers that stand alone, as they are written."""
    equations: frozenset[Node]
    """The shapes of its equations, both ways round."""
    trees: tuple[Node, ...]
    """Its formulas as they are written."""


@lru_cache(maxsize=256)
def formulas(question: str) -> Formulas:
    """Return the parsed formulas of `question`. Formulas that cannot be parsed are left out."""
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
    literals: set[Node] = set()
    equations: set[Node] = set()
    trees: list[Node] = []
    for run, free in [pair for pair in runs if 1 < len(pair[0]) <= MAX_RUN_CHARS and not pair[0].isalpha()][:MAX_RUNS]:
        try:
            tree = parse(run)
        except ParseError:
            continue
        parts = tree.sides if isinstance(tree, Relation) else tree.items if isinstance(tree, Listing) else (tree,)
        wholes.update((shape(part), None) for part in parts)
        literals.update(part for part in parts if is_literal(part))
        if isinstance(tree, Relation) and tree.comparators == ("=",):
            equations.update(shape(Relation(sides, ("=",))) for sides in (tree.sides, tree.sides[::-1]))
        shapes.update(shape(part) for part in walk(tree))
        trees.append(tree)
        if free and not isinstance(tree, Relation):
            alone.update(map(shape, parts))
    kinds = [frozenset(group) for group in (alone, literals, equations)]
    return Formulas(tuple(wholes), frozenset(shapes), kinds[0], kinds[1], kinds[2], tuple(trees))


def edges_of(node: Node) -> Iterator[tuple[Node, bool]]:
    """Yield each subtree of `node` that restricts where `node` is defined, with a flag that says how.

    The flag is False for denominators, which must not be zero, and True for arguments of roots and logarithms, which must not
    be negative.
    """
    for part in walk(node):
        match part:
            case Div(_, edge) | Pow(edge, Neg()):
                yield edge, False
            case Root(edge, _) | Pow(edge, Div()) | Call("ln" | "log", (edge, *_)):
                yield edge, True


def _is_side(text: str, start: int, end: int) -> bool:
    """Return whether what stands here in a text is a side of an equation or inequality, other than that of `x^2 + y^2 = ?`."""
    before, behind = text[max(0, start - 3) : start].rstrip(), text[end : end + 3].lstrip()
    return before.endswith(_SIGNS) or (behind.startswith(_SIGNS) and not _QUERY.match(text, end))


def numbers_in(text: str) -> list[Fraction]:
    """Return all numbers in `text`, written in digits or in words."""
    digits = [number.replace(",", "") for number in _NUMBER.findall(text)]
    words = [_WORDS[word] for word in _WORD.findall(text.lower()) if word in _WORDS]
    return [Fraction(number) for number in digits if len(number) <= MAX_DIGITS] + words


@lru_cache(maxsize=256)
def matrices(question: str) -> frozenset[Node]:
    """Return the normal forms (see `shape`) of the matrices in `question`, inside or outside of `$`."""
    texts = [match.group() for match in _MATRIX.finditer(question[:MAX_CHARS])][:MAX_FORMULAS]
    return frozenset(part for part in _parsed(texts) if isinstance(part, Matrix))


@lru_cache(maxsize=256)
def computations(question: str) -> tuple[Node, ...]:
    """Return the normal forms (see `shape`) of the expressions without variables in `question`.

    Roots and powers written in words are included.
    """
    text = question[:MAX_CHARS].lower()
    worded = [rf"\sqrt{{{one}}}" for one in _ROOT.findall(text)] + [f"{one}^{{{two}}}" for one, two in _POWER.findall(text)]
    shapes = dict.fromkeys([*formulas(question).wholes, *_parsed(worded[:MAX_FORMULAS])])
    return tuple(one for one in shapes if is_plain(one) and all(map(_is_arithmetic, walk(one))))


def _is_arithmetic(node: Node) -> bool:
    return isinstance(node, _ARITHMETIC) or (isinstance(node, Quantity) and node.unit == "degree")


def _parsed(texts: list[str]) -> list[Node]:
    shapes: list[Node] = []
    for text in texts:
        try:
            shapes.append(shape(parse(text)))
        except ParseError:
            continue
    return shapes


@lru_cache(maxsize=1024)
def speaks_of(question: str, letter: str) -> bool:
    """Return whether `letter` stands alone in `question`.

    Outside of `$`, the articles `a` and `A` and the pronoun `I` do not count.
    """
    text = question[:MAX_CHARS]
    token = re.compile(rf"(?<![A-Za-z\\]){re.escape(letter)}(?![A-Za-z])")
    spans = " ; ".join(filter(None, (part for match in _SPAN.finditer(text) for part in match.groups())))
    return bool(token.search(spans) or (letter not in ("a", "A", "I") and token.search(_SPAN.sub(" ; ", text))))


def mentions(question: str, node: Node) -> bool:
    """Return whether `question` contains the expression `node`."""
    return shape(node) in formulas(question).shapes


def asks(question: str, node: Node) -> bool:
    """Return whether `question` contains the expression `node` as a formula of its own, not only as a side of an equation."""
    return shape(node) in formulas(question).alone
