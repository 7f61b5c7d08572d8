"""Engine of the Grader: a queue of jobs, one thread per worker, retries, shared results, the cache."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score, sha256_hex
from verigym.envs.grading.breaker import Breaker
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.grading.fair_queue import FairQueue
from verigym.envs.grading.kill_rule import KillRule
from verigym.envs.grading.process import NeverStarts, refuse_after_fork
from verigym.envs.grading.stats import StatsCounter, ThrottledLog
from verigym.envs.grading.workers import InProcessWorker, Limits, ProcessWorker, Worker
from verigym.envs.own_code import cache_code

BACKOFF_S = 0.1
LOOK_AHEAD = 256


@dataclass
class Job:
    """One item, or a group that is judged together."""

    environment: Environment
    prompt: Prompt
    completions: tuple[Completion, ...]
    together: bool
    key: str
    waiting: list[list[Future[Score]]]
    """For each submission of the job, a list of futures, one for each completion."""
    attempts: int = 0

    @property
    def keys(self) -> list[str]:
        """Return the cache key of each verdict. In a group, the key depends on all completions and on this one's position."""
        return [sha256_hex(f"{self.key}/{place}") for place in range(len(self.completions))] if self.together else [self.key]

    @property
    def futures(self) -> list[Future[Score]]:
        """All futures that wait for this job."""
        return [future for row in self.waiting for future in row]


def cannot_start(error: Exception) -> UsageError:
    """Return the error for callers where no worker can be started."""
    return UsageError(f"no grading worker can be started: {error}")


