"""The blame rule for workers that die or hang: is the completion or the grader at fault?

The item is tried on two workers. If both die or hang, a control (the prompt's own gold, or a plain answer if there is none) is
graded on a fresh worker under the same limits. If that works, the completion is at fault and gets LIMIT, with the floor reward.
If not, the grader is at fault, and the score is an ERROR. `group_blame.py` applies the rule to groups.

A judge that bounds its own work ends no worker. So a LIMIT of this rule also says in `raised` how the worker ended, as it does
for exceptions, unless the environment is `hardened`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Completion, ErrorKind, Prompt, Raised, Score
from verigym.envs.grading.breaker import Breaker, Trust
from verigym.envs.grading.group_blame import Member, Refused, judged_together
from verigym.envs.grading.judging import is_hardened
from verigym.envs.grading.process import Died, NeverStarts, WorkerStartError
from verigym.envs.grading.stats import StatsCounter, ThrottledLog
from verigym.envs.grading.workers import Worker

TRIES = 2
RETRY_START_S = 5.0
# A machine short of memory, files or processes for a moment (OSError) should not cost an item.
START_PAUSES_S = (0.3, 1.0)


@dataclass(frozen=True)
class Verdict:
    """Result of grading an item or a group: one score per completion, whether to cache them, and whether to try again."""

    scores: list[Score]
    cacheable: bool = False
    """Whether the scores may be cached: only if the environment gave them. A LIMIT that the kill rule gave is not cached, since
    it depends on this run's limits of time and memory."""
    final: bool = True
    """Whether another try would be pointless now."""


@dataclass(frozen=True)
class _Scene:
    worker: Worker
    environment: Environment
    prompt: Prompt
    breaker: Breaker
    count: int
    """Completions to be judged."""

    def failed(self, kind: ErrorKind, message: str, *, final: bool = True) -> Verdict:
        """Return an ERROR for each completion."""
        return Verdict([Score.failed(kind, message, retryable=True)] * self.count, final=final)


class KillRule:
    """Judges items on workers that may die."""

    def __init__(self, counter: StatsCounter, log: ThrottledLog, closing: Callable[[], bool]) -> None:
        self._counter = counter
        self._log = log
        self._closing = closing
        self._start_failure: tuple[float, str] | None = None

    def judge(
        self,
        worker: Worker,
        environment: Environment,
        prompt: Prompt,
        completions: Sequence[Completion],
        breaker: Breaker,
        *,
        together: bool = False,
    ) -> Verdict:
        """Return the verdict on one item, or on a group if `together` is True, even if the worker dies or hangs.

        Raises:
            NeverStarts: no worker can be started for any item.
        """
        scene = _Scene(worker, environment, prompt, breaker, len(completions))
        failure = self._start_failure
        if failure is not None and not worker.running and time.monotonic() - failure[0] < RETRY_START_S:
            return scene.failed("unavailable", failure[1], final=False)
        for pause_s in (*START_PAUSES_S, None):
            try:
                verdict = self._trusted(scene) or (
                    self._judge_group(scene, completions) if together else self._judge(scene, completions[0])
                )
            except NeverStarts:
                raise
            except WorkerStartError as error:
                if self._closing():
                    break
                self._log.warn(environment.name, "start", str(error))
                if pause_s is None or not isinstance(error.__cause__, OSError):
                    self._start_failure = (time.monotonic(), str(error))
                    return scene.failed("unavailable", str(error), final=False)
                time.sleep(pause_s)
            else:
                self._start_failure = None
                return verdict
        return scene.failed("unavailable", "the grader was closed")

    def _trusted(self, scene: _Scene) -> Verdict | None:
        """Return None where the environment may grade, else the verdict without asking it."""
        trust = scene.breaker.admit(scene.prompt.key)
        if trust is Trust.REFUSE:
            kind, why = scene.breaker.last_failure
            message = f"{scene.environment.name} is not asked for a while: its control items end workers ({why})"
            return scene.failed(kind, message)
        if trust is Trust.CONTROL_FIRST:
            control = self._ask(scene, None)
            if isinstance(control, Died):
                return self._broken(scene, control)
            scene.breaker.passed()
        return None

    def _judge(self, scene: _Scene, completion: Completion) -> Verdict:
        deaths: list[Died] = []
        while len(deaths) < TRIES:
            start = time.perf_counter()
            reply = self._ask(scene, completion)
            if isinstance(reply, Score):
                scene.breaker.passed()
                return Verdict([reply], cacheable=True, final=False)
            deaths.append(reply)
        seconds = time.perf_counter() - start
        control = self._ask(scene, None)
        if isinstance(control, Died):
            return self._broken(scene, control)
        scene.breaker.passed()
        if not control.scored:
            message = f"{deaths[-1].why}, twice; the control item got no score either: {control.reason}"
            return scene.failed(deaths[-1].kind, message, final=False)
        reason = f"grading it twice ended its worker: {deaths[-1].why}; a control item was graded well"
        score = Score.limit(reward=scene.environment.reward_range[0], reason=reason)
        return Verdict([score.model_copy(update={"seconds": seconds, "raised": _raised(deaths[-1], scene.environment)})])

    def _judge_group(self, scene: _Scene, completions: Sequence[Completion]) -> Verdict:
        deaths: list[Died] = []
        controls: list[list[Score] | Died] = []

        def ask(group: Sequence[Member]) -> list[Score] | Refused:
            reply = scene.worker.ask_group(scene.environment, scene.prompt, group)
            if group[0] is None:
                controls.append(reply)
            if isinstance(reply, list):
                return reply
            self._died(scene, reply, f"a group of prompt {scene.prompt.key}")
            deaths.append(reply)
            return Refused(reply.kind, reply.why, _raised(reply, scene.environment))

        scores = judged_together(ask, completions, scene.environment.reward_range[0])
        if controls and isinstance(controls[0], Died):
            return self._broken(scene, controls[0])
        scene.breaker.passed()
        grader = scene.environment.grader
        stamped = [score if score.grader else score.model_copy(update={"grader": grader}) for score in scores]
        return Verdict(stamped, cacheable=not deaths, final=False)

    def _ask(self, scene: _Scene, completion: Completion | None) -> Score | Died:
        reply = scene.worker.ask(scene.environment, scene.prompt, completion)
        if isinstance(reply, Died):
            self._died(scene, reply, "a control item" if completion is None else f"an item of prompt {scene.prompt.key}")
        return reply

    def _died(self, scene: _Scene, died: Died, what: str) -> None:
        if self._closing():
            raise WorkerStartError("the grader was closed")
        self._counter.add("worker_deaths")
        self._log.warn(scene.environment.name, died.kind, f"{died.why} while grading {what}; a new worker tries again")

    def _broken(self, scene: _Scene, died: Died) -> Verdict:
        pause = scene.breaker.failed(died.kind, died.why, scene.prompt.key)
        message = f"{scene.environment.name}: a control item ended its worker too: {died.why}"
        if pause is not None:
            self._log.warn(scene.environment.name, "broken", f"declared broken for {pause:g} s: {died.why}")
        return scene.failed(died.kind, message, final=pause is not None)


def _raised(died: Died, environment: Environment) -> Raised | None:
    if is_hardened(environment):
        return None
    name = "WorkerTimeout" if died.kind == "timeout" else "WorkerCrash"
    return Raised(error=f"{name}: {died.why}", place=f"judge of {environment.name}")
