"""Idle workers, and how many runs may go on at one time."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from verigym.sandbox.spec import SandboxFailure


class Reusable(Protocol):
    """What a pool holds."""

    runs: int
    core: int

    @property
    def closed(self) -> bool:
        """Whether it was closed or given up."""

    @property
    def alive(self) -> bool:
        """Whether it can serve another run."""

    def close(self) -> None:
        """End it. Idempotent."""

    def kill(self) -> None:
        """Make the run that it serves fail, from any thread."""

    def forget(self) -> None:
        """Let go of what a fork has inherited, without ending it."""


W = TypeVar("W", bound=Reusable)


class Pool(Generic[W]):
    """Hands out workers, made when needed. A slot admits one job; a job may take several workers, so nothing waits in a circle.

    Args:
        make: starts a worker.
        slots: jobs at one time.
        retire_after: runs after which a worker is replaced.
    """

    def __init__(self, make: Callable[[], W], slots: int, retire_after: int = 5000) -> None:
        self._make = make
        self._slots = slots
        self._retire_after = retire_after
        self._lock = threading.Lock()
        self._free: SimpleQueue[int] = SimpleQueue()  # a semaphore, but not made in Python
        for number in range(slots):
            self._free.put(number)
        self._cores = sorted(os.sched_getaffinity(0))
        self._idle: list[W] = []
        self._all: dict[int, W] = {}
        self.closed = False

    def enter(self) -> int:
        """Wait for one of the slots, and hold it. Returns its number."""
        return self._free.get()

    def leave(self, slot: int) -> None:
        """Give it back."""
        self._free.put(slot)

    def core(self, slot: int) -> int:
        """Return the core of that slot, which its workers are to share when there is work for all; -1 where some may idle."""
        cores = len(self._cores)
        return self._cores[slot % cores] if slot >= 0 and 1 < cores <= self._slots - self._free.qsize() else -1

    def take(self, core: int = -1) -> W:
        """Return an idle worker, or a new one.

        Args:
            core: of several, one that was on that core.

        Raises:
            SandboxFailure: the pool is closed, or none can be started.
        """
        while True:
            with self._lock:
                if self.closed:
                    raise SandboxFailure("the sandbox is closed", retryable=False)
                worker = self._pick(core)
            if worker is None:
                break
            if worker.alive:
                worker.core = core
                return worker
            self._drop(worker)
        worker = self._make()
        worker.core = core
        with self._lock:
            if not self.closed:
                self._all[id(worker)] = worker
                return worker
        worker.close()
        raise SandboxFailure("the sandbox is closed", retryable=False)

    def _pick(self, core: int) -> W | None:
        if core >= 0:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place].core == core:
                    return self._idle.pop(place)
        return self._idle.pop() if self._idle else None

    def give(self, worker: W) -> None:
        """Take a worker back; one that is worn out or too many is closed. Whether it still lives is asked when it is taken."""
        with self._lock:
            keep = (
                not self.closed and not worker.closed and worker.runs < self._retire_after and len(self._idle) < 2 * self._slots
            )
            if keep:
                self._idle.append(worker)
        if not keep:
            self._drop(worker)

    def _drop(self, worker: W) -> None:
        with self._lock:
            self._all.pop(id(worker), None)
        worker.close()

    def close(self) -> None:
        """End every worker. One at work is killed; the thread that waits for its run closes it."""
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
            busy = [worker for worker in self._all.values() if worker not in idle]
            self._all.clear()
        for worker in idle:
            worker.close()
        for worker in busy:
            worker.kill()

    def forget(self) -> None:
        """In a fork: the workers belong to the parent."""
        for worker in self._all.values():
            with contextlib.suppress(OSError):
                worker.forget()


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))
