"""Curriculum: sorts tasks into easy, normal and hard by running pass rate, and repeats easy and hard tasks at set shares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from verigym.trainer.rng import keyed_random

POOLS = ("easy", "normal", "hard")
ENDLESS_POOL = 10_000
"""Largest number of tasks in the easy pool, and in the hard pool, of a source with endless tasks. Each task takes about 50
bytes in a checkpoint. The pools of a data set are bounded by the size of the data set."""

Pool = dict[str, tuple[int, float | None]]
"""Tasks of a pool, the least recently sampled first: prompt key -> (task number, running pass rate). The rate is None until the
task has a verdict."""


class Curriculum:
    """Decides when tasks are repeated, by the policy's pass rates on them. It depends on the seed and these rates alone.

    Each source has pools of easy, normal and hard tasks. A new task is normal until it has verdicts.
    """

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
        """Start with empty pools.

        Args:
            labels: labels of the sources.
            seed: seed of the choice between pools.
            hard_share: share of a source's draws that are from its hard pool, as long as the pool is not empty.
            easy_share: share of a source's draws that are from its easy pool, as long as the pool is not empty.
            hard_below: highest pass rate of a hard task.
            easy_above: lowest pass rate of an easy task.
            endless: sources that hardly ever repeat a task, so that their normal tasks need not be remembered.
        """
        self.seed = seed
        self.hard_share, self.easy_share = hard_share, easy_share
        self.hard_below, self.easy_above = hard_below, easy_above
        self.endless = endless
        self.turns = dict.fromkeys(labels, 0)
        self.sampled: dict[str, set[str]] = {label: set() for label in labels}
        self.pools: dict[str, dict[str, Pool]] = {label: {pool: {} for pool in POOLS} for label in labels}

    def next_step(self) -> None:
        """Begin a step: forget which tasks the last step sampled, so that each may be sampled again.

        Checkpoints do not contain which tasks a step has sampled.
        """
        for label, sampled in self.sampled.items():
            sampled.clear()
            if label in self.endless:
                self.pools[label]["normal"].clear()
                for name in ("easy", "hard"):
                    pool = self.pools[label][name]
                    for key in list(pool)[: max(0, len(pool) - ENDLESS_POOL)]:
                        del pool[key]

    def revisit(self, label: str) -> int | None:
        """Decide at random whether to repeat a task of the source `label`; return its number, or None to draw a new task.

        To repeat a task, choose the easy or the hard pool at random. Tasks that this step has sampled already are passed over;
        of the others in the pool, the one sampled longest ago is repeated.
        """
        turn = self.turns[label]
        self.turns[label] += 1
        draw = keyed_random(self.seed, "curriculum", label, turn).random()
        if draw >= self.hard_share + self.easy_share:
            return None
        pool = self.pools[label]["hard" if draw < self.hard_share else "easy"]
        key = next((key for key in pool if key not in self.sampled[label]), None)
        if key is None:
            return None
        self.sampled[label].add(key)
        pool[key] = pool.pop(key)  # to the end
        return pool[key][0]

    def is_normal(self, label: str, key: str) -> bool:
        """Return True if the task `key` of the source `label` is new, or neither easy nor hard."""
        return key not in self.pools[label]["easy"] and key not in self.pools[label]["hard"]

    def drew(self, label: str, key: str, index: int) -> None:
        """Record that this step samples the task `key` of the source `label`, and that the task's number is `index`."""
        self.sampled[label].add(key)
        if self.is_normal(label, key):
            self.pools[label]["normal"].setdefault(key, (index, None))

    def observe(self, label: str, key: str, rate: float) -> None:
        """Update the pass rate of a task, and move the task to the pool that fits.

        The task's running pass rate becomes the mean of its previous value and the new `rate`.
        """
        pools = self.pools[label]
        index, before = next(pool.pop(key) for pool in pools.values() if key in pool)
        rate = rate if before is None else (before + rate) / 2
        name = "hard" if rate <= self.hard_below else "easy" if rate >= self.easy_above else "normal"
        pools[name][key] = (index, rate)

    def metrics(self) -> dict[str, float]:
        """Return the numbers of tasks in the easy and in the hard pools, as metrics."""
        return {
            f"curriculum_{name}": float(sum(len(pools[name]) for pools in self.pools.values())) for name in ("easy", "hard")
        }

    def state(self) -> dict[str, Any]:
        """Return the pools for a checkpoint, as JSON data."""
        pools = {
            label: {name: [[key, *task] for key, task in pool.items()] for name, pool in pools.items()}
            for label, pools in self.pools.items()
        }
        return {"turns": dict(self.turns), "pools": pools}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, which a checkpoint holds."""
        self.turns = dict(state["turns"])
        self.pools = {
            label: {name: {key: (index, rate) for key, index, rate in pool} for name, pool in pools.items()}
            for label, pools in state["pools"].items()
        }
