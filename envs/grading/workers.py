"""Workers of a grader: each returns a score, or how its process died."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.grading.child import serve
from verigym.envs.grading.judging import control_one, judge_group, judge_one
from verigym.envs.grading.process import ChildProcess, Died, malformed


@dataclass(frozen=True)
class Limits:
    """Limits of one item and of a worker."""

    timeout_s: float
    memory_bytes: int | None
    start_timeout_s: float
    threads: int = 1
    """Threads that numerical libraries such as torch start in a worker."""


class Worker(Protocol):
    """Interface of a worker."""

    @property
    def running(self) -> bool:
        """Whether it can answer without being started."""

    def start(self) -> None:
        """Make the worker ready to answer. Raise WorkerStartError if that fails."""

    def ask(self, environment: Environment, prompt: Prompt, completion: Completion | None) -> Score | Died:
        """Judge one completion, or the control item when it is None."""

    def ask_group(
        self, environment: Environment, prompt: Prompt, completions: Sequence[Completion | None]
    ) -> list[Score] | Died:
        """Return the scores of the completions of one prompt, judged together.

        A completion of None stands for the control item.
        """

    def kill(self) -> None:
        """End it at once; may be called from any thread."""

    def stop(self) -> None:
        """End it and leave nothing behind."""


class InProcessWorker:
    """Judges in the calling thread. It needs no start-up, but a hanging environment cannot be stopped."""

    running = True

    def start(self) -> None:
        """Nothing to start."""

    def ask(self, environment: Environment, prompt: Prompt, completion: Completion | None) -> Score | Died:
        """Judge here."""
        if completion is None:
            return control_one(environment, prompt)
        return judge_one(environment, prompt, completion)

    def ask_group(
        self, environment: Environment, prompt: Prompt, completions: Sequence[Completion | None]
    ) -> list[Score] | Died:
        """Judge here."""
        return judge_group(environment, prompt, completions)

    def kill(self) -> None:
        """Nothing to kill."""

    def stop(self) -> None:
        """Nothing to stop."""


class ProcessWorker:
    """A worker process, started at the first item and again after each death.

    One thread owns it; any thread may call `kill`.
    """

    def __init__(self, environments: Mapping[str, Environment], limits: Limits) -> None:
        self._limits = limits
        self._child = ChildProcess(
            serve, (dict(environments), limits.memory_bytes), limits.start_timeout_s, threads=limits.threads
        )

    @property
    def running(self) -> bool:
        """Whether it can answer without being started."""
        return self._child.running

    def start(self) -> None:
        """Start the process and wait until it reports that it is ready.

        Raises:
            WorkerStartError: it cannot be started, died while starting, or took longer than `start_timeout_s`.
        """
        self._child.start()

    def ask(self, environment: Environment, prompt: Prompt, completion: Completion | None) -> Score | Died:
        """Return the score that the process gives to `completion`.

        A completion of None stands for the control item. If no valid answer comes within the time limit, the process is ended
        and `Died` is returned.
        """
        scores = self._exchange(environment, prompt, [completion], together=False)
        return scores if isinstance(scores, Died) else scores[0]

    def ask_group(
        self, environment: Environment, prompt: Prompt, completions: Sequence[Completion | None]
    ) -> list[Score] | Died:
        """Have a group judged in the process, and return the scores. The time limit is that of an item times the group size."""
        return self._exchange(environment, prompt, completions, together=True)

    def _exchange(
        self, environment: Environment, prompt: Prompt, completions: Sequence[Completion | None], *, together: bool
    ) -> list[Score] | Died:
        request = {
            "environment": environment.name,
            "prompt": prompt.model_dump(mode="json"),
            "completions": [None if one is None else one.model_dump(mode="json") for one in completions],
            "together": together,
        }
        try:
            reply = self._child.exchange(request, self._limits.timeout_s * len(completions))
        except ValueError as error:
            return [Score.failed("protocol", f"the item cannot be sent to a worker: {describe(error)}")] * len(completions)
        if isinstance(reply, Died):
            return reply
        try:
            scores = [Score.model_validate(score) for score in reply["scores"]]
            if len(scores) != len(completions):
                raise ValueError(f"it sent {len(scores)} verdicts on {len(completions)} completions")
            retire = reply["retire"] is True
        except (ValueError, LookupError, TypeError) as error:
            self.stop()
            return malformed(error)
        if retire:
            self.stop()
        return scores

    def kill(self) -> None:
        """Kill the process and all processes that it started. The owning thread must still call `stop`, which reaps it."""
        self._child.kill()

    def stop(self) -> None:
        """Kill, reap and close."""
        self._child.stop()
