"""Dynamic sampling: which sampled groups a step trains on, and how many more to draw (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source


@dataclass(frozen=True)
class Filled:
    """A step's groups with a signal, and what was left over."""

    groups: list[Group]
    """At most one a slot of the plan."""
    leftovers: list[Group]
    """Of this step, scored and with a signal, for the next step."""
    missing: int
    """Slots that stayed empty, because the bound was reached."""


def refill(
    plan: Sequence[Source],
    leftovers: Sequence[Group],
    draw: Callable[[Sequence[Source]], Sequence[Group]],
    has_signal: Callable[[Group], bool],
    max_oversampling: float,
) -> Filled:
    """Draw groups until each slot of the plan has one with a signal of its source, or the source's bound is reached.

    Every group of a round is waited for, and the first in order are taken, so nothing favours short completions. How many
    more a round draws follows from the share of groups that had a signal so far in this step. A slot that a source could
    not fill goes to a spare group of another one.

    Args:
        plan: the source of each slot.
        leftovers: of the step before. They come first, and are marked as written by an earlier policy; those that have no
            slot now are dropped, so none is ever older than one step.
        draw: samples and grades a group for each source that it is given.
        has_signal: whether a group teaches anything.
        max_oversampling: at most this many times a source's slots are drawn for it.
    """
    slots = Counter(source.label for source in plan)
    sources = {source.label: source for source in plan}
    ready: dict[str, list[Group]] = {label: [] for label in slots}
    for group in leftovers:
        if len(ready.get(group.source, ())) < slots[group.source]:
            ready[group.source].append(replace(group, off_policy=True))
    drawn: Counter[str] = Counter()
    found: Counter[str] = Counter()
    used = {label: len(groups) for label, groups in ready.items()}
    wanted = []
    for source in plan:
        used[source.label] -= 1
        if used[source.label] < 0:
            wanted.append(source)
    while wanted:
        drawn.update(source.label for source in wanted)
        for group in draw(wanted):
            if has_signal(group):
                found[group.source] += 1
                ready[group.source].append(group)
        wanted = []
        for label, count in slots.items():
            missing = count - len(ready[label])
            room = int(max_oversampling * count) - drawn[label]
            if missing > 0 and room > 0:
                expected = ceil(missing * (drawn[label] + 1) / (found[label] + 1))
                wanted += [sources[label]] * min(expected, room, count)
    return _assign(plan, ready)


def _assign(plan: Sequence[Source], ready: dict[str, list[Group]]) -> Filled:
    chosen = [ready[source.label].pop(0) if ready[source.label] else None for source in plan]
    spare = [group for groups in ready.values() for group in groups]
    empty = [slot for slot, group in enumerate(chosen) if group is None]
    for slot, group in zip(empty, spare, strict=False):
        chosen[slot] = group
    missing = sum(group is None for group in chosen)
    return Filled([group for group in chosen if group is not None], spare[len(empty) :], missing)
