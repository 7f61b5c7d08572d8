"""Counters of sessions in workers."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class SessionStats:
    """A snapshot of the counters."""

    opened: int
    """Episodes that were begun."""
    turns: int
    """Turns that were answered; those of replays do not count."""
    ended: int
    """Episodes with an outcome."""
    failures: int
    """Episodes that were given up because of a failure on our side. They get no reward."""
    limits: int
    """Episodes in which a turn of the model was to blame (`SessionLimit`)."""
    deaths: int
    """Workers that hung, crashed, ran out of memory or answered nonsense; each was replaced."""
    retired: int
    """Workers that were replaced between turns because their memory ran low."""
    evicted: int
    """Sessions that were closed because nobody used them for `idle_s`."""
    replays: int
    """Sessions that were opened anew from their recorded turns, controls included."""
    replayed_turns: int
    """Turns that these replays took."""


class Counters:
    """Thread-safe counters, named as the fields of `SessionStats`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """Raise one counter."""
        with self._lock:
            self._counts[what] += count

    def snapshot(self) -> SessionStats:
        """Return the counters as they are now."""
        with self._lock:
            return SessionStats(**{one.name: self._counts[one.name] for one in fields(SessionStats)})
