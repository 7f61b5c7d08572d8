"""Queue with a lane for each environment: the lanes take turns, and a lane may limit how many of its items are in progress."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A queue with named lanes that take turns; within a lane, items keep their order.

    `limits` maps a lane to the number of its items that may be in progress at a time.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = dict(limits)
        self._lanes: dict[str, deque[T]] = {}
        self._out: dict[str, int] = {}
        self._later: list[tuple[float, int, str, T]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._waiting = 0
        self._closed = False

    def put(self, lane: str, item: T, delay_s: float = 0.0) -> None:
        """Add an item; it can be taken after `delay_s`."""
        with self._changed:
            if delay_s > 0:
                heapq.heappush(self._later, (time.monotonic() + delay_s, next(self._order), lane, item))
            else:
                self._lanes.setdefault(lane, deque()).append(item)
            self._changed.notify()

    def take(self) -> tuple[str, T] | None:
        """Wait for an item of a lane that is below its limit, and return (lane, item), or None once the queue is closed.

        The caller must call `done(lane)` when the item is finished.
        """
        with self._changed:
            while not self._closed:
                self._promote()
                found = self._next()
                if found is not None:
                    return found
                self._waiting += 1
                self._changed.wait(max(0.0, self._later[0][0] - time.monotonic()) if self._later else None)
                self._waiting -= 1
            return None

    def take_ready(self, most: int, lanes: Collection[str]) -> list[tuple[str, T]]:
        """Take up to `most` items of `lanes` without waiting, each as (lane, item). Lanes at their limit give none."""
        found: list[tuple[str, T]] = []
        with self._changed:
            self._promote()
            while not self._closed and len(found) < most and (one := self._next(lanes)) is not None:
                found.append(one)
        return found

    def wait(self, seconds: float) -> None:
        """Wait until an item is added or a lane falls below its limit, for at most `seconds`."""
        with self._changed:
            if not self._closed:
                self._changed.wait(seconds)

    def waiting(self, lane: str) -> int:
        """Return how many items of a lane have not been taken."""
        with self._changed:
            return len(self._lanes.get(lane, ())) + sum(entry[2] == lane for entry in self._later)

    def done(self, lane: str) -> None:
        """Give a lane its place back."""
        with self._changed:
            self._out[lane] -= 1
            self._changed.notify()

    def backlog(self) -> bool:
        """Return whether more items are ready than takers wait."""
        with self._changed:
            return sum(map(len, self._lanes.values())) > self._waiting

    def close(self) -> list[T]:
        """Refuse further takes and return what was left."""
        with self._changed:
            self._closed = True
            rest = [item for lane in self._lanes.values() for item in lane] + [entry[-1] for entry in self._later]
            self._lanes.clear()
            self._later.clear()
            self._changed.notify_all()
            return rest

    def _promote(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, _, lane, item = heapq.heappop(self._later)
            self._lanes.setdefault(lane, deque()).append(item)

    def _next(self, lanes: Collection[str] | None = None) -> tuple[str, T] | None:
        for lane, items in self._lanes.items():
            if items and (lanes is None or lane in lanes) and self._out.get(lane, 0) < self._limits.get(lane, 1 << 30):
                self._out[lane] = self._out.get(lane, 0) + 1
                item = items.popleft()
                self._lanes[lane] = self._lanes.pop(lane)  # to the end of the turn order
                return lane, item
        return None
