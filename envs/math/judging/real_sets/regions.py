r"""Reads trees that denote sets of reals: intervals and their unions, inequalities, `|x| < 3`, `x \ne 2`, `{x | x > 0}`.

A set is read with the name of its variable, if it has one. Any name may be the variable: `0 < f(x) < 1` is the interval (0, 1)
with the variable f(x).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from verigym.envs.math.build import ZERO, expand_plus_minus, minus
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.judging.names import is_name
from verigym.envs.math.judging.real_sets.segments import (
    HIGHEST,
    LINE,
    LOWEST,
    End,
    Segment,
    Segments,
    complement,
    end_of,
    intersection,
    mirrored,
    point,
    union,
    unmapped,
)  # fmt: skip
from verigym.envs.math.judging.statements.linear import linear
from verigym.envs.math.judging.texts import says_everything
from verigym.envs.math.tree import (
    FUNCTIONS,
    Add,
    Call,
    Comparator,
    Div,
    Group,
    Listing,
    Mul,
    NamedSet,
    Neg,
    Node,
    PlusMinus,
    Relation,
    SetBuilder,
    SetOp,
    Symbol,
    Text,
    symbols,
    walk,
)  # fmt: skip

MAX_PARTS = 200
_ORDER: dict[Comparator, tuple[bool, bool]] = {"<": (True, False), "<=": (True, True), ">": (False, False), ">=": (False, True)}
"""Whether the left side is the lower one, and whether both may be equal."""
_MIRRORED: dict[Comparator, Comparator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Region(NamedTuple):
    """A set of real numbers, the variable in which it was written, and whether it was written as an inequality."""

    segments: Segments
    variable: Node | None = None
    related: bool = False


def is_region(node: Node) -> bool:
    """Return whether `node` probably denotes a set of reals and not a tuple, a list or a value.

    The test is quick and may be wrong either way.
    """
    match node:
        case SetOp() | SetBuilder() | NamedSet():
            return True
        case Text():
            return says_everything(node)
        case Group(_, _, items):
            return is_interval(node) or any(is_region(item) for item in items if isinstance(item, Relation))
        case Relation(_, comparators):
            return not {"<", "<=", ">", ">=", "!=", "in", "notin"}.isdisjoint(comparators) or (
                comparators == ("=",)
                and (is_interval(node.sides[1]) or isinstance(node.sides[1], SetOp))
                and not isinstance(node.sides[0], Group)  # (x, y) = (1, 2)
            )
        case Listing(items, _):
            return len(items) <= MAX_PARTS and any(isinstance(item, Relation | SetOp) and is_region(item) for item in items)
    return False


def is_interval(node: Node) -> bool:
    """Return whether the brackets of `node` may be those of an interval."""
    return isinstance(node, Group) and len(node.items) == 2 and node.opening in "([]" and node.closing in ")[]"


def region_of(node: Node, work: WorkBudget | None = None) -> Region | None:  # noqa: C901  (one case a type)
    """Return the set of reals that `node` denotes; None if it denotes none, or the ends are not constants.

    The cost is subtracted from the budget `work`, if given.
    """
    match node:
        case NamedSet("R"):
            return Region(LINE)
        case Text() if says_everything(node):
            return Region(LINE)
        case NamedSet("empty"):
            return Region(())
        case SetOp(op, parts) if len(parts) <= MAX_PARTS:
            return _combined(op, [region_of(part, work) for part in parts])
        case Group("{" | "tex{", _, items) if len(items) <= MAX_PARTS:
            return _points(items, work)
        case Group(_, _, (low, high)) if is_interval(node):
            return _interval(node, low, high, work)
        case SetBuilder(element, condition):
            if isinstance(element, Relation) and element.comparators == ("in",) and element.sides[1] == NamedSet("R"):
                element = element.sides[0]
            region = region_of(condition, work)
            return region._replace(related=False, variable=None) if region and region.variable == element else None
        case Relation((left, right), ("in",)):
            inner = region_of(right, work)
            return None if inner is None or inner.variable is not None else inner._replace(variable=left)
        case Relation((left, right), ("notin",)):
            inner = region_of(right, work)
            return None if inner is None else Region(complement(inner.segments), left)
        case Relation((left, right), ("=",)) if is_interval(right) or isinstance(right, SetOp):
            # D = (0, 1) names a set, it is no condition on its elements.
            return region_of(right, work) if is_name(left) else None
        case Relation():
            return _related(node, work)
        case Listing(items, joiner) if len(items) <= MAX_PARTS:
            return _listed(items, joiner, work)
    return None


def _interval(node: Group, low: Node, high: Node, work: WorkBudget | None) -> Region | None:
    low_closed, high_closed = node.opening == "[", node.closing == "]"
    left, right = end_of(low, work), end_of(high, work)
    if left is None or right is None or left.place > right.place or left is HIGHEST or right is LOWEST:
        return None
    if (low_closed and left is LOWEST) or (high_closed and right is HIGHEST):
        return None  # no real number is infinite
    segment = Segment(left, low_closed, right, high_closed)
    return None if segment.empty else Region((segment,))


def _points(items: tuple[Node, ...], work: WorkBudget | None) -> Region | None:
    segments: list[Segment] = []
    for item in items:
        branches = expand_plus_minus(item) if any(isinstance(part, PlusMinus) for part in walk(item)) else (item,)
        for branch in branches:
            end = end_of(branch, work)
            if end is None or isinstance(end.place, float):
                return None
            segments += point(end)
    return Region(union(segments))


def _combined(op: str, parts: list[Region | None]) -> Region | None:
    known = [part for part in parts if part is not None]
    variables = {part.variable for part in known if part.variable is not None}
    if len(known) != len(parts) or len(variables) > 1:
        return None
    sets = [part.segments for part in known]
    if op == "union":
        segments = union(segment for one in sets for segment in one)
    else:
        segments = intersection(sets if op == "intersection" else [sets[0], *map(complement, sets[1:])])
    return Region(segments, next(iter(variables), None), any(part.related for part in known))


def _listed(items: tuple[Node, ...], joiner: str, work: WorkBudget | None) -> Region | None:
    """Read `x < 1 or x > 3` as a union, `and` as an intersection, a comma as what is not empty."""
    parts = [region_of(item, work) or _equals(item, work) for item in items]
    if joiner == "or":
        return _combined("union", parts)
    both = _combined("intersection", parts)
    if joiner == "and" or both is None or both.segments:
        return both
    return _combined("union", parts)


def _equals(item: Node, work: WorkBudget | None) -> Region | None:
    if isinstance(item, Relation) and item.comparators == ("=",) and is_name(item.sides[0]):
        end = end_of(item.sides[1], work)
        return None if end is None else Region(point(end), item.sides[0], True)
    return None


def _related(node: Relation, work: WorkBudget | None) -> Region | None:
    regions: list[Region | None] = [
        _simple(left, comparator, right, work)
        for left, comparator, right in zip(node.sides, node.comparators, node.sides[1:], strict=False)
    ]
    combined = _combined("intersection", regions)
    return combined if combined and combined.variable is not None else None


def _simple(left: Node, comparator: Comparator, right: Node, work: WorkBudget | None) -> Region | None:
    """Solve one inequality in one variable that occurs linearly, alone or in a modulus."""
    if comparator not in _ORDER and comparator != "!=":
        return None
    bound = end_of(right, work) if not _has_name(right) else None
    side = left
    if bound is None:
        bound = end_of(left, work) if not _has_name(left) else None
        side = right
        if bound is not None and comparator in _ORDER:
            comparator = _MIRRORED[comparator]
    if bound is None:
        side, bound = minus(left, right), End(Fraction(0), ZERO)
    if comparator == "!=":
        segments = complement(point(bound))
    else:
        below, closed = _ORDER[comparator]
        closed = closed and not isinstance(bound.place, float)
        segments = (Segment(LOWEST, False, bound, closed),) if below else (Segment(bound, closed, HIGHEST, False),)
    return _solved(side, union(segments), work)


def _solved(side: Node, segments: Segments, work: WorkBudget | None) -> Region | None:
    """Return for which values of its variable a side lies in the set."""
    atoms = _atoms(side)
    if len(atoms) != 1:
        return None
    atom = atoms.pop()
    line = linear(side, atom, work)
    if line is None or not line[0]:
        return None
    solved = unmapped(segments, *line, work)
    if solved is None:
        return None
    if isinstance(atom, Call) and atom.name == "abs":
        return _solved(atom.args[0], mirrored(solved), work)
    return Region(solved, atom, True)


def _has_name(node: Node) -> bool:
    return bool(symbols(node)) or any(isinstance(part, Call) and part.name not in FUNCTIONS for part in walk(node))


def _atoms(node: Node) -> set[Node]:
    """Return the unknowns of a linear expression: names, unknown functions, moduli."""
    match node:
        case Symbol():
            return {node}
        case Call(name, _) if name not in FUNCTIONS or name == "abs":
            return {node} if _has_name(node) else set()
        case Add(parts) | Mul(parts):
            return set().union(*map(_atoms, parts))
        case Neg(of):
            return _atoms(of)
        case Div(top, bottom):
            return _atoms(top) | _atoms(bottom)
    return {node} if _has_name(node) else set()


def as_interval(node: Node) -> Group | None:
    """Return `node` as an interval: an interval unchanged, and an inequality `a < x < b` or `x > a` converted.

    The result is None for any other tree.
    """
    if isinstance(node, Group):
        return node if is_interval(node) else None
    if not isinstance(node, Relation) or not set(node.comparators) <= set(_ORDER):
        return None
    sides, comparators = node.sides, node.comparators
    if not _ORDER[comparators[0]][0]:
        sides, comparators = sides[::-1], tuple(_MIRRORED[comparator] for comparator in reversed(comparators))
    if not all(_ORDER[comparator][0] for comparator in comparators):
        return None
    closed = [_ORDER[comparator][1] for comparator in comparators]
    if len(sides) == 2 and is_name(sides[0]):
        sides, closed = (LOWEST.node, *sides), [False, *closed]
    elif len(sides) == 2:
        sides, closed = (*sides, HIGHEST.node), [*closed, False]
    if len(sides) != 3 or not is_name(sides[1]):
        return None
    return Group("[" if closed[0] else "(", "]" if closed[1] else ")", (sides[0], sides[2]))
