"""Stopwatch: wall time of a step by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Sums wall time by phase. The sums are read and reset once per step."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Add the time spent in this context to the sum of `phase`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """Return the seconds of each phase as metrics `<phase>_s`, and reset them."""
        seconds, self._seconds = self._seconds, {}
        return {f"{phase}_s": value for phase, value in seconds.items()}
