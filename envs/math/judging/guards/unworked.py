r"""Refuses answers that leave the work to the grader: `\int_0^1 x^2 dx` for 1/3, `2^{100} \bmod 7` for 2, `3x < 6` for x < 2.

Such answers equal the gold, but can be written down from the question alone. If the gold itself has such a form, the answer may
have one too. A chain of equations is worked out if one of its sides is: `17 \bmod 5 = 2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.names import is_name, split_names
from verigym.envs.math.judging.statements.statements import is_equation
from verigym.envs.math.tree import (
    BINDERS,
    Call,
    Constant,
    Group,
    Listing,
    Matrix,
    Neg,
    Node,
    Number,
    Percent,
    Quantity,
    Relation,
    Symbol,
    symbols,
    walk,
)  # fmt: skip

_OF_CONSTANTS = frozenset(("gcd", "lcm", "mod", "floor", "ceil", "det", "max", "min"))
_ORDER = frozenset(("<", "<=", ">", ">=", "!="))


def is_unworked(gold: Node, answer: Node, question: str) -> bool:
    """Return whether `answer`, which equals `gold`, only states the computation to be done and not its result."""
    if _unsolved(answer, _may_be_atom) and not _unsolved(gold, _is_atom) and not _is_equation(gold):
        return True
    if not any(map(_is_operation, walk(answer))) or any(map(_is_operation, walk(gold))):
        return False
    return any(all(any(map(_is_work, walk(side))) for side in sides) for sides in claims(answer, question))


def claims(node: Node, question: str) -> Iterator[tuple[Node, ...]]:
    """Yield the values that the answer `node` claims, each as a tuple of equal sides: (2 + 3, 5) for `x = 2 + 3 = 5`."""
    match node:
        case Group(_, _, items) | Listing(items, _):
            for item in items:
                yield from claims(item, question)
        case Relation(sides, _) if is_equation(node):
            named, values = split_names(sides, question)
            if len(values) == 1:
                yield from claims(values[0], question)
            else:
                yield values
        case Matrix(rows):
            for row in rows:
                for item in row:
                    yield from claims(item, question)
        case Quantity(value, _) | Percent(value):
            yield from claims(value, question)
        case _:
            yield (node,)


def _is_operation(node: Node) -> bool:
    """Return whether a node is one of the operations that count as work; a gold with one may be answered with any of them."""
    if isinstance(node, Symbol):
        return node.name.startswith("d/d")
    return isinstance(node, Call) and (node.name in BINDERS or node.name in _OF_CONSTANTS)


def _is_work(node: Node) -> bool:
    if not _is_operation(node):
        return False
    if isinstance(node, Call) and node.name in _OF_CONSTANTS:
        return (not symbols(node) or node.name == "det") and not is_residue(node)
    return True


def is_residue(node: Node) -> bool:
    r"""Return whether `node` is a residue with nothing left to divide, such as `2 \pmod 5`."""
    if not isinstance(node, Call) or node.name != "mod" or not isinstance(node.args[0], Number):
        return False
    value, modulus = (rational(arg) for arg in node.args)
    return value is not None and modulus is not None and 0 <= value < modulus


def _is_equation(node: Node) -> bool:
    return any(isinstance(part, Relation) and part.comparators == ("=",) and symbols(part.sides[1]) for part in walk(node))


def _unsolved(node: Node, atom: Callable[[Node], bool]) -> bool:
    """Return whether a tree holds an inequality that does not say where its variable lies."""
    return any(
        isinstance(part, Relation) and not _ORDER.isdisjoint(part.comparators) and not _isolates(part, atom)
        for part in walk(node)
    )


def _isolates(relation: Relation, atom: Callable[[Node], bool]) -> bool:
    """Return whether in an inequality each side is a name or a constant, or one side is a name that the others do not hold."""
    names = [side for side in relation.sides if atom(side)]
    held = frozenset[str]().union(*(symbols(side) for side in relation.sides if not atom(side)))
    return not held or (len(names) == 1 and symbols(names[0]).isdisjoint(held))


def _is_atom(side: Node) -> bool:
    side = side.of if isinstance(side, Neg) else side
    return isinstance(side, Symbol) or (isinstance(side, Call) and is_name(side))


def _may_be_atom(side: Node) -> bool:
    r"""Whether a side may be what the gold's set is of: `a + b > 5` where the range of a + b is asked."""
    return _is_atom(side) or (not isinstance(side, Constant) and is_name(side))
