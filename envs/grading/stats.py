"""Counters of a grader, and its rate-limited log."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from verigym.envs.contract.schema import Score, Status

logger = logging.getLogger("verigym.cli.grade")

LOG_EVERY_S = 10.0


@dataclass(frozen=True)
class GraderStats:
    """A snapshot of the counters."""

    by_status: Mapping[str, Mapping[Status, int]]
    """Results given back, by environment and status."""
    cache_hits: int
    deduplicated: int
    """Results shared with an equal item that was being graded."""
    retries: int
    """Items graded again because their error was retryable."""
    worker_deaths: int
    """Worker processes that hung, crashed or sent an invalid answer; each was replaced."""
    judge_exceptions: int
    """Results for which `judge` raised, whoever was to blame. Each cause was logged once, with its traceback."""


@dataclass
class StatsCounter:
    """Thread-safe counters."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: Counter[str] = field(default_factory=Counter)
    _statuses: dict[str, Counter[Status]] = field(default_factory=dict)
    _causes: set[tuple[str, str]] = field(default_factory=set)

    def add(self, what: str, count: int = 1) -> None:
        """Raise one counter."""
        with self._lock:
            self._counts[what] += count

    def result(self, environment: str, score: Score, count: int) -> None:
        """Count results given back."""
        raised = score.raised
        with self._lock:
            self._statuses.setdefault(environment, Counter())[score.status] += count
            if raised is None:
                return
            self._counts["judge_exceptions"] += count
            if (environment, raised.cause) in self._causes:
                return
            self._causes.add((environment, raised.cause))
        # At once, and once a cause: the first bug that everybody writes must not train as silent zeros.
        logger.warning("%s: its judge raised %s at %s\n%s", environment, raised.error, raised.place, raised.traceback)

    def snapshot(self) -> GraderStats:
        """Return a snapshot."""
        with self._lock:
            return GraderStats(
                by_status={name: dict(counts) for name, counts in self._statuses.items()},
                **{k: self._counts[k] for k in ("cache_hits", "deduplicated", "retries", "worker_deaths", "judge_exceptions")},
            )


class ThrottledLog:
    """Log that gives at most one warning of each kind every `LOG_EVERY_S` seconds.

    The next warning of that kind says how many were suppressed in between.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], float] = {}
        self._held: Counter[tuple[str, str]] = Counter()

    def warn(self, environment: str, kind: str, message: str) -> None:
        """Log `environment: message`, unless a warning of the same `kind` was logged within the last `LOG_EVERY_S` seconds."""
        key = (environment, kind)
        now = time.monotonic()
        with self._lock:
            if now - self._last.get(key, -LOG_EVERY_S) < LOG_EVERY_S:
                self._held[key] += 1
                return
            self._last[key] = now
            held = self._held.pop(key, 0)
        more = f" ({held} more like this since the last message)" if held else ""
        logger.warning("%s: %s%s", environment, message, more)
