"""Bounds how long torch's OpenMP threads spin while they wait for each other.

By default a waiting thread of libgomp holds its core for about 10 ms. On a machine that is busy with anything else, the thread
that it waits for may need that core: steps of a small model took twenty times as long. libgomp reads its environment variables
once, when torch is imported.
"""

from __future__ import annotations

import os
import sys

SPINS = "3000"
"""Turns of libgomp's waiting loop, about 0.1 ms: longer than most gaps between two operations of torch."""
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")
"""Environment variables with which users say how threads wait; where one is set, it stays as it is."""

_too_late = False


def bound_spinning() -> None:
    """Bound the spinning of torch's threads in this process and in those that it starts. Call it before torch is imported."""
    global _too_late
    if any(os.environ.get(name) for name in WAITING):
        return
    _too_late = "torch" in sys.modules
    os.environ["GOMP_SPINCOUNT"] = SPINS


def unbounded() -> str | None:
    """Return what to do if torch was imported before its spinning could be bounded, else None. It is said once."""
    global _too_late
    said, _too_late = _too_late, False
    if not said:
        return None
    return (
        "torch was imported before verigym, so its threads hold their cores while they wait, and steps take many times as long "
        f"while other programs run; import verigym.trainer first, or set GOMP_SPINCOUNT={SPINS} before Python starts"
    )
