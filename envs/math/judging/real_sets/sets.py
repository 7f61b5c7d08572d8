"""Compares sets of reals: intervals, unions, inequalities and single points."""

from __future__ import annotations

from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.quantities.decimals import stands_for
from verigym.envs.math.judging.real_sets.regions import Region, as_interval, is_region, region_of
from verigym.envs.math.judging.real_sets.segments import End, Segments
from verigym.envs.math.judging.real_sets.spellings import spelled_out
from verigym.envs.math.tree import Group, Node, Relation, Verdict


def same_sets(case: Case, gold: Node, answer: Node) -> Verdict | None:
    """Compare `gold` and `answer` as sets of reals. Returns None if one of them cannot be read as such a set."""
    gold, answer = spelled_out(gold), spelled_out(answer)
    if not (is_region(gold) and is_region(answer)) and not (_needs_set(gold) or _needs_set(answer)):
        return None
    if isinstance(gold, Group) and isinstance(answer, Group):
        return None  # brackets of one kind, element by element; (1,2) is a pair as well
    left, right = region_of(gold, case.work), region_of(answer, case.work)
    if left is None or right is None:
        return _same_intervals(case, gold, answer)
    return _same_regions(case, left, right)


def _same_intervals(case: Case, gold: Node, answer: Node) -> Verdict | None:
    """Compare `a < x < b` with `(a, b)`, whose ends are no constants."""
    left, right = as_interval(gold), as_interval(answer)
    if left is None or right is None or isinstance(gold, Relation) == isinstance(answer, Relation):
        return None
    if (left.opening, left.closing) != (right.opening, right.closing):
        return case.refuse("an end is open that should be closed, or the other way round")
    ends = all_of(case.values(one, two) for one, two in zip(left.items, right.items, strict=True))
    if ends != "same":
        return case.refuse("another end of an interval") if ends == "different" else ends
    fits = case.policy.symmetry == "both" or (case.policy.symmetry == "gold" and isinstance(gold, Relation))
    return case.decided("symmetry", fits, "an interval and an inequality are different forms")


def _needs_set(node: Node) -> bool:
    """Return whether a tree can be nothing but a set: an inequality, a union."""
    return is_region(node) and not isinstance(node, Group)


def _same_regions(case: Case, gold: Region, answer: Region) -> Verdict:
    if gold.variable is not None and answer.variable is not None and gold.variable != answer.variable:
        if case.policy.name != "any":
            return case.decided("name", False, "a set for another variable")
        case.note("name=any")
    verdict = _same_segments(case, gold.segments, answer.segments)
    if verdict == "same" and gold.related != answer.related:
        fits = case.policy.symmetry == "both" or (case.policy.symmetry == "gold" and gold.related)
        return case.decided("symmetry", fits, "an interval and an inequality are different forms")
    return verdict


def _same_segments(case: Case, gold: Segments, answer: Segments) -> Verdict:
    if len(gold) != len(answer):
        return case.refuse(f"{len(answer)} pieces where the set has {len(gold)}")
    closed = [(one.low_closed, one.high_closed) for one in gold] == [(one.low_closed, one.high_closed) for one in answer]
    if not closed:
        return case.refuse("an end is open that should be closed, or the other way round")
    pairs = [pair for one, two in zip(gold, answer, strict=True) for pair in ((one.low, two.low), (one.high, two.high))]
    return all_of(_same_end(case, one, two) for one, two in pairs)


def _same_end(case: Case, gold: End, answer: End) -> Verdict:
    if isinstance(gold.place, float) or isinstance(answer.place, float):
        return "same" if gold.place == answer.place else case.refuse("another end of an interval")
    verdict = case.values(gold.node, answer.node)
    if verdict == "different" and stands_for(case, gold.node, answer.node) == "same":
        return "same"
    if verdict == "unknown" and not gold.beside(answer):
        verdict = "different"
    return case.refuse("another end of an interval") if verdict == "different" else verdict
