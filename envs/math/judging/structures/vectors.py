r"""Recognises vectors written as sums of unit vectors: `2i - 3j + k`, also with hats as in `\hat{\imath}`.

A sum with the plain letters i, j and k, without hats, may also have another meaning: the letters may be names of numbers, and i
the imaginary unit. It is read as a vector only if the question, or the value that it is compared with, leaves no other meaning.
"""

from __future__ import annotations

import re
from fractions import Fraction

from verigym.envs.math.build import ZERO, literal, mul, single
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.case import Case
from verigym.envs.math.judging.question import formulas
from verigym.envs.math.judging.shapes import shape
from verigym.envs.math.tree import Add, Constant, Div, Group, Matrix, Mul, Neg, Node, Number, Symbol, walk

_AXES = ("i", "j", "k")
_SIZES = (2, 3)
_BRACKETS = ("()", "<>")
_ONE = Number(Fraction(1))
_HAT = "hat "
_OF_VECTORS = re.compile(r"\bvectors?\b|\\vec\b|\\hat\b|\\mathbf\b|\\boldsymbol\b|\\langle\b", re.IGNORECASE)


def in_components(case: Case, gold: Node, answer: Node) -> tuple[Node, Node]:
    """Return both trees in the same form if one is a vector of two or three components and the other a sum of unit vectors.

    If both are sums, and only one of them has hats on the unit vectors, both become tuples. All other trees are returned
    unchanged. An answer that only repeats a vector of the question stays unchanged too, because the grader would otherwise do
    the work that the question asks for.
    """
    size = _size(gold) or _size(answer)
    if _size(gold) and _size(answer):
        return gold, answer
    if not size:
        return _both(gold, answer)
    vector, total = (gold, answer) if _size(gold) else (answer, gold)
    by_axis = _sum_of_axes(total)
    if by_axis is None or case.policy.vectors == "written" or not _is_meant(case, vector, total, by_axis, size):
        return gold, answer
    if case.policy.echo == "refuse" and _is_stated(case.question, answer):
        return gold, answer
    parts = tuple(by_axis.get(axis, ZERO) for axis in _AXES[:size])
    written: Node = Group("(", ")", parts)
    if isinstance(vector, Group):
        written = Group(vector.opening, vector.closing, parts)
    elif isinstance(vector, Matrix):
        written = Matrix((parts,) if len(vector.rows) == 1 else tuple((part,) for part in parts))
    return (gold, written) if total is answer else (written, answer)


def _both(gold: Node, answer: Node) -> tuple[Node, Node]:
    if not (isinstance(gold, Add) and isinstance(answer, Add)) or _hats(gold) == _hats(answer):
        return gold, answer
    one, two = _sum_of_axes(gold), _sum_of_axes(answer)
    if one is None or two is None or min(len(one), len(two)) < 2:
        return gold, answer
    tuples = [Group("(", ")", tuple(by_axis.get(axis, ZERO) for axis in _AXES)) for by_axis in (one, two)]
    return tuples[0], tuples[1]


def _hats(node: Node) -> bool:
    return any(isinstance(part, Symbol) and part.name.startswith(_HAT) for part in walk(node))


def _is_meant(case: Case, vector: Node, total: Node, by_axis: dict[str, Node], size: int) -> bool:
    """Whether a sum is one of unit vectors: by its hats, or by at least two axes and what it is compared with or asked."""
    if size < len(_AXES) and "k" in by_axis:
        return False
    if _hats(total):
        return True
    clear = isinstance(vector, Matrix) or (isinstance(vector, Group) and vector.opening == "<") or size == len(_AXES)
    return len(by_axis) > 1 and (clear or _OF_VECTORS.search(case.question) is not None)


def _is_stated(question: str, answer: Node) -> bool:
    """Return whether the question holds that vector in that form."""
    if not question:
        return False
    canonical = _canonical(answer)
    return any(_canonical(whole) == canonical for whole in formulas(question).wholes)


def _canonical(node: Node) -> object:
    node = single(node)
    if isinstance(node, Group | Matrix):
        cells = node.items if isinstance(node, Group) else tuple(cell for row in node.rows for cell in row)
        return "components", tuple(map(shape, cells))
    by_axis = _sum_of_axes(node)
    return ("sum", frozenset((axis, shape(part)) for axis, part in by_axis.items())) if by_axis else shape(node)


def _size(node: Node) -> int:
    """Return how many components a vector has; 0 of what is none."""
    count = 0
    if isinstance(node, Matrix) and 1 in (len(node.rows), len(node.rows[0])):
        count = len(node.rows) * len(node.rows[0])
    elif isinstance(node, Group) and node.opening + node.closing in _BRACKETS:
        count = len(node.items)
    return count if count in _SIZES else 0


def _sum_of_axes(node: Node) -> dict[str, Node] | None:
    """Return the coefficients by axis; None of what is no sum of unit vectors."""
    node = single(node)
    return (_components(node) or None) if isinstance(node, Add | Mul | Neg | Div | Symbol) else None


def _axis(node: Node) -> str | None:
    if isinstance(node, Symbol | Constant):
        name = node.name.removeprefix(_HAT)
        name = name[0] if name in ("imath", "jmath") else name
        return name if name in _AXES else None
    return None


def _components(node: Node) -> dict[str, Node] | None:
    """Return the coefficients by axis; none of what has no axis, None of what has one and is no sum of unit vectors."""
    node = single(node)
    axis = _axis(node)
    if axis is not None:
        return {axis: _ONE}
    match node:
        case Neg(of):
            inner = _components(of)
            return None if inner is None else {axis: Neg(part) for axis, part in inner.items()}
        case Div(top, bottom):
            inner = _components(top)
            return None if inner is None or _components(bottom) != {} else {axis: Div(p, bottom) for axis, p in inner.items()}
        case Add(terms):
            return _sum(terms)
        case Mul(factors):
            return _product(factors)
    return None if any(_axis(part) for part in walk(node)) else {}


def _sum(terms: tuple[Node, ...]) -> dict[str, Node] | None:
    inner = [_components(term) for term in terms]
    if all(by_axis == {} for by_axis in inner):
        return {}
    together: dict[str, Node] = {}
    for by_axis in inner:
        # A number beside vectors is a mistake; an axis that comes twice leaves the sum to be worked out.
        if not by_axis or by_axis.keys() & together.keys():
            return None
        together |= by_axis
    return together


def _product(factors: tuple[Node, ...]) -> dict[str, Node] | None:
    inner = [_components(factor) for factor in factors]
    with_axes = [place for place, by_axis in enumerate(inner) if by_axis != {}]
    if not with_axes:
        return {}
    vector = inner[with_axes[0]]
    if len(with_axes) > 1 or vector is None:
        return None
    rest = [factor for place, factor in enumerate(factors) if place != with_axes[0]]
    if len(vector) == 1:
        return {axis: mul(rest if part == _ONE else [*rest, part]) for axis, part in vector.items()}
    times = rational(mul(rest))
    if times is not None and times.denominator == 1:  # 3(i + 2j) is to be worked out; 1/3 (i + 2j + 2k) is a unit vector
        return None
    return {axis: _scaled(mul(rest), times, part) for axis, part in vector.items()}


def _scaled(factor: Node, times: Fraction | None, part: Node) -> Node:
    value = rational(part)
    return literal(times * value) if times is not None and value is not None else mul([factor, part])
