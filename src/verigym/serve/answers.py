"""Answers by idempotency key: a key that comes again gets the same answer, and nothing is graded twice."""

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
    """A bounded store, in memory, safe to use from several threads.

    A key in use is never dropped. Answered ones are dropped from the oldest on, when one of the limits is passed.

    Args:
        most: answers that are kept.
        most_bytes: of these answers and their keys together.
        keep_s: how long each is kept.
    """

    def __init__(self, most: int, most_bytes: int, keep_s: float) -> None:
        self._most, self._most_bytes, self._keep_s = most, most_bytes, keep_s
        self._lock = threading.Lock()
        self._open: dict[str, _Entry] = {}
        self._kept: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self.repeated = 0
        """Requests that were answered by what an earlier one with their key got, or gets."""

    def __len__(self) -> int:
        return len(self._open) + len(self._kept)

    def claim(self, key: str, fingerprint: str, waiter: Waiter) -> bool:
        """Return whether the caller is to find the answer, and then to `settle` or `abandon` it.

        If not, `waiter` gets the answer of the first who asked: at once, or when it is there.

        Args:
            key: idempotency key.
            fingerprint: of what is asked.
            waiter: called with the answer.

        Raises:
            Problem: the key stood for something else before.
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
        """Keep an answer, and give it to all who wait."""
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
        """Forget a key that got no answer worth keeping; all who wait get this one."""
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
