"""The blame rule for killed workers: who is at fault when grading an item takes its worker down?

The item is tried on two workers. If both die, a control item (the prompt's own gold, else an empty completion) is
graded on a fresh worker under the same limits. If that works, the submission did it: LIMIT, the floor. If not, we did:
ERROR.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from verigym.envs.base import Environment
from verigym.envs.grading.breaker import Breaker, Trust
from verigym.envs.grading.stats import StatsCounter, ThrottledLog
from verigym.envs.grading.workers import Died, Worker, WorkerStartError
from verigym.envs.schema import Completion, Prompt, Score

TRIES = 2
RETRY_START_S = 5.0
# A machine short of memory, files or processes for a moment (OSError) should not cost an item.
START_PAUSES_S = (0.3, 1.0)


@dataclass(frozen=True)
class Verdict:
    """A score, and what may be done with it."""

    score: Score
    cacheable: bool = False
    """Whether it is the environment's own; a LIMIT of this rule depends on the limits of this run too."""
    final: bool = True
    """Whether another try would be pointless now."""


@dataclass(frozen=True)
class _Scene:
    worker: Worker
    environment: Environment
    prompt: Prompt
    breaker: Breaker


class KillRule:
    """Judges items on workers that may die."""

    def __init__(self, counter: StatsCounter, log: ThrottledLog, closing: Callable[[], bool]) -> None:
        self._counter = counter
        self._log = log
        self._closing = closing
        self._start_failure: tuple[float, str] | None = None

    def judge(
        self, worker: Worker, environment: Environment, prompt: Prompt, completion: Completion, breaker: Breaker
    ) -> Verdict:
        """Return the verdict on one item; never raises for what a worker does."""
        scene = _Scene(worker, environment, prompt, breaker)
        failure = self._start_failure
        if failure is not None and not worker.running and time.monotonic() - failure[0] < RETRY_START_S:
            return Verdict(Score.failed("unavailable", failure[1], retryable=True), final=False)
        for pause_s in (*START_PAUSES_S, None):
            try:
                verdict = self._judge(scene, completion)
            except WorkerStartError as error:
                if self._closing():
                    break
                self._log.warn(environment.name, "start", str(error))
                if pause_s is None or not isinstance(error.__cause__, OSError):
                    self._start_failure = (time.monotonic(), str(error))
                    return Verdict(Score.failed("unavailable", str(error), retryable=True), final=False)
                time.sleep(pause_s)
            else:
                self._start_failure = None
                return verdict
        return Verdict(Score.failed("unavailable", "the grader was closed", retryable=True))

    def _judge(self, scene: _Scene, completion: Completion) -> Verdict:
        trust = scene.breaker.admit(scene.prompt.key)
        if trust is Trust.REFUSE:
            kind, why = scene.breaker.last_failure
            message = f"{scene.environment.name} is not asked for a while: its control items end workers ({why})"
            return Verdict(Score.failed(kind, message, retryable=True))
        if trust is Trust.CONTROL_FIRST:
            control = self._ask(scene, None)
            if isinstance(control, Died):
                return self._broken(scene, control)
            scene.breaker.passed()
        deaths: list[Died] = []
        while len(deaths) < TRIES:
            start = time.perf_counter()
            reply = self._ask(scene, completion)
            if isinstance(reply, Score):
                scene.breaker.passed()
                return Verdict(reply, cacheable=True, final=False)
            deaths.append(reply)
        seconds = time.perf_counter() - start
        control = self._ask(scene, None)
        if isinstance(control, Died):
            return self._broken(scene, control)
        scene.breaker.passed()
        if not control.scored:
            message = f"{deaths[-1].why}, twice; the control item got no score either: {control.reason}"
            return Verdict(Score.failed(deaths[-1].kind, message, retryable=True), final=False)
        reason = f"grading it twice ended its worker: {deaths[-1].why}; a control item was graded well"
        score = Score.limit(reward=scene.environment.reward_range[0], reason=reason)
        return Verdict(score.model_copy(update={"seconds": seconds}))

    def _ask(self, scene: _Scene, completion: Completion | None) -> Score | Died:
        reply = scene.worker.ask(scene.environment, scene.prompt, completion)
        if isinstance(reply, Died):
            if self._closing():
                raise WorkerStartError("the grader was closed")
            self._counter.add("worker_deaths")
            what = "a control item" if completion is None else f"an item of prompt {scene.prompt.key}"
            self._log.warn(scene.environment.name, reply.kind, f"{reply.why} while grading {what}")
        return reply

    def _broken(self, scene: _Scene, died: Died) -> Verdict:
        pause = scene.breaker.failed(died.kind, died.why, scene.prompt.key)
        message = f"{scene.environment.name}: a control item ended its worker too: {died.why}"
        if pause is not None:
            self._log.warn(scene.environment.name, "broken", f"declared broken for {pause:g} s: {died.why}")
        return Verdict(Score.failed(died.kind, message, retryable=True), final=pause is not None)
