"""The machinery behind the Grader: a queue of jobs, one thread a worker, retries, shared results, the cache."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from verigym.envs.base import Environment
from verigym.envs.blame import describe
from verigym.envs.errors import UsageError
from verigym.envs.grading.breaker import Breaker
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.grading.fairqueue import FairQueue
from verigym.envs.grading.killrule import KillRule
from verigym.envs.grading.stats import StatsCounter, ThrottledLog
from verigym.envs.grading.workers import InProcessWorker, Limits, ProcessWorker, Worker
from verigym.envs.schema import Completion, Prompt, Score, sha256_hex

BACKOFF_S = 0.1


@dataclass
class _Job:
    environment: Environment
    prompt: Prompt
    completion: Completion
    key: str
    futures: list[Future[Score]] = field(default_factory=list)
    attempts: int = 0


class Engine:
    """Grades jobs on up to `max(workers, 1)` threads, each the owner of one worker."""

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
        self.counter = StatsCounter()
        self._log = ThrottledLog()
        self._queue: FairQueue[_Job] = FairQueue(concurrency)
        self._rule = KillRule(self.counter, self._log, closing=lambda: self._closed)
        self._breakers = {name: Breaker() for name in environments}
        self._lock = threading.Lock()
        self._in_flight: dict[str, _Job] = {}
        self._slots: list[tuple[threading.Thread, Worker]] = []
        self._closed = False

    def submit(self, environment: Environment, prompt: Prompt, completion: Completion) -> Future[Score]:
        """Queue one item, or share the result of an equal one that is being graded."""
        key = sha256_hex(f"{environment.grader}|{prompt.key}|{completion.digest}")
        future: Future[Score] = Future()
        with self._lock:
            if self._closed:
                raise UsageError("the grader is closed; make a new one")
            job = self._in_flight.get(key)
            if job is not None:
                job.futures.append(future)
                self.counter.add("deduplicated")
                return future
            job = _Job(environment, prompt, completion, key, [future])
            self._in_flight[key] = job
            self._queue.put(environment.name, job)
            if len(self._slots) < max(self._workers, 1) and self._queue.backlog():
                self._add_slot(None)
        return future

    def start(self) -> None:
        """Start all workers and wait until they are ready; raise the first WorkerStartError."""
        reports: list[Future[None]] = []
        with self._lock:
            while not self._closed and len(self._slots) < max(self._workers, 1):
                reports.append(Future())
                self._add_slot(reports[-1])
        for report in reports:
            report.result()

    def close(self) -> None:
        """Kill the workers, end the threads, and give every open item an ERROR."""
        with self._lock:
            self._closed = True
            rest = self._queue.close()
            slots = list(self._slots)
        for thread, worker in slots:
            # A worker that is just being started shows up a moment later, hence again and again.
            while thread.is_alive() and thread is not threading.current_thread():
                worker.kill()
                thread.join(0.02)
        for job in rest:
            self._resolve(job, Score.failed("unavailable", "the grader was closed", retryable=True))
        if self._cache is not None:
            self._cache.close()

    def _add_slot(self, started: Future[None] | None) -> None:
        """Add a thread with its own worker, started at once if someone waits for `started`. The lock is held."""
        worker: Worker = ProcessWorker(self._environments, self._limits) if self._workers else InProcessWorker()
        thread = threading.Thread(target=self._work, args=(worker, started), name="verigym-grading", daemon=True)
        self._slots.append((thread, worker))
        thread.start()

    def _work(self, worker: Worker, started: Future[None] | None) -> None:
        # This thread starts the worker's processes and outlives them: the kernel's death signal goes by thread.
        try:
            if started is not None:
                try:
                    worker.start()
                    started.set_result(None)
                except BaseException as error:  # whatever it is, someone waits for it
                    started.set_exception(error)
            while (taken := self._queue.take()) is not None:
                lane, job = taken
                try:
                    self._handle(job, worker)
                except BaseException as error:  # nothing that happens in here may lose the item or the slot
                    self._resolve(job, Score.failed("internal", f"grading failed: {describe(error)}"))
                finally:
                    self._queue.done(lane)
        finally:
            worker.stop()

    def _handle(self, job: _Job, worker: Worker) -> None:
        if self._abandoned(job):
            return
        cached = self._cache.get(job.key) if self._cache is not None else None
        if cached is not None:
            self.counter.add("cache_hits")
            self._resolve(job, cached)
            return
        name = job.environment.name
        verdict = self._rule.judge(worker, job.environment, job.prompt, job.completion, self._breakers[name])
        score = verdict.score
        if score.error is not None:
            if score.error.retryable and not verdict.final and self._again(job):
                return
            self._log.warn(name, score.error.kind, f"no score ({score.error.kind}): {score.error.message}")
        if self._cache is not None and verdict.cacheable:
            self._cache.put(job.key, score)
        self._resolve(job, score)

    def _again(self, job: _Job) -> bool:
        """Queue the job for a later try, if it has any left."""
        with self._lock:
            if self._closed or job.attempts >= self._retries:
                return False
            job.attempts += 1
            self.counter.add("retries")
            self._queue.put(job.environment.name, job, delay_s=BACKOFF_S * 2**job.attempts)
            return True

    def _abandoned(self, job: _Job) -> bool:
        """Forget a job that nobody waits for any more."""
        with self._lock:
            if not all(future.cancelled() for future in job.futures):
                return False
            self._in_flight.pop(job.key, None)
            return True

    def _resolve(self, job: _Job, score: Score) -> None:
        if not score.grader:
            score = score.model_copy(update={"grader": job.environment.grader})
        with self._lock:
            self._in_flight.pop(job.key, None)
            futures = list(job.futures)
        live = [future for future in futures if not future.done() and future.set_running_or_notify_cancel()]
        self.counter.result(job.environment.name, score, len(live))
        for future in live:
            future.set_result(score)
