"""Engine of `Sessions`: holds the workers and their threads, and chooses a worker for each new episode."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt
from verigym.envs.grading.breaker import Breaker
from verigym.envs.grading.process import refuse_after_fork
from verigym.envs.grading.stats import ThrottledLog
from verigym.envs.sessions.owner import Job, Owner
from verigym.envs.sessions.record import EpisodeRecord, Played
from verigym.envs.sessions.replay import Player
from verigym.envs.sessions.stats import Counters
from verigym.envs.sessions.workers import InProcessWorker, Limits, ProcessWorker, Worker


def cannot_start(error: Exception) -> UsageError:
    """Return the error for callers where no worker can be started."""
    return UsageError(f"no worker for sessions can be started: {error}")


class Engine:
    """Runs sessions in at most `max(workers, 1)` worker processes, each started when it is first needed."""

    def __init__(self, environments: Mapping[str, Environment], workers: int, limits: Limits) -> None:
        self._environments, self._workers, self._limits = environments, workers, limits
        self.counters = Counters()
        self._log = ThrottledLog()
        self._breakers = {name: Breaker() for name in environments}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._owners: list[Owner] = []
        self._begun_in: int | None = None
        self._closed = False
        self._unusable: UsageError | None = None
        """Why no worker can ever be started."""

    def open(self, prompt: Prompt, seed: str, played: Sequence[Played]) -> tuple[Owner, EpisodeRecord]:
        """Begin an episode on the worker with the fewest episodes, and have its session opened on that worker.

        Raises:
            UsageError: the engine is closed, or no worker can ever be started.
        """
        refuse_after_fork(self._begun_in, "the workers of the sessions")  # before the lock, which may have been held
        with self._lock:
            if self._closed:
                raise UsageError("the sessions are closed; make new ones")
            if self._unusable is not None:
                raise self._unusable
            record = EpisodeRecord(next(self._numbers), prompt, seed, list(played), opened=bool(played))
            owner = min(self._owners, key=lambda one: one.episodes, default=None)
            if owner is None or (owner.episodes and len(self._owners) < max(self._workers, 1)):
                owner = self._add_owner(None)
            owner.episodes += 1
            self.counters.add("opened")
            owner.put(Job("open", record))
        return owner, record

    def submit(self, owner: Owner, job: Job) -> bool:
        """Queue `job` for `owner`. Return False if the engine is closed; the job will then never run."""
        with self._lock:
            if not self._closed:
                owner.put(job)
            return not self._closed

    def start(self) -> None:
        """Start all workers and wait until they are ready. Raise the first WorkerStartError, if any."""
        reports: list[Future[None]] = []
        with self._lock:
            while not self._closed and len(self._owners) < max(self._workers, 1):
                reports.append(Future())
                self._add_owner(reports[-1])
        for report in reports:
            report.result()

    def close(self) -> None:
        """End the workers and the threads; every open future raises."""
        with self._lock:
            self._closed = True
            owners = list(self._owners)
        for owner in owners:
            owner.close()
        for owner in owners:
            owner.join(patient=self._workers > 0)

    def _add_owner(self, started: Future[None] | None) -> Owner:
        """Add a thread with its own worker. The lock is held."""
        self._begun_in = os.getpid()
        worker: Worker = (
            ProcessWorker(self._environments, self._limits) if self._workers else InProcessWorker(self._environments)
        )
        player = Player(
            worker,
            self._numbers,
            self._breakers,
            self.counters,
            self._log,
            closing=lambda: self._closed,
            start_timeout_s=self._limits.start_timeout_s,
        )
        owner = Owner(worker, player, self.counters, self._limits.idle_s, self._over, self._refuse)
        self._owners.append(owner)
        owner.begin(started)
        return owner

    def _over(self, owner: Owner) -> None:
        with self._lock:
            owner.episodes -= 1

    def _refuse(self, error: Exception) -> UsageError:
        """Remember that no worker can ever be started: the call is wrong."""
        with self._lock:
            self._unusable = self._unusable or cannot_start(error)
            return self._unusable
