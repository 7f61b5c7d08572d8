"""Bounds of processor time that hold on any machine."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator

TRIES = 3
CONTROL_S = 0.008
"""What `control` takes on a quiet core of 2024."""


def within(cpu_s: float, others: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
    """Run the body of a `for` until it takes less than some CPU seconds; fail the test if it never does.

    Others on the machine, a shared core and an old processor only add to what a body takes: so it may take a few tries, and its
    seconds count as those of a quiet core, by what a control takes meanwhile. Leave the body by its end, or by `continue`.

    Args:
        cpu_s: seconds of this thread on a quiet core; take ten times what was measured, or what tells linear from quadratic.
        others: reads the CPU seconds so far of what else is to count, such as other processes.
    """
    took = []
    for _ in range(TRIES):
        before, begun = others(), time.thread_time()
        yield
        spent = time.thread_time() - begun + others() - before
        if spent < cpu_s or spent < cpu_s * slowness():
            return
        took.append(spent)
        _forget()
    raise AssertionError(f"took {', '.join(f'{spent:.3f}' for spent in took)} CPU seconds; {cpu_s} are the most")


def slowness() -> float:
    """Return how many times as long as on a quiet core things take now, at least 1."""
    return max(1.0, control() / CONTROL_S)


def _forget() -> None:
    """Empty the caches of what was read: a second try that finds the first one's readings would prove nothing."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("verigym.envs.math.", "verigym.envs.process.", "verigym.envs.language.")):
            for found in vars(module).values():
                if isinstance(found, functools._lru_cache_wrapper):
                    found.cache_clear()


def control() -> float:
    """Return the CPU seconds of a fixed piece of work: what graders do most, which is text, numbers and small objects."""
    begun = time.thread_time()
    seen: dict[str, int] = {}
    for number in range(20_000):
        word = f"{number} and {number * number}"
        seen[word[-5:]] = len(word.split(" ")) + number
    return time.thread_time() - begun