class Engine:
    """Grades jobs on up to `max(workers, 1)` threads, each of which owns one worker."""

    def __init__(
        self,
        environments: Mapping[str, Environment],
        *,
        workers: int,
        limits: Limits,
        retries: int,
        concurrency: Mapping[str, int],
        cache: ScoreCache | None,
    ) -> None:
        self._environments = environments
        self._workers = workers
        self._limits = limits
        self._retries = retries
        self._cache = cache
        self._code = {name: cache_code(one) if cache is not None else "" for name, one in environments.items()}
        """For each user-written environment, a hash of its code. It is part of the cache key, since an author may edit the code
        without increasing `version`."""
        self.counter = StatsCounter()
        self._log = ThrottledLog()
        self._queue: FairQueue[Job] = FairQueue(concurrency)
        self._rule = KillRule(self.counter, self._log, closing=lambda: self._closed)
        self._breakers = {name: Breaker() for name in environments}
        self._lock = threading.Lock()
        self._in_flight: dict[str, Job] = {}
        self._slots: list[tuple[threading.Thread, Worker]] = []
        self._begun_in: int | None = None
        self._closed = False
        self._unusable: UsageError | None = None
        """Why no worker can ever be started."""

    @property
    def look_ahead(self) -> int:
        """Items that keep all workers busy."""
        return LOOK_AHEAD

    def figures(self) -> list[Any]:
        """Return how much of the grading each cluster node did (`NodeFigures`), or an empty list without a cluster."""
        return []

    def submit(self, environment: Environment, prompt: Prompt, completion: Completion) -> Future[Score]:
        """Queue one item and return the future of its score. An equal item that is queued or being graded shares its result."""
        key = sha256_hex(f"{environment.grader}{self._code[environment.name]}|{prompt.key}|{completion.digest}")
        return self._queued(Job(environment, prompt, (completion,), False, key, []))[0]

    def submit_group(self, environment: Environment, prompt: Prompt, completions: Sequence[Completion]) -> list[Future[Score]]:
        """Queue `completions` of one prompt, which are judged together, and return a future for each score.

        If an equal group is queued or being graded, both share the results.
        """
        digests = "|".join(completion.digest for completion in completions)
        key = sha256_hex(f"{environment.grader}{self._code[environment.name]}|{prompt.key}|together|{digests}")
        return self._queued(Job(environment, prompt, tuple(completions), True, key, []))

    def _queued(self, job: Job) -> list[Future[Score]]:
        futures: list[Future[Score]] = [Future() for _ in job.completions]
        refuse_after_fork(self._begun_in, "the grader's workers")  # before the lock, which may have been held
        with self._lock:
            if self._closed:
                raise UsageError("the grader is closed; make a new one")
            if self._unusable is not None:
                raise self._unusable
            known = self._in_flight.get(job.key)
            if known is not None:
                known.waiting.append(futures)
                self.counter.add("deduplicated", len(futures))
                return futures
            job.waiting.append(futures)
            self._in_flight[job.key] = job
            self._queue.put(job.environment.name, job)
            self._staff()
        return futures

    def _staff(self) -> None:
        """Add a worker where items wait for one. The lock is held."""
        if len(self._slots) < max(self._workers, 1) and self._queue.backlog():
            self._add_slot(None)

    def start(self) -> None:
        """Start all workers and wait until they are ready. If any cannot start, raise the first WorkerStartError."""
        reports: list[Future[None]] = []
        with self._lock:
            while not self._closed and len(self._slots) < max(self._workers, 1):
                reports.append(Future())
                self._add_slot(reports[-1])
        for report in reports:
            report.result()

    def close(self) -> None:
        """Kill the workers, end the threads, and give every unfinished item an ERROR."""
        with self._lock:
            self._closed = True
            rest = self._queue.close()
        self._end_workers()
        for job in rest:
            self._resolve_all(job, Score.failed("unavailable", "the grader was closed", retryable=True))
        if self._cache is not None:
            self._cache.close()

    def _end_workers(self) -> None:
        for thread, worker in list(self._slots):
            # A worker that is just being started shows up a moment later, hence again and again.
            while thread.is_alive() and thread is not threading.current_thread():
                worker.kill()
                thread.join(0.02)

    def _add_slot(self, started: Future[None] | None) -> None:
        """Add a thread with its own worker, started at once if someone waits for `started`. The lock is held."""
        worker: Worker = ProcessWorker(self._environments, self._limits) if self._workers else InProcessWorker()
        thread = threading.Thread(target=self._work, args=(worker, started), name="verigym-grading", daemon=True)
        self._slots.append((thread, worker))
        self._begun_in = os.getpid()
        thread.start()

    def _work(self, worker: Worker, started: Future[None] | None) -> None:
        # This thread starts the worker's processes and outlives them, since the kernel sends the death signal per thread.
        try:
            if started is not None:
                try:
                    worker.start()
                    started.set_result(None)
                except BaseException as error:  # passed on to whoever waits for it
                    started.set_exception(error)
            while (taken := self._queue.take()) is not None:
                lane, job = taken
                try:
                    self._handle(job, worker)
                except NeverStarts as error:
                    self._refuse(job, error)
                except BaseException as error:  # nothing that happens in here may lose the item or the slot
                    self._resolve_all(job, Score.failed("internal", f"grading failed: {describe(error)}"))
                finally:
                    self._queue.done(lane)
        finally:
            worker.stop()

    def _handle(self, job: Job, worker: Worker) -> None:
        if self._abandoned(job) or self._from_cache(job):
            return
        name = job.environment.name
        verdict = self._rule.judge(
            worker, job.environment, job.prompt, job.completions, self._breakers[name], together=job.together
        )
        errors = [score.error for score in verdict.scores if score.error is not None]
        if errors:
            if any(error.retryable for error in errors) and not verdict.final and self._again(job):
                return
            for error in () if self._closed else errors:  # closing is no failure to be warned of
                self._log.warn(name, error.kind, f"no score ({error.kind}): {error.message}")
        if verdict.cacheable:
            self._keep(job, verdict.scores)
        self._resolve(job, verdict.scores)

    def _from_cache(self, job: Job) -> bool:
        """Resolve a job whose verdicts are all in the cache; return whether they are."""
        if self._cache is None:
            return False
        cached = [self._cache.get(key) for key in job.keys]
        whole = [score for score in cached if score is not None]
        if len(whole) < len(cached):
            return False
        self.counter.add("cache_hits", len(whole))
        self._resolve(job, whole)
        return True

    def _keep(self, job: Job, scores: Sequence[Score]) -> None:
        if self._cache is not None:
            for key, score in zip(job.keys, scores, strict=True):
                self._cache.put(key, score)

    def _again(self, job: Job) -> bool:
        """Queue the job for a later try, if it has any left."""
        with self._lock:
            if self._closed or job.attempts >= self._retries:
                return False
            job.attempts += 1
            self.counter.add("retries")
            self._queue.put(job.environment.name, job, delay_s=BACKOFF_S * 2**job.attempts)
            return True

    def _abandoned(self, job: Job) -> bool:
        """Drop a job whose futures are all cancelled."""
        with self._lock:
            if not all(future.cancelled() for future in job.futures):
                return False
            self._in_flight.pop(job.key, None)
            return True

    def _refuse(self, job: Job, error: NeverStarts) -> None:
        """Raise the error from the job's futures: the call is wrong, which a score of None would hide."""
        with self._lock:
            self._unusable = self._unusable or cannot_start(error)
            self._in_flight.pop(job.key, None)
            waiting = list(job.futures)
        for future in waiting:
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_exception(self._unusable)

    def _resolve_all(self, job: Job, score: Score) -> None:
        self._resolve(job, [score] * len(job.completions))

    def _resolve(self, job: Job, scores: Sequence[Score]) -> None:
        with self._lock:
            self._in_flight.pop(job.key, None)
            waiting = list(job.waiting)
        for place, found in enumerate(scores):
            score = found if found.grader else found.model_copy(update={"grader": job.environment.grader})
            futures = [row[place] for row in waiting]
            live = [future for future in futures if not future.done() and future.set_running_or_notify_cancel()]
            self.counter.result(job.environment.name, score, len(live))
            for future in live:
                future.set_result(score)
