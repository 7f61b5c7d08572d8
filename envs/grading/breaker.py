"""Circuit breaker: stops grading with an environment that keeps crashing its workers."""

from __future__ import annotations

import threading
import time
from enum import Enum

from verigym.envs.contract.schema import ErrorKind

THRESHOLD = 3
COOLDOWN_S = 30.0
MAX_COOLDOWN_S = 600.0


class Trust(Enum):
    """How the next item of an environment is treated."""

    GRADE = "grade"
    CONTROL_FIRST = "the last control failed: a control must pass before the item is graded"
    REFUSE = "declared broken: no item is graded for a while"


class Breaker:
    """Circuit breaker for one environment: stops grading with it when even items known to be valid crash its workers.

    An item known to be valid is called a control. It is judged to find out who is to blame for a crash, and it fails if it
    kills or hangs its worker. After a failed control, other items of the same prompt get ERROR at once, and an item of another
    prompt is graded only after a control of its own has passed. After failed controls on `THRESHOLD` different prompts in a
    row, the environment is declared broken for `cooldown_s` seconds, and all its items get ERROR at once. (One prompt is not
    enough, since its gold may be bad.) After this pause, the control of a single item is tried. If it passes, grading goes on
    as usual. If it fails, another pause follows, which is twice as long.
    """

    def __init__(self, cooldown_s: float = COOLDOWN_S) -> None:
        self._lock = threading.Lock()
        self._first_cooldown_s = cooldown_s
        self._cooldown_s = cooldown_s
        self._failed: dict[str, float] = {}
        self._closed_until = 0.0
        self.last_failure: tuple[ErrorKind, str] = ("crashed", "")

    def admit(self, prompt_key: str) -> Trust:
        """Return how to treat the next item."""
        if not self._failed:
            return Trust.GRADE
        with self._lock:
            now = time.monotonic()
            if len(self._failed) < THRESHOLD:
                # The control of this very prompt has just failed: its other completions need not pay for that again.
                fresh = now - self._failed.get(prompt_key, -self._cooldown_s) < self._cooldown_s
                return Trust.REFUSE if fresh else Trust.CONTROL_FIRST
            if now < self._closed_until:
                return Trust.REFUSE
            self._closed_until = now + self._cooldown_s  # the others stay refused while this one probes
            return Trust.CONTROL_FIRST

    def passed(self) -> None:
        """Record that a worker answered, so the environment works."""
        if self._failed:
            with self._lock:
                self._failed.clear()
                self._cooldown_s = self._first_cooldown_s

    def failed(self, kind: ErrorKind, why: str, prompt_key: str) -> float | None:
        """Record that the control item of the prompt `prompt_key` failed.

        Return the pause in seconds if the environment is now declared broken, else None.
        """
        with self._lock:
            self._failed[prompt_key] = time.monotonic()
            self.last_failure = (kind, why)
            if len(self._failed) < THRESHOLD:
                return None
            pause = self._cooldown_s
            self._closed_until = time.monotonic() + pause
            self._cooldown_s = min(2 * pause, MAX_COOLDOWN_S)
            return pause
