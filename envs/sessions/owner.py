"""The thread that owns a worker: serves the turns of its episodes in order of arrival, and closes sessions that are idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Literal

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.grading.process import NeverStarts
from verigym.envs.sessions.answers import SessionLimit
from verigym.envs.sessions.record import EpisodeRecord
from verigym.envs.sessions.replay import Player, closed
from verigym.envs.sessions.stats import Counters
from verigym.envs.sessions.workers import Worker

GRACE_S = 2.0
"""Time in which a worker that is not in the middle of a turn may close its sessions before it is killed."""
_LONGEST_S = threading.TIMEOUT_MAX


@dataclass
class Job:
    """An action to perform for an episode. `forget` closes the episode's session and reports no result."""

    do: Literal["open", "turn", "end", "forget"]
    record: EpisodeRecord
    future: Future[Any] | None = None
    text: str = ""


class Owner:
    """One worker and the thread that owns it.

    Args:
        worker: the worker, started when first needed. Its process must not outlive this thread: the kernel then kills it.
        player: plays episodes on the worker.
        counters: counts of how episodes ended.
        idle_s: seconds after which an unused session is closed.
        over: called with this owner when one of its episodes is over.
        unusable: called with the error when no worker can ever be started; returns the exception that callers get.
    """

    def __init__(
        self,
        worker: Worker,
        player: Player,
        counters: Counters,
        idle_s: float,
        over: Callable[[Owner], None],
        unusable: Callable[[Exception], UsageError],
    ) -> None:
        self._worker, self._player, self._counters = worker, player, counters
        self._idle_s, self._over, self._unusable = idle_s, over, unusable
        self.episodes = 0
        """Number of episodes that are not over. The engine updates it, under its lock."""
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()  # whose put may be called by what is collected, at any time
        self._doing: Job | None = None
        self._open: dict[int, EpisodeRecord] = {}
        """Episodes whose sessions are open, the longest unused first."""
        self._life = worker.life
        self._closing = False
        self._started: Future[None] | None = None
        self._thread = threading.Thread(target=self._work, name="verigym-sessions", daemon=True)

    def begin(self, started: Future[None] | None = None) -> None:
        """Start the thread. If `started` is given, start the worker at once and report its readiness through this future."""
        self._started = started
        self._thread.start()

    def put(self, job: Job) -> None:
        """Queue a job. Never blocks."""
        self._jobs.put(job)

    def close(self) -> None:
        """Accept no more jobs, and give up the running job and the queued ones. Call `join` to wait for the end."""
        self._closing = True
        self._jobs.put(None)

    def join(self, *, patient: bool) -> None:
        """Kill the worker, after a grace period if it is idle, and wait until the thread has ended.

        Args:
            patient: whether to wait without limit. If False, stop waiting after the grace period: the thread may be running a
                session in this process, which cannot be killed.
        """
        kill_at = time.monotonic() + GRACE_S
        while self._thread.is_alive() and self._thread is not threading.current_thread():
            late = time.monotonic() >= kill_at
            if self._doing is not None or late:  # one that is just being started shows up a moment later, hence again
                self._worker.kill()
            if late and not patient:
                break
            self._thread.join(0.02)
        self._give_up()

    def _work(self) -> None:
        # This thread starts the worker's processes and outlives them, since the kernel sends the death signal per thread.
        try:
            if self._started is not None:
                try:
                    self._worker.start()
                    self._started.set_result(None)
                except BaseException as error:  # passed on to whoever waits for it
                    self._started.set_exception(error)
            while not self._closing:
                self._doing = self._next()
                if self._doing is not None:
                    self._serve(self._doing)
                    self._doing = None  # nor may a name hold it, for its future holds an episode that may be dropped
                if self._player.retire:
                    self._retire()
                self._close_one_idle()
        finally:
            self._give_up()
            if self._worker.running:
                self._close_all()
            self._worker.stop()

    def _next(self) -> Job | None:
        """Return the next job; None if none comes before a session has been idle for too long, or if all is to end."""
        record = next(iter(self._open.values()), None)
        wait_s = _LONGEST_S if record is None else record.used + self._idle_s - time.monotonic()
        try:
            return self._jobs.get(timeout=min(max(wait_s, 0.0), _LONGEST_S))
        except Empty:
            return None

    def _serve(self, job: Job) -> None:
        record = job.record
        wanted = job.future is None or job.future.set_running_or_notify_cancel()
        if job.do == "forget" or (job.do == "end" and not wanted):
            self._player.drop(record)
            self._finish(record, UsageError("the episode was given up"))
        elif wanted:
            self._answer(job)
        self._keep(record)

    def _answer(self, job: Job) -> None:
        record = job.record
        try:
            if self._closing:
                raise closed()
            result = self._over_already(job) if record.over else self._play(job)
        except NeverStarts as error:
            failure: Exception = self._unusable(error)
        except (EnvironmentFailure, SessionLimit, UsageError) as error:
            failure = error
        except BaseException as error:  # nothing that happens in here may lose the turn or the thread
            failure = EnvironmentFailure("internal", f"playing the episode failed: {describe(error)}")
        else:
            _resolve(job.future, result)
            return
        failure = failure.with_traceback(None)  # whose frames hold the future
        self._player.drop(record)
        self._finish(record, failure)
        _resolve(job.future, error=failure)

    def _play(self, job: Job) -> Any:
        record = job.record
        if job.do == "open":
            return self._player.open(record)
        if job.do == "end":
            outcome = self._player.end(record)
            self._finish(record)
            return outcome
        answer = self._player.turn(record, job.text)
        if answer.reply.done:
            self._finish(record)
        return answer

    def _over_already(self, job: Job) -> Any:
        """Return the outcome of an episode that is over, or raise why there is none, or no further turn."""
        record = job.record
        if job.do == "end" and record.outcome is not None:
            return record.outcome
        raise record.failure or UsageError("the episode is over: a new one is begun by Sessions.open(prompt, seed)")

    def _finish(self, record: EpisodeRecord, failure: Exception | None = None) -> None:
        """Note that an episode is over."""
        if record.over:
            return
        record.over, record.failure = True, failure
        record.played = []
        if failure is None:
            self._counters.add("ended")
        elif isinstance(failure, SessionLimit):
            self._counters.add("limits")
        elif isinstance(failure, EnvironmentFailure):
            self._counters.add("failures")
        self._over(self)

    def _keep(self, record: EpisodeRecord) -> None:
        """Note when an episode's session was last used, if it is open."""
        if self._worker.life != self._life:
            self._life = self._worker.life
            self._open.clear()
        self._open.pop(record.number, None)
        if record.life == self._life:
            record.used = time.monotonic()
            self._open[record.number] = record

    def _close_one_idle(self) -> None:
        """Close the session that was not used for longest, if that is too long: its next turn replays it."""
        record = next(iter(self._open.values()), None)
        if record is not None and time.monotonic() - record.used >= self._idle_s:
            if self._player.drop(record):
                self._counters.add("evicted")
            self._open.pop(record.number, None)

    def _retire(self) -> None:
        """Replace a worker whose memory runs low; its sessions are replayed in the next."""
        self._counters.add("retired")
        self._close_all()
        self._worker.stop()
        self._player.retire = False

    def _close_all(self) -> None:
        while self._open:
            self._player.drop(self._open.popitem()[1])

    def _give_up(self) -> None:
        """Raise from every future that is open."""
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is not None:
                _resolve(job.future, error=closed())
        if (job := self._doing) is not None:
            _resolve(job.future, error=closed())


def _resolve(future: Future[Any] | None, result: Any = None, error: Exception | None = None) -> None:
    """Give a future its result, unless it has one: what could not be killed may come too late."""
    if future is None or future.done() or (not future.running() and not future.set_running_or_notify_cancel()):
        return
    try:
        future.set_result(result) if error is None else future.set_exception(error)
    except InvalidStateError:  # the other thread was quicker
        return
