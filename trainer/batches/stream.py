"""`Stream`: batches sampled in a thread, one after another, while the policy is updated (`overlap: free`).

Sampling does not wait for updates, and updates do not wait until the servers have the new weights. So a batch may hold
completions from several versions of the policy; each completion records how many updates its policy had. Groups older than
`max_staleness` updates are dropped when the batch is taken. Limiting the number of waiting batches would not keep groups fresh
enough: new weights may reach the servers late, so even a new group may come from an old policy.
"""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import torch

from verigym.trainer.batches.ahead import GiveUp
from verigym.trainer.batches.builder import Batch
from verigym.trainer.rollout.collect import Dropped, Group

BuilderState = tuple[Mapping[str, int], Mapping[str, Any]]
"""Number of prompts drawn from each source, and the rest of the batch builder's state."""
POLL_S = 0.5
"""Longest wait before `give_up` is asked again."""


@dataclass(frozen=True)
class Position:
    """The point in the sequence of batches that sampling has reached, from which a resumed run continues."""

    following: int
    """Number of the next batch."""
    drawn: Mapping[str, int]
    """Prompts drawn so far, by source."""
    state: Mapping[str, Any]
    """State of the batch builder."""


class Stream:
    """Samples batches in a thread, one after another, while the policy is updated.

    At most `most` batches wait to be taken; the thread pauses until there is room for another.
    """

    def __init__(self, most: int, position: Position, wanted: int) -> None:
        """Prepare the stream; `start` begins to sample.

        Args:
            most: largest number of batches that wait, at least 1.
            position: the point from which sampling continues.
            wanted: number of batches to sample.
        """
        self.position = position
        """After the batch that was taken last."""
        self._following, self._left = position.following, wanted
        self._most = most
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._batches: deque[tuple[Batch, Position]] = deque()
        self._sampling = threading.Lock()
        """Held while a batch is sampled."""
        self._error: BaseException | None = None
        self._abandoned = False
        self._thread: threading.Thread | None = None

    def start(self, sample: Callable[[int, GiveUp], Batch], state: Callable[[], BuilderState]) -> None:
        """Begin to sample batches with `sample`.

        Args:
            sample: takes the number of a batch, and a function that returns True if sampling should stop; returns the batch.
            state: returns the number of tasks drawn from each source and the builder's state. It is called after each batch.
        """
        threads = torch.get_num_threads()

        def work() -> None:
            torch.set_num_threads(threads)  # a new thread has the default
            try:
                while self._wait_for_room():
                    with self._sampling:
                        if self._abandoned:
                            return
                        number = self._following
                        batch = sample(number, lambda: self._abandoned)
                        drawn, builder = state()
                        after = Position(number + 1, dict(drawn), copy.deepcopy(builder))
                    with self._lock:
                        self._following = number + 1
                        self._batches.append((batch, after))
                        self._changed.notify_all()
            except BaseException as error:  # raised where a batch is waited for
                with self._lock:
                    self._error = error
                    self._changed.notify_all()

        self._thread = threading.Thread(target=work, name="verigym-stream", daemon=True)
        self._thread.start()

    def _wait_for_room(self) -> bool:
        with self._lock:
            while not self._abandoned and (not self._left or len(self._batches) >= self._most):
                self._changed.wait()
            self._left -= 1
            return not self._abandoned

    def take(self, step: int, max_staleness: int, give_up: GiveUp) -> Batch:
        """Wait for the next batch that has groups fresh enough to train on, and return it without groups that are too old.

        Args:
            step: number of updates that the policy has had.
            max_staleness: most updates since a group's oldest completion was sampled; groups beyond this are dropped.
            give_up: returns True to stop waiting.

        Raises:
            Dropped: `give_up` returned True.
            Exception: any exception that sampling raised.
        """
        dropped = 0
        while True:
            batch, self.position = self._next(give_up)
            fresh = [group for group in batch.groups if _staleness(group, step) <= max_staleness]
            dropped += len(batch.groups) - len(fresh)
            if fresh or not batch.groups:
                ages = [_staleness(group, step) for group in fresh] or [0]
                figures = {"stale_groups": dropped, "staleness": fmean(ages), "staleness_max": max(ages)}
                groups = [replace(group, off_policy=_staleness(group, step) > 0) for group in fresh]
                return replace(batch, groups=groups, metrics={**batch.metrics, **figures})
            with self._lock:  # another in its place
                self._left += 1
                self._changed.notify_all()

    def _next(self, give_up: GiveUp) -> tuple[Batch, Position]:
        with self._lock:
            while not self._batches:
                if self._error is not None:
                    raise self._error
                if give_up():
                    raise Dropped
                self._changed.wait(POLL_S)
            found = self._batches.popleft()
            self._changed.notify_all()
            return found

    @contextmanager
    def paused(self, give_up: GiveUp) -> Iterator[None]:
        """Wait until the batch that is being sampled is complete, and return a context in which no batch is sampled.

        Raises:
            Dropped: `give_up` returned True.
        """
        while not self._sampling.acquire(timeout=POLL_S):
            if give_up():
                raise Dropped
        try:
            yield
        finally:
            self._sampling.release()

    def abandon(self) -> None:
        """Stop the sampling at the next completion, and discard the batches that wait."""
        with self._lock:
            self._abandoned = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._batches.clear()


def _staleness(group: Group, step: int) -> int:
    """Return the number of updates, up to `step`, since the oldest completion of `group` was sampled."""
    return step - min(done.policy_step or 0 for done in group.generated)
