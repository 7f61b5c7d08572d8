"""Stores answers by idempotency key: a repeated key gets the same answer, and nothing is graded twice."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from verigym.serve.problems import Problem

Waiter = Callable[[bytes], None]


@dataclass
class _Entry:
    fingerprint: str
    waiting: list[Waiter] | None = field(default_factory=list)
    """Who else asked while it is being graded; None once it is answered."""
    answer: bytes = b""
    answered: float = 0.0


class Answers:
    """Store of the answers to recent requests, by idempotency key, so that a repeated request gets the same answer.

    It is in memory and thread-safe. Once a limit is exceeded, the oldest answers are dropped; a key whose answer is still being
    computed is never dropped.

    Args:
        most: maximum number of stored answers.
        most_bytes: maximum total size of these answers and their keys, in bytes.
        keep_s: seconds for which an answer is stored.
    """

    def __init__(self, most: int, most_bytes: int, keep_s: float) -> None:
        self._most, self._most_bytes, self._keep_s = most, most_bytes, keep_s
        self._lock = threading.Lock()
        self._open: dict[str, _Entry] = {}
        self._kept: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self.repeated = 0
        """Number of requests that got, or wait for, the answer to an earlier request with the same key."""

    def __len__(self) -> int:
        return len(self._open) + len(self._kept)

    def claim(self, key: str, fingerprint: str, waiter: Waiter) -> bool:
        """Register a request with the idempotency key `key`; return True if the caller must compute its answer.

        The caller must then call `settle` or `abandon`. Return False if an earlier request has the same key. In this case,
        `waiter` is called with the answer to the earlier request, as soon as that answer is known.

        Args:
            key: idempotency key of the request.
            fingerprint: hash of the request's content.
            waiter: function that takes the answer; it is called only if the return value is False.

        Raises:
            Problem: `key` was used before for a request with another fingerprint.
        """
        with self._lock:
            self._expire()
            entry = self._open.get(key) or self._kept.get(key)
            if entry is None:
                self._open[key] = _Entry(fingerprint)
                return True
            if entry.fingerprint != fingerprint:
                raise Problem("conflict", f"the idempotency key {key!r} was used for another item; a key stands for one item")
            self.repeated += 1
            if entry.waiting is not None:
                entry.waiting.append(waiter)
                return False
        waiter(entry.answer)
        return False

    def settle(self, key: str, answer: bytes) -> None:
        """Store `answer` under `key` and pass it to all waiters."""
        with self._lock:
            entry = self._open.pop(key)
            waiting, entry.waiting = entry.waiting, None
            entry.answer, entry.answered = answer, time.monotonic()
            self._kept[key] = entry
            self._bytes += len(key) + len(answer)
            self._expire()
        for waiter in waiting or ():
            waiter(answer)

    def abandon(self, key: str, answer: bytes) -> None:
        """Forget `key` without storing an answer, so that a later request tries again.

        The requests that wait for the answer now get `answer`.
        """
        with self._lock:
            waiting = self._open.pop(key).waiting
        for waiter in waiting or ():
            waiter(answer)

    def _expire(self) -> None:
        oldest_allowed = time.monotonic() - self._keep_s
        while self._kept:
            key, entry = next(iter(self._kept.items()))
            if len(self._kept) <= self._most and self._bytes <= self._most_bytes and entry.answered >= oldest_allowed:
                return
            del self._kept[key]
            self._bytes -= len(key) + len(entry.answer)
