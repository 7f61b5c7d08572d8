"""Dynamic sampling: draw groups until enough of them have a signal, which means a gradient (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from verigym.trainer.rollout.collect import Group
from verigym.trainer.tasks.mixture import Source


@dataclass(frozen=True)
class Filled:
    """The result of `refill`: groups that a step trains on, and groups that are left over. All of them have a signal."""

    groups: list[Group]
    """At most one a slot of the plan."""
    leftovers: list[Group]
    """Further groups that were drawn in this step and have a signal; the next step may use them."""
    missing: int
    """Number of slots of the plan that got no group, because the bound `max_oversampling` was reached."""


def refill(
    plan: Sequence[Source],
    leftovers: Sequence[Group],
    draw: Callable[[Sequence[Source]], Sequence[Group]],
    has_signal: Callable[[Group], bool],
    max_oversampling: float,
) -> Filled:
    """Sample groups in rounds until each slot of `plan` has a group with a signal, or the bound on sampling is reached.

    A slot is the room for one group in the step's batch. It is filled with a group of its own source. If a source reaches its
    bound first, spare groups of other sources fill its slots. Groups are chosen in order, after all completions of a round have
    ended; choosing earlier would favour short completions. The share of groups with a signal so far in this step determines how
    many groups the next round draws.

    Args:
        plan: the source of each slot.
        leftovers: groups left over from the step before. They are used first, marked as off-policy. Those that get no slot
            are dropped, so no group is ever older than one step.
        draw: samples and grades one group for each given source.
        has_signal: returns True if a group has a gradient.
        max_oversampling: the bound: the groups drawn from a source are at most this many times its number of slots.
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
