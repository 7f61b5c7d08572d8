r"""Vectors as sums of unit vectors: `2i - 3j + k` and `\hat{\imath}` are read by what they are compared with."""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.maths.equality.build import ZERO, add, mul, single
from verigym.envs.maths.judging.case import Case
from verigym.envs.maths.tree import Add, Constant, Div, Group, Matrix, Mul, Neg, Node, Number, Symbol

_AXES = "ijk"
_SIZES = (2, 3)
_BRACKETS = ("()", "[]", "<>")
_ONE = Number(Fraction(1))


def in_components(case: Case, gold: Node, answer: Node) -> tuple[Node, Node]:
    """Where one of the two is a vector of two or three components and the other a sum of unit vectors, write both alike."""
    if case.policy.vectors == "written":
        return gold, answer
    if (size := _size(gold)) and not _size(answer):
        return gold, _written(answer, size, gold)
    if (size := _size(answer)) and not _size(gold):
        return _written(gold, size, answer), answer
    return gold, answer


def _size(node: Node) -> int:
    """Return how many components a vector has; 0 of what is none."""
    count = 0
    if isinstance(node, Matrix) and 1 in (len(node.rows), len(node.rows[0])):
        count = len(node.rows) * len(node.rows[0])
    elif isinstance(node, Group) and node.opening + node.closing in _BRACKETS:
        count = len(node.items)
    return count if count in _SIZES else 0


def _written(node: Node, size: int, like: Node) -> Node:
    """Return a sum of unit vectors in the form of that vector; any other tree as it is."""
    node = single(node)
    if not isinstance(node, Add | Mul | Neg | Div | Symbol):
        return node
    found = _components(node)
    # `i` alone is the imaginary unit, and two components have no third axis.
    if not found or (found.keys() == {"i"}) or (size < len(_AXES) and "k" in found):
        return node
    parts = tuple(found.get(axis, ZERO) for axis in _AXES[:size])
    if isinstance(like, Group):
        return Group(like.opening, like.closing, parts)
    assert isinstance(like, Matrix)
    return Matrix((parts,) if len(like.rows) == 1 else tuple((part,) for part in parts))


def _axis(node: Node) -> str | None:
    if isinstance(node, Symbol | Constant):
        name = node.name.removeprefix("hat ")
        name = name[0] if name in ("imath", "jmath") else name
        return name if name in tuple(_AXES) else None
    return None


def _components(node: Node) -> dict[str, Node] | None:
    """Return the coefficients by axis; none of what has no axis, None of what is no sum of unit vectors."""
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
    return {}


def _sum(terms: tuple[Node, ...]) -> dict[str, Node] | None:
    found: dict[str, Node] = {}
    for term in terms:
        inner = _components(term)
        if not inner:  # a number beside vectors
            return None
        for axis, part in inner.items():
            found[axis] = add((found[axis], part)) if axis in found else part
    return found


def _product(factors: tuple[Node, ...]) -> dict[str, Node] | None:
    inner = [_components(factor) for factor in factors]
    with_axes = [place for place, found in enumerate(inner) if found != {}]
    if not with_axes:
        return {}
    vector = inner[with_axes[0]]
    if len(with_axes) > 1 or vector is None:
        return None
    rest = [factor for place, factor in enumerate(factors) if place != with_axes[0]]
    return {axis: mul(rest if part == _ONE else [*rest, part]) for axis, part in vector.items()}
