r"""Refuses formulas and sets in which a step is left: `\frac{x^3-1}{x-1}` for x^2 + x + 1, `\{1\} \cup \{2\}` for {1, 2}.

The rule concerns the form of the answer alone, and gives way where the gold leaves the same step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from verigym.envs.math.judging.guards.reduced import kind_of
from verigym.envs.math.judging.guards.unworked import claims
from verigym.envs.math.judging.question import MAX_CHARS
from verigym.envs.math.judging.shapes import shape
from verigym.envs.math.tree import (
    Add,
    Call,
    Constant,
    Div,
    Group,
    Mul,
    Neg,
    Node,
    Number,
    Pow,
    Root,
    SetOp,
    Symbol,
    symbols,
    walk,
)  # fmt: skip

_SIMPLIFY = re.compile(r"\b(?:simplify|simplified|simplest|reduce|lowest terms|cancel)", re.IGNORECASE)


def leaves_step(gold: Node, answer: Node, question: str) -> bool:
    """Return whether `answer`, which equals `gold`, keeps a quotient, like terms or an operation on sets to be worked out."""
    if gold == answer or not question.strip():
        return False
    if any(map(_is_open, walk(answer))) and not any(map(_is_open, walk(gold))):
        return True
    golds = list(claims(gold, question))
    if len(golds) == 1 and _SIMPLIFY.search(question[:MAX_CHARS]):
        given = list(claims(answer, question))
        if len(given) == 1 and all(_is_uncancelled(golds[0][-1], side) for side in given[0]):
            return True
    values = [sides[0] for sides in golds if len(sides) == 1 and symbols(sides[0])]
    if not values or len(values) < len(golds):
        return False  # an equation, which may be solved for another name
    divided = all(map(_is_polynomial, values))
    alike = any(map(_has_like_terms, values))
    return any(
        all((divided and _divides_by_names(side)) or (not alike and _has_like_terms(side)) for side in sides)
        for sides in claims(answer, question)
    )


def _is_uncancelled(gold: Node, answer: Node) -> bool:
    r"""Return whether a fraction equal to the fraction `gold` has a common factor: both its parts are of higher degrees."""
    gold, answer = (node.of if isinstance(node, Neg) else node for node in (gold, answer))
    if not isinstance(gold, Div) or not isinstance(answer, Div) or not symbols(gold.bottom):
        return False
    degrees = [_degree(part) for part in (gold.top, gold.bottom, answer.top, answer.bottom)]
    if None in degrees:
        return False
    top, bottom, over, under = (degree or 0 for degree in degrees)
    return over > top and under > bottom


def _degree(node: Node) -> Fraction | None:
    """Return the degree of a polynomial as it is written; None for other formulas."""
    match node:
        case Symbol():
            return Fraction(1)
        case Add(parts) | Mul(parts):
            degrees = [_degree(part) for part in parts]
            known = [degree for degree in degrees if degree is not None]
            if len(known) < len(degrees):
                return None
            return max(known) if isinstance(node, Add) else sum(known, Fraction(0))
        case Neg(of):
            return _degree(of)
        case Pow(base, Number(power)) if (inner := _degree(base)) is not None:
            return inner * power
    return None if symbols(node) else Fraction(0)


def _is_open(node: Node) -> bool:
    """Return whether an operation joins sets that are written out; a set without some points, and a union, are results."""
    if not isinstance(node, SetOp):
        return False
    finite = [isinstance(part, Group) and part.opening in ("{", "tex{") for part in node.parts]
    written = list(map(_is_written, node.parts))
    match node.op:
        case "union":
            return all(finite)
        case "difference":
            return all(written) and (finite[0] or not all(finite[1:]))
    return sum(written) > 1


def _is_written(node: Node) -> bool:
    return isinstance(node, Group) or (isinstance(node, SetOp) and all(map(_is_written, node.parts)))


def _is_polynomial(node: Node) -> bool:
    """Return whether a tree is a polynomial in its names, whose coefficients may be any numbers."""
    for part in walk(node):
        match part:
            case Pow(base, exponent) if symbols(base):
                if not isinstance(exponent, Number) or exponent.value.denominator > 1:
                    return False
            case Pow(_, exponent) | Div(_, exponent) | Root(exponent):
                if symbols(exponent):
                    return False
            case Symbol() | Number() | Constant() | Add() | Mul() | Neg():
                continue
            case _ if symbols(part) or isinstance(part, Call):
                return False
    return True


def _divides_by_names(node: Node) -> bool:
    return any(
        (isinstance(part, Div) and bool(symbols(part.bottom)))
        or (isinstance(part, Pow) and isinstance(part.exponent, Neg) and bool(symbols(part.base)))
        for part in walk(node)
    )


def _has_like_terms(node: Node) -> bool:
    """Return whether a sum, read without its parentheses, has two terms that differ only in numbers: `(x^2 + 3x) - x`."""
    for part in walk(node):
        if isinstance(part, Add):
            kinds = [kind_of(shape(term)) for term in _terms(part) if symbols(term)]
            if len(set(kinds)) < len(kinds):
                return True
    return False


def _terms(node: Node) -> Iterator[Node]:
    match node:
        case Add(terms):
            for term in terms:
                yield from _terms(term)
        case Neg(of):
            yield from _terms(of)
        case _:
            yield node
