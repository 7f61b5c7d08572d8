"""Keeps the forking process and waiting processes on one core.

Without this, the scheduler wakes a process on an idle core. That wake-up is slower, and the idle core's caches do not hold the
memory that is about to be copied. Computing processes are not pinned, since other processes may use the core.
"""

from __future__ import annotations

import ctypes
import os

_RUNS = 32  # runs on one core before the scheduler may choose another
_set = os.sched_setaffinity  # a private reference: a program may replace the attribute


class CorePinning:
    """Pins this process to one core while it waits. Does nothing on machines where no core can be chosen."""

    def __init__(self, *, choose: bool = False) -> None:
        self._usable = os.sched_getaffinity(0)
        self._ask = getattr(ctypes.CDLL(None), "sched_getcpu", None) if choose and len(self._usable) > 1 else None
        self._left = 0
        self.number = -1
        """-1: any."""

    def unpin_now_and_then(self) -> None:
        """Unpin this process every 32 runs, so that the scheduler chooses the core on which it wakes.

        Called before waiting for a run's end.
        """
        if self._ask is not None:
            if self._left == 0:
                _set_cores(self._usable)
            self._left -= 1

    def pin_where_woken(self) -> bool:
        """Pin this process to the core on which it woke, if `unpin_now_and_then` has unpinned it.

        Call this method after waiting. Returns whether a core was chosen.
        """
        if self._left >= 0 or self._ask is None:
            return False
        number = self._ask()
        if number < 0:  # this kernel cannot tell
            self._ask = None
            return False
        self.number = number
        self._left = _RUNS
        _set_cores({number})
        return True

    def unpin(self) -> None:
        """Allow all usable cores. Called before computing."""
        if self.number >= 0:
            _set_cores(self._usable)

    def pin(self) -> None:
        """Allow only the chosen core. Called before waiting."""
        if self.number >= 0:
            _set_cores({self.number})

    def start_run(self, number: int) -> None:
        """Move this process to core `number`, then allow all cores. Called in the process of a run.

        Args:
            number: number of the core; with -1 the process does not move.
        """
        if 0 <= number != self.number and number in self._usable:
            self.number = number
            self.pin()
        self.unpin()


def _set_cores(cores: set[int]) -> None:
    try:
        _set(0, cores)
    except OSError:  # they have since been taken from this process
        return


here = CorePinning()
