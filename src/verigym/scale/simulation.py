"""Discrete-event simulation of a run's training steps: servers decode, workers grade, and learners update the policy.

Every server has its own device, every worker its own core, and the learners their own devices, so none slows another down. The
sequences of a step (rows) are distributed over the servers in turn. A server decodes up to `rows` sequences at a time. When a
sequence ends, the next takes its place, and the completion is graded as soon as a worker is free. The update begins after the
last verdict. The next generation begins when the weights have been pushed; with `overlap: one_step`, it begins together with
the update.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import simpy

from verigym.scale.calibration import Costs
from verigym.trainer.rng import keyed_random


@dataclass(frozen=True)
class Plant:
    """The numbers of servers, grading workers and learners that a simulated run has."""

    servers: int = 1
    """Number of engines or servers that generate; each decodes as fast as the server of the measured run."""
    workers: int = 1
    """Processes that grade."""
    learners: int = 1
    """Number of devices that share an update; each is as fast as the device of the measured run. Communication between them is
    assumed to cost nothing."""
    overlap: bool = False
    """Whether the batch of the next step is sampled while the policy is updated (`overlap: one_step`)."""


@dataclass(frozen=True)
class Prediction:
    """Means over the simulated steps."""

    step_s: float
    generation_s: float
    """From the begin of generation to its last completion."""
    grade_wait_s: float
    """From the last completion to the last verdict."""
    update_s: float
    tokens_per_s: float
    servers_busy: float
    """Share of the time, over all servers."""
    workers_busy: float
    learners_busy: float


def simulate(costs: Costs, plant: Plant, *, completions: int | None = None, steps: int = 40, seed: int = 0) -> Prediction:
    """Simulate `steps` training steps and return the means of their times and loads.

    Args:
        costs: the costs from `calibrate`.
        plant: the number of servers, workers and learners.
        completions: number of completions per step; by default as in the measured run.
        steps: number of steps to average over; one more is simulated first and left out.
        seed: determines all random draws.
    """
    return _Simulation(costs, plant, completions or round(costs.completions), keyed_random("scale", seed)).run(steps)


class _Simulation:
    def __init__(self, costs: Costs, plant: Plant, completions: int, randomness: random.Random) -> None:
        self.costs, self.plant, self.completions = costs, plant, completions
        self.random = randomness
        self.lengths = costs.lengths
        self.times = [verdicts.times for verdicts in costs.verdicts]
        self.shares = [verdicts.share for verdicts in costs.verdicts]
        self.env = simpy.Environment()
        self.workers = simpy.Resource(self.env, plant.workers)
        self.busy = {"servers": 0.0, "workers": 0.0, "learners": 0.0}
        self.spans: dict[str, list[float]] = {"step": [], "generation": [], "wait": [], "update": []}
        self.tokens = 0.0

    def run(self, steps: int) -> Prediction:
        """Return the means of that many steps."""
        self.env.run(self.env.process(self._steps(steps)))
        took = sum(self.spans["step"])
        of = {name: fmean(found) for name, found in self.spans.items()}
        return Prediction(
            step_s=of["step"],
            generation_s=of["generation"],
            grade_wait_s=of["wait"],
            update_s=of["update"],
            tokens_per_s=self.tokens / took,
            servers_busy=self.busy["servers"] / took / self.plant.servers,
            workers_busy=self.busy["workers"] / took / self.plant.workers,
            learners_busy=self.busy["learners"] / took,
        )

    def _steps(self, steps: int) -> Generator[Any, Any, None]:
        batch = self.env.process(self._rollout())
        for step in range(steps + 1):
            if step == 1:  # the first one filled the pipeline
                self.busy = dict.fromkeys(self.busy, 0.0)
                self.spans = {name: [] for name in self.spans}
                self.tokens = 0.0
            begun = self.env.now
            tokens = yield batch
            ahead = self.env.process(self._rollout()) if self.plant.overlap else None
            seconds = (self.costs.update_s + self.costs.trained_token_s * tokens) / self.plant.learners
            yield self.env.timeout(seconds)
            self.busy["learners"] += seconds
            self.spans["update"].append(seconds)
            if ahead is not None:
                yield ahead  # the weights are pushed when both have ended
            yield self.env.timeout(self.costs.rest_s)
            self.tokens += tokens
            self.spans["step"].append(self.env.now - begun)
            batch = ahead or self.env.process(self._rollout())

    def _rollout(self) -> Generator[Any, Any, float]:
        """Generate and grade one batch; returns its tokens."""
        begun = self.env.now
        lengths = [max(1.0, self.lengths.draw(self.random)) for _ in range(self.completions)]
        graded: list[Any] = []
        dealt = [lengths[number :: self.plant.servers] for number in range(self.plant.servers)]
        yield self.env.all_of([self.env.process(self._server(rows, graded)) for rows in dealt if rows])
        generated = self.env.now
        yield self.env.all_of(graded)
        self.spans["generation"].append(generated - begun)
        self.spans["wait"].append(self.env.now - generated)
        return sum(lengths)

    def _server(self, waiting: list[float], graded: list[Any]) -> Generator[Any, Any, None]:
        """Decode the rows, at most `rows` of them at a time."""
        begun, done, queue = self.env.now, 0.0, list(reversed(waiting))
        ends: list[float] = []  # decoding steps, counted from the begin, at which the rows in the batch end
        while queue or ends:
            while queue and len(ends) < self.costs.rows:
                heapq.heappush(ends, done + queue.pop())
            end = heapq.heappop(ends)
            yield self.env.timeout((end - done) * (self.costs.decode_s + self.costs.token_s * (len(ends) + 1)))
            done = end
            graded.append(self.env.process(self._grade()))
        self.busy["servers"] += self.env.now - begun

    def _grade(self) -> Generator[Any, Any, None]:
        [times] = self.random.choices(self.times, self.shares)
        seconds = times.draw(self.random)
        with self.workers.request() as mine:
            yield mine
            yield self.env.timeout(seconds)
            self.busy["workers"] += seconds
