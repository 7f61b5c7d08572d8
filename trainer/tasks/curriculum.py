"""Which known task comes again: tasks in pools by their running pass rate. A function of the seed and of what was observed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from verigym.trainer.rng import keyed_random

POOLS = ("easy", "normal", "hard")
ENDLESS_POOL = 10_000
"""Most easy, and most hard, tasks that are remembered of a source that never runs out of new ones; about 50 bytes each in a
checkpoint. What a data set can fill has its own bound."""

Pool = dict[str, tuple[int, float | None]]
"""By prompt key: the task's number and its running pass rate. In the order in which they were seen last, oldest first."""


class Curriculum:
    """Pools of each source's tasks. A new task is normal until its first verdicts."""

    def __init__(
        self,
        labels: Sequence[str],
        seed: int,
        *,
        hard_share: float,
        easy_share: float,
        hard_below: float,
        easy_above: float,
        endless: Collection[str] = (),
    ) -> None:
        """Make empty pools.

        Args:
            labels: the sources.
            seed: key of the choice between pools.
            hard_share: share of a source's draws that go to its hard pool, while there are hard tasks.
            easy_share: the same for the easy pool.
            hard_below: highest pass rate of a hard task.
            easy_above: least pass rate of an easy task.
            endless: sources that hardly ever give a task twice: nothing asks again for what is known of a normal one.
        """
        self.seed = seed
        self.hard_share, self.easy_share = hard_share, easy_share
        self.hard_below, self.easy_above = hard_below, easy_above
        self.endless = endless
        self.turns = dict.fromkeys(labels, 0)
        self.asked: dict[str, set[str]] = {label: set() for label in labels}
        self.pools: dict[str, dict[str, Pool]] = {label: {pool: {} for pool in POOLS} for label in labels}

    def next_step(self) -> None:
        """Begin a step: each task may be asked once more. A checkpoint between steps keeps nothing of this."""
        for label, asked in self.asked.items():
            asked.clear()
            if label in self.endless:
                self.pools[label]["normal"].clear()
                for name in ("easy", "hard"):
                    pool = self.pools[label][name]
                    for key in list(pool)[: max(0, len(pool) - ENDLESS_POOL)]:
                        del pool[key]

    def revisit(self, label: str) -> int | None:
        """Return the number of a task to ask again, the one that has waited longest; None for the next one in order.

        No task is asked twice in a step.
        """
        turn = self.turns[label]
        self.turns[label] += 1
        draw = keyed_random(self.seed, "curriculum", label, turn).random()
        if draw >= self.hard_share + self.easy_share:
            return None
        pool = self.pools[label]["hard" if draw < self.hard_share else "easy"]
        key = next((key for key in pool if key not in self.asked[label]), None)
        if key is None:
            return None
        self.asked[label].add(key)
        pool[key] = pool.pop(key)  # to the end
        return pool[key][0]

    def is_normal(self, label: str, key: str) -> bool:
        """Whether a task is new, or neither easy nor hard."""
        return key not in self.pools[label]["easy"] and key not in self.pools[label]["hard"]

    def drew(self, label: str, key: str, index: int) -> None:
        """Remember under which number a task was drawn, and that this step asks it."""
        self.asked[label].add(key)
        if self.is_normal(label, key):
            self.pools[label]["normal"].setdefault(key, (index, None))

    def observe(self, label: str, key: str, rate: float) -> None:
        """Move a drawn task by its new pass rate: the running one is the mean of what it was and the newest."""
        pools = self.pools[label]
        index, before = next(pool.pop(key) for pool in pools.values() if key in pool)
        rate = rate if before is None else (before + rate) / 2
        name = "hard" if rate <= self.hard_below else "easy" if rate >= self.easy_above else "normal"
        pools[name][key] = (index, rate)

    def metrics(self) -> dict[str, float]:
        """Return how many tasks are in the easy and in the hard pools."""
        return {
            f"curriculum_{name}": float(sum(len(pools[name]) for pools in self.pools.values())) for name in ("easy", "hard")
        }

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON."""
        pools = {
            label: {name: [[key, *task] for key, task in pool.items()] for name, pool in pools.items()}
            for label, pools in self.pools.items()
        }
        return {"turns": dict(self.turns), "pools": pools}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint's state."""
        self.turns = dict(state["turns"])
        self.pools = {
            label: {name: {key: (index, rate) for key, index, rate in pool} for name, pool in pools.items()}
            for label, pools in state["pools"].items()
        }
