"""Simulates runs with different numbers of servers and workers, and finds the smallest number of workers that is enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from verigym.scale.calibration import Costs
from verigym.scale.simulation import Plant, Prediction, simulate

ENOUGH = 1.05
"""Workers are enough if a step takes at most this many times as long as with one worker per completion."""
MOST_WORKERS = 4096


@dataclass(frozen=True)
class Plan:
    """A number of servers, grading workers and learners, with the times of a step predicted for it."""

    plant: Plant
    completions: int
    prediction: Prediction

    @property
    def bound(self) -> str:
        """The phase that takes the largest part of a step's time: `generation`, `grading` or `update`."""
        of = self.prediction
        parts = {"generation": of.generation_s, "grading": of.grade_wait_s, "update": of.update_s}
        return max(parts, key=lambda name: parts[name])

    def figures(self) -> dict[str, Any]:
        """Return the allocation and all predicted figures as a dictionary for JSON."""
        return {**asdict(self.plant), "completions": self.completions, **asdict(self.prediction), "bound": self.bound}


def plan(costs: Costs, plant: Plant, completions: int | None = None) -> Plan:
    """Simulate steps with the servers, workers and learners of `plant`, and return the prediction as a plan.

    `completions` is the number of completions per step, see `simulate`.
    """
    count = completions or round(costs.completions)
    return Plan(plant, count, simulate(costs, plant, completions=count))


def grid(
    costs: Costs, servers: Iterable[int], workers: Iterable[int], overlap: Sequence[bool], completions: int | None = None
) -> list[Plan]:
    """Return a plan for each combination of `servers`, `workers` and `overlap`, with one learner."""
    return [plan(costs, Plant(s, w, 1, o), completions) for s, w, o in product(servers, workers, overlap)]


def fewest_workers(costs: Costs, plant: Plant, completions: int | None = None) -> Plan:
    """Return the plan with the fewest grading workers that are enough.

    They are enough if a step takes at most `ENOUGH` times as long as with one worker per completion.

    Args:
        costs: the costs from `calibrate`.
        plant: the allocation; its `workers` are ignored.
        completions: number of completions per step, see `simulate`.
    """

    def with_workers(count: int) -> Plan:
        return plan(costs, Plant(plant.servers, count, plant.learners, plant.overlap), completions)

    most = min(MOST_WORKERS, max(1, completions or round(costs.completions)))
    best = with_workers(most)
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if with_workers(middle).prediction.step_s <= ENOUGH * best.prediction.step_s:
            high = middle
        else:
            low = middle + 1
    return with_workers(low)


def split(costs: Costs, gpus: int, overlap: bool, completions: int | None = None) -> list[Plan]:
    """Return a plan for each way to divide `gpus` GPUs into servers and learners.

    Each plan has the number of workers that `fewest_workers` finds. With a single GPU, server and learner take turns on it.
    """
    if gpus == 1:
        return [fewest_workers(costs, Plant(overlap=False), completions)]
    return [fewest_workers(costs, Plant(s, 1, gpus - s, overlap), completions) for s in range(1, gpus)]
