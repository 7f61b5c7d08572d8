"""`Sessions`: episodes in worker processes, by futures."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import JsonValue

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Prompt, Turn
from verigym.envs.contract.session import opens_sessions
from verigym.envs.grading.closing import close_at_the_end
from verigym.envs.grading.grader import MAX_DEFAULT_WORKERS, by_name
from verigym.envs.grading.process import WorkerStartError, refuse_in_a_worker
from verigym.envs.sessions.answers import Answer
from verigym.envs.sessions.engine import Engine, cannot_start
from verigym.envs.sessions.owner import Job, Owner
from verigym.envs.sessions.record import EpisodeRecord, played_before
from verigym.envs.sessions.replay import closed
from verigym.envs.sessions.stats import SessionStats
from verigym.envs.sessions.workers import Limits
from verigym.sandbox.cores import usable_cores

T = TypeVar("T")


class Sessions:
    """Runs episodes in worker processes. Each episode stays with one worker, and each turn has a time limit.

    A worker's failure is never charged to another episode. A worker that dies, hangs or breaks the protocol is replaced, and
    its episodes are replayed on the new worker from their recorded turns; `replay.py` says which turn is blamed.

    Args:
        environments: the environments by name, each with episodes. A prompt names its environment.
        workers: number of processes that hold sessions, started when first needed; by default one per usable core, at most 8.
            With 0, sessions run in one thread of this process: this needs no start-up and no pickling, but a session that
            hangs cannot be stopped.
        timeout_s: seconds of wall time that a session may take to open, to answer a turn or to close, counted from when its
            worker begins.
        memory_bytes: limit of a worker's address space; None for no limit.
        idle_s: seconds after which an unused session is closed. The next turn replays it.
        start_timeout_s: seconds of wall time that a worker may take to start.

    Raises:
        UsageError: an environment has no episodes, or an argument is invalid.
    """

    def __init__(
        self,
        environments: Mapping[str, Environment],
        *,
        workers: int | None = None,
        timeout_s: float = 30.0,
        memory_bytes: int | None = 4 * 2**30,
        idle_s: float = 3600.0,
        start_timeout_s: float = 60.0,
    ) -> None:
        self._environments = by_name(environments)
        for name, environment in self._environments.items():
            if not opens_sessions(environment):
                hint = "give it tools, ToolEnvironment(env, tools=[...])"
                raise UsageError(f"environments: {name!r} has no episodes (no `open`): {hint}")
        if workers is None:
            workers = min(usable_cores(), MAX_DEFAULT_WORKERS)
        if workers < 0:
            raise UsageError(f"workers={workers}: expected 0 or more")
        for what, value in (("timeout_s", timeout_s), ("idle_s", idle_s), ("start_timeout_s", start_timeout_s)):
            if not value > 0:
                raise UsageError(f"{what}={value}: expected a positive number of seconds")
        if memory_bytes is not None and memory_bytes <= 0:
            raise UsageError(f"memory_bytes={memory_bytes}: expected more than 0")
        self._workers = workers
        self._engine = Engine(self._environments, workers, Limits(timeout_s, memory_bytes, idle_s, start_timeout_s))
        self._close = close_at_the_end(self, self._engine)

    @property
    def stats(self) -> SessionStats:
        """The counters as they are now."""
        return self._engine.counters.snapshot()

    def start(self) -> None:
        """Start all workers now, instead of when first needed, and wait until they are ready.

        Raises:
            UsageError: a worker cannot be started; the message says why and what to do.
        """
        if self._workers:
            refuse_in_a_worker()
        try:
            self._engine.start()
        except WorkerStartError as error:
            raise cannot_start(error) from None

    def open(self, prompt: Prompt, seed: str, *, turns: Sequence[Turn] = ()) -> Episode:
        """Begin an episode and return it at once. A worker opens its session in the background.

        Args:
            prompt: a task of one of the environments.
            seed: any text that names the episode; the session's random numbers are derived from it.
            turns: recorded turns of a saved episode that has not ended (`Completion.turns`). They are replayed, and the episode
                goes on from there.

        Raises:
            UsageError: no environment has the name in `prompt.environment`, `turns` is not the beginning of an unfinished
                episode, or these sessions are closed or can never start.
        """
        if not isinstance(prompt, Prompt):
            raise TypeError(f"an episode is opened for a Prompt, not for {type(prompt).__name__}")
        if prompt.environment not in self._environments:
            raise UsageError(
                f"the prompt is for environment {prompt.environment!r}, which these sessions do not have"
                f"{did_you_mean(prompt.environment, self._environments)}"
            )
        if self._workers:  # here and not when they are made, which a script may do as it is imported
            refuse_in_a_worker()
        return Episode(self, *self._engine.open(prompt, seed, played_before(turns)))

    def close(self) -> None:
        """End the workers. A worker in the middle of a turn is killed; others get a moment to close their sessions. Idempotent.

        Every unfinished future raises EnvironmentFailure.
        """
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _submit(self, owner: Owner, job: Job) -> None:
        if not self._engine.submit(owner, job) and job.future is not None:
            job.future.set_exception(closed())


class Episode:
    """An episode, made by `Sessions.open`. When the object is garbage-collected, its session is closed."""

    def __init__(self, sessions: Sessions, owner: Owner, record: EpisodeRecord) -> None:
        self._sessions, self._owner, self._record = sessions, owner, record
        # What is collected is collected anywhere, so nothing may block there.
        weakref.finalize(self, owner.put, Job("forget", record)).atexit = False

    def turn(self, text: str) -> Future[Answer]:
        """Pass `text`, which the model wrote, to the session and return a future of its answer. Turns are answered in order.

        The future raises EnvironmentFailure if our side fails; the episode then has no reward. It raises `SessionLimit` if the
        turn brought its session down; the episode then ends with the finish reason `limit` and scores the floor. After either
        error, or after the last reply, the episode is over: a further turn raises the same error again, or UsageError.
        """
        if not isinstance(text, str):
            raise TypeError(f"a turn is the assistant's next text, not {type(text).__name__}")
        return self._do(Job("turn", self._record, Future(), text))

    def end(self) -> Future[Mapping[str, JsonValue]]:
        """Close the session and return a future of its outcome. Idempotent, also after the last reply.

        If an earlier turn failed, the future raises that turn's error. The exception is a session that was still closed in
        order after the error: the future then has its outcome.
        """
        return self._do(Job("end", self._record, Future()))

    def _do(self, job: Job) -> Future[Any]:
        future = job.future
        assert future is not None
        future.episode = self  # type: ignore[attr-defined]  # one that is dropped in between still gets its answer
        self._sessions._submit(self._owner, job)
        return future
