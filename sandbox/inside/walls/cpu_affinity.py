"""Keeps what forks runs, and whoever waits, on one core.

Who is woken is otherwise put on a core that idles: away from the caches with the memory that is about to be copied, and woken
from afar. Nothing that computes is kept anywhere: a core may be busy with something else.
"""

from __future__ import annotations

import ctypes
import os

_RUNS = 32  # on one core before the scheduler may choose another
_set = os.sched_setaffinity  # a program may replace it


class CorePinning:
    """The core of this process. Where none can be chosen it does nothing."""

    def __init__(self, *, choose: bool = False) -> None:
        self._usable = os.sched_getaffinity(0)
        self._ask = getattr(ctypes.CDLL(None), "sched_getcpu", None) if choose and len(self._usable) > 1 else None
        self._left = 0
        self.number = -1
        """-1: any."""

    def unpin_now_and_then(self) -> None:
        """Before waiting for a run's end: now and then let the scheduler choose where to wake up."""
        if self._ask is not None:
            if self._left == 0:
                _set_cores(self._usable)
            self._left -= 1

    def pin_where_woken(self) -> bool:
        """After waiting: stay where this was woken. Returns whether that has been chosen anew."""
        if self._left >= 0 or self._ask is None:
            return False
        number = self._ask()
        if number < 0:  # this kernel does not say
            self._ask = None
            return False
        self.number = number
        self._left = _RUNS
        _set_cores({number})
        return True

    def unpin(self) -> None:
        """Go on wherever there is room."""
        if self.number >= 0:
            _set_cores(self._usable)

    def pin(self) -> None:
        """Be woken on this core."""
        if self.number >= 0:
            _set_cores({self.number})

    def start_run(self, number: int) -> None:
        """In the process of a run: that is its core; work.

        Args:
            number: -1: none.
        """
        if 0 <= number != self.number and number in self._usable:
            self.number = number
            self.pin()
        self.unpin()


def _set_cores(cores: set[int]) -> None:
    try:
        _set(0, cores)
    except OSError:  # they have been taken from us since
        return


here = CorePinning()
