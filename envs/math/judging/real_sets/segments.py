"""Sets of reals as sorted disjoint segments with exact ends: union, complement, intersection, images under linear maps."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from verigym.envs.math.build import literal, negative, scaled
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.values import approximation
from verigym.envs.math.tree import Add, Constant, Neg, Node

INFINITY = float("inf")
DIGITS = 40
_CLOSE = Fraction(1, 10**25)


class End(NamedTuple):
    """An end of a segment: its position on the real line, and the tree that denotes it."""

    place: Fraction | float
    node: Node

    def beside(self, other: End) -> bool:
        """Return whether this end and `other` are at the same position up to a tiny rounding error."""
        if isinstance(self.place, float) or isinstance(other.place, float):
            return self.place == other.place
        size = abs(self.place)
        return abs(self.place - other.place) <= (_CLOSE * size if size > 1 else _CLOSE)


class Segment(NamedTuple):
    """An interval with open or closed ends. A single point has both ends closed and at the same position."""

    low: End
    low_closed: bool
    high: End
    high_closed: bool

    @property
    def empty(self) -> bool:
        """Whether the segment contains no number."""
        if self.low.beside(self.high):
            return not (self.low_closed and self.high_closed)
        return self.low.place > self.high.place


Segments = tuple[Segment, ...]

LOWEST = End(-INFINITY, Neg(Constant("infinity")))
HIGHEST = End(INFINITY, Constant("infinity"))
LINE: Segments = (Segment(LOWEST, False, HIGHEST, False),)


def end_of(node: Node, work: WorkBudget | None = None) -> End | None:
    """Return the end that `node` denotes; None if it is not a real constant. The cost is subtracted from `work`."""
    if node == Constant("infinity"):
        return HIGHEST
    if isinstance(node, Neg) and node.of == Constant("infinity"):
        return LOWEST
    place = approximation(node, DIGITS, work)
    return None if place is None else End(place, node)


def point(end: End) -> Segments:
    """Return the set that contains only the number at `end`."""
    return (Segment(end, True, end, True),)


def union(segments: Iterable[Segment]) -> Segments:
    """Return the union of `segments`, sorted and joined where they touch."""
    joined: list[Segment] = []
    for segment in sorted((one for one in segments if not one.empty), key=lambda one: (one.low.place, not one.low_closed)):
        last = joined[-1] if joined else None
        if last is None or not _touch(last, segment):
            joined.append(segment)
            continue
        opens = last._replace(low_closed=last.low_closed or (segment.low_closed and segment.low.beside(last.low)))
        if segment.high.beside(last.high):
            joined[-1] = opens._replace(high_closed=last.high_closed or segment.high_closed)
        elif segment.high.place > last.high.place:
            joined[-1] = opens._replace(high=segment.high, high_closed=segment.high_closed)
        else:
            joined[-1] = opens
    return tuple(joined)


def _touch(left: Segment, right: Segment) -> bool:
    if left.high.beside(right.low):
        return left.high_closed or right.low_closed
    return right.low.place < left.high.place


def complement(segments: Segments) -> Segments:
    """Return the set of all reals that are not in `segments`."""
    rest: list[Segment] = []
    low, closed = LOWEST, False
    for segment in segments:
        rest.append(Segment(low, closed, segment.low, not segment.low_closed))
        low, closed = segment.high, not segment.high_closed
    rest.append(Segment(low, closed and low is not HIGHEST, HIGHEST, False))
    return union(one._replace(low_closed=one.low_closed and not isinstance(one.low.place, float)) for one in rest)


def intersection(parts: Iterable[Segments]) -> Segments:
    """Return the set of the reals that are in all sets in `parts`."""
    outside = [segment for part in parts for segment in complement(part)]
    return complement(union(outside))


def unmapped(segments: Segments, factor: Fraction, shift: Node, work: WorkBudget | None = None) -> Segments | None:
    """Return the set of all x for which factor * x + shift lies in the set `segments`.

    The cost is subtracted from the budget `work`, if given.

    Returns:
        The set; None if one of its ends is not a real constant.
    """
    moved: list[Segment] = []
    for segment in segments:
        low, high = (_unmapped(end, factor, shift, work) for end in (segment.low, segment.high))
        if low is None or high is None:
            return None
        if factor < 0:
            moved.append(Segment(high, segment.high_closed, low, segment.low_closed))
        else:
            moved.append(Segment(low, segment.low_closed, high, segment.high_closed))
    return union(moved)


def _unmapped(end: End, factor: Fraction, shift: Node, work: WorkBudget | None) -> End | None:
    if isinstance(end.place, float):
        return (LOWEST if end is HIGHEST else HIGHEST) if factor < 0 else end
    if shift == literal(Fraction(0)):
        return end_of(scaled(end.node, 1 / factor), work)
    terms = end.node.terms if isinstance(end.node, Add) else (end.node,)
    less = tuple(negative(term) for term in shift.terms) if isinstance(shift, Add) else (negative(shift),)
    return end_of(scaled(Add((*terms, *less)), 1 / factor), work)


def mirrored(segments: Segments) -> Segments:
    """Return the set of the reals whose absolute value lies in the set `segments`."""
    zero = End(Fraction(0), literal(Fraction(0)))
    right = intersection([segments, (Segment(zero, True, HIGHEST, False),)])
    left = unmapped(right, Fraction(-1), zero.node)
    return union([*right, *(left or ())])
