"""When an environment brings down worker after worker, stop paying the full price for each of its items."""

from __future__ import annotations

import threading
import time
from enum import Enum

from verigym.envs.schema import ErrorKind

THRESHOLD = 3
COOLDOWN_S = 30.0
MAX_COOLDOWN_S = 600.0


class Trust(Enum):
    """How an item of the environment is to be treated now."""

    GRADE = "grade"
    CONTROL_FIRST = "the last control failed: a control must pass before the item is graded"
    REFUSE = "declared broken: no item is graded for a while"


class Breaker:
    """One environment's record of control items.

    A control item that kills or hangs its worker is a failure. After one failure, each item is preceded by a control;
    after `THRESHOLD` in a row the environment is declared broken for `cooldown_s`, and its items get ERROR at once.
    Then one item at a time may try its control again; success clears the record, failure doubles the pause.
    """

    def __init__(self, cooldown_s: float = COOLDOWN_S) -> None:
        self._lock = threading.Lock()
        self._first_cooldown_s = cooldown_s
        self._cooldown_s = cooldown_s
        self._failures = 0
        self._closed_until = 0.0
        self.last_failure: tuple[ErrorKind, str] = ("crashed", "")

    def admit(self) -> Trust:
        """Say how to treat the next item."""
        if not self._failures:
            return Trust.GRADE
        with self._lock:
            if self._failures < THRESHOLD:
                return Trust.CONTROL_FIRST
            now = time.monotonic()
            if now < self._closed_until:
                return Trust.REFUSE
            self._closed_until = now + self._cooldown_s  # the others stay refused while this one probes
            return Trust.CONTROL_FIRST

    def passed(self) -> None:
        """A worker answered: the environment works."""
        if self._failures:
            with self._lock:
                self._failures = 0
                self._cooldown_s = self._first_cooldown_s

    def failed(self, kind: ErrorKind, why: str) -> float | None:
        """A control brought its worker down. Return the pause in seconds if the environment is now declared broken."""
        with self._lock:
            self._failures += 1
            self.last_failure = (kind, why)
            if self._failures < THRESHOLD:
                return None
            pause = self._cooldown_s
            self._closed_until = time.monotonic() + pause
            self._cooldown_s = min(2 * pause, MAX_COOLDOWN_S)
            return pause
