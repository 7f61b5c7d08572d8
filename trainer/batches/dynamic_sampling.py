"""Dynamic sampling: draw groups until enough of them have a signal (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source


@dataclass(frozen=True)
class Filled:
    """The groups with a signal that a step trains on, and the groups with a signal that are left over."""

    groups: list[Group]
    """At most one a slot of the plan."""
    leftovers: list[Group]
    """Further groups of this step with a signal, for the next step."""
    missing: int
    """Slots that stayed empty, because `max_oversampling` was reached."""


def refill(
    plan: Sequence[Source],
    leftovers: Sequence[Group],
    draw: Callable[[Sequence[Source]], Sequence[Group]],
    has_signal: Callable[[Group], bool],
    max_oversampling: float,
) -> Filled:
    """Draw groups until each slot of `plan` has a group with a signal from its source, or the source reaches its bound.

    Each round is sampled to its end, and its first groups in order are taken, so that short completions are not favoured.
    The size of a round follows from the share of groups with a signal so far in this step. A slot that its source could not
    fill goes to a spare group of another source.

    Args:
        plan: the source of each slot.
        leftovers: groups left over from the step before. They are used first, marked as off-policy. Those that get no slot
            are dropped, so no group is ever older than one step.
        draw: samples and grades one group for each given source.
        has_signal: returns True if a group has a gradient.
        max_oversampling: most groups drawn for a source, as a multiple of its slots.
    """
    slots = Counter(source.label for source in plan)
    sources = {source.label: source for source in plan}
    ready: dict[str, list[Group]] = {label: [] for label in slots}
    for group in leftovers:
        if len(ready.get(group.source, ())) < slots[group.source]:
            ready[group.source].append(replace(group, off_policy=True))
    drawn: Counter[str] = Counter()
    with_signal: Counter[str] = Counter()
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
                with_signal[group.source] += 1
                ready[group.source].append(group)
        wanted = []
        for label, count in slots.items():
            missing = count - len(ready[label])
            room = int(max_oversampling * count) - drawn[label]
            if missing > 0 and room > 0:
                expected = ceil(missing * (drawn[label] + 1) / (with_signal[label] + 1))
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
