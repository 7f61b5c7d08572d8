"""Rare successes of earlier steps, each trained on once more: groups that few completions solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.trainer.rng import keyed_random
from verigym.trainer.rollout.collect import Group
from verigym.trainer.rollout.group_json import dump_group, load_group


class Replay:
    """A bounded buffer of whole groups, so that a success keeps the failures it is compared with."""

    def __init__(self, seed: int, *, size: int, below: float, max_age: int) -> None:
        """Make an empty buffer.

        Args:
            seed: key of what is taken.
            size: most groups; the oldest go first.
            below: a group is kept with a pass rate above 0 and at most this.
            max_age: steps after which a group is dropped: the policy that wrote it is too far away.
        """
        self.seed = seed
        self.size, self.below, self.max_age = size, below, max_age
        self.kept: list[tuple[int, Group]] = []

    def take(self, step: int, count: int) -> list[Group]:
        """Remove and return up to `count` groups, chosen by hash, marked as written by an earlier policy."""
        self.kept = [(since, group) for since, group in self.kept if step - since <= self.max_age]
        order = list(range(len(self.kept)))
        chosen = set(keyed_random(self.seed, "replay", step).sample(order, min(count, len(order))))
        taken = [replace(group, off_policy=True) for number, (_, group) in enumerate(self.kept) if number in chosen]
        self.kept = [item for number, item in enumerate(self.kept) if number not in chosen]
        return taken

    def offer(self, step: int, groups: Sequence[Group]) -> None:
        """Keep the rare successes among the groups that this step trains on for the first time."""
        rare = [group for group in groups if not group.canary and 0 < (group.pass_rate or 0) <= self.below]
        self.kept = [*self.kept, *((step, group) for group in rare)][-self.size :]

    def state(self) -> list[Any]:
        """Return what a checkpoint keeps, as JSON."""
        return [[step, dump_group(group)] for step, group in self.kept]

    def restore(self, state: Sequence[Any], environments: Mapping[str, Environment]) -> None:
        """Continue from a checkpoint's state."""
        self.kept = [(step, load_group(group, environments)) for step, group in state]
