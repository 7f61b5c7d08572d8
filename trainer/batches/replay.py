"""Replay: groups of earlier steps in which few completions succeeded; each group is trained on once more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.trainer.rng import keyed_random
from verigym.trainer.rollout.collect import Group
from verigym.trainer.rollout.group_json import dump_group, load_group


class Replay:
    """Buffer of groups with rare successes from earlier steps; each group is trained on once more.

    It has a maximum size. Groups are stored complete, because the advantage of a success depends on the failures of its group.
    """

    def __init__(self, seed: int, *, size: int, below: float, max_age: int) -> None:
        """Make an empty buffer.

        Args:
            seed: keys the random choice of groups.
            size: largest number of groups in the buffer; the oldest are dropped first.
            below: only groups with a pass rate above 0 and at most `below` are added.
            max_age: number of steps after which a group is dropped, because the policy has changed too much since then.
        """
        self.seed = seed
        self.size, self.below, self.max_age = size, below, max_age
        self.kept: list[tuple[int, Group]] = []

    def take(self, step: int, count: int) -> list[Group]:
        """Remove up to `count` groups from the buffer and return them, marked as off-policy.

        Groups that are too old are dropped first. The choice is random, keyed by the seed and `step`.
        """
        self.kept = [(since, group) for since, group in self.kept if step - since <= self.max_age]
        order = list(range(len(self.kept)))
        chosen = set(keyed_random(self.seed, "replay", step).sample(order, min(count, len(order))))
        taken = [replace(group, off_policy=True) for number, (_, group) in enumerate(self.kept) if number in chosen]
        self.kept = [item for number, item in enumerate(self.kept) if number not in chosen]
        return taken

    def offer(self, step: int, groups: Sequence[Group]) -> None:
        """Add to the buffer those of `groups` in which at least one completion succeeded, but only few did.

        Args:
            step: number of the step that trains on `groups` for the first time; the age of the groups is counted from it.
            groups: the fresh groups of that step.
        """
        rare = [group for group in groups if not group.canary and 0 < (group.pass_rate or 0) <= self.below]
        self.kept = [*self.kept, *((step, group) for group in rare)][-self.size :]

    def state(self) -> list[Any]:
        """Return the buffer for a checkpoint, as JSON data."""
        return [[step, dump_group(group)] for step, group in self.kept]

    def restore(self, state: Sequence[Any], environments: Mapping[str, Environment]) -> None:
        """Restore the buffer from `state`, which a checkpoint holds.

        `environments` maps each source's label to its environment.
        """
        self.kept = [(step, load_group(group, environments)) for step, group in state]
