"""A pool of workers (processes or containers that run programs), and slots that limit the number of concurrent runs."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

from verigym.sandbox.spec import SandboxFailure


class Reusable(Protocol):
    """Interface of a worker that `Pool` manages."""

    runs: int
    core: int

    @property
    def closed(self) -> bool:
        """Whether the worker has been closed or discarded."""

    @property
    def alive(self) -> bool:
        """Whether the worker can serve another run."""

    def close(self) -> None:
        """End the worker. Further calls do nothing."""

    def kill(self) -> None:
        """Make the worker's current run fail; any thread may call this."""

    def forget(self) -> None:
        """Close inherited descriptors in a forked child, without ending the worker."""


W = TypeVar("W", bound=Reusable)


class Pool(Generic[W]):
    """Hands out workers and starts them when needed.

    The number of slots limits the number of concurrent jobs; the number of workers has no limit. So jobs that take several
    workers cannot deadlock.

    Args:
        make: starts a worker.
        slots: number of concurrent jobs.
        retire_after: number of runs after which a worker is replaced.
    """

    def __init__(self, make: Callable[[], W], slots: int, retire_after: int = 5000) -> None:
        self._make = make
        self._slots = slots
        self._retire_after = retire_after
        self._lock = threading.Lock()
        self._free: SimpleQueue[int] = SimpleQueue()  # a semaphore implemented in C
        for number in range(slots):
            self._free.put(number)
        self._cores = sorted(os.sched_getaffinity(0))
        self._idle: list[W] = []
        self._all: dict[int, W] = {}
        self.closed = False

    def enter(self) -> int:
        """Wait for a free slot, take it and return its number."""
        return self._free.get()

    def leave(self, slot: int) -> None:
        """Release the slot with the number `slot`."""
        self._free.put(slot)

    def core(self, slot: int) -> int:
        """Return the CPU core for the workers of `slot`; -1 (any core) while fewer slots are in use than there are cores."""
        cores = len(self._cores)
        return self._cores[slot % cores] if slot >= 0 and 1 < cores <= self._slots - self._free.qsize() else -1

    def take(self, core: int = -1) -> W:
        """Return an idle worker, or start a new one.

        Args:
            core: prefer a worker that last ran on this core; -1 for no preference.

        Raises:
            SandboxFailure: the pool is closed, or no worker can be started.
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
        """Return `worker` to the pool, or close it if it has served `retire_after` runs or there are enough idle workers.

        `take` checks later whether the worker is alive.
        """
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
        """End every worker. A busy worker is killed, and the thread that waits for its run closes it."""
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
        """Drop all workers in a forked child, where they belong to the parent."""
        for worker in self._all.values():
            with contextlib.suppress(OSError):
                worker.forget()
