"""What the engine asks of a cluster, and `NodeHost`, which grades on a node with today's Grader.

The kill rule and the blame rule stay on the node: a hanging or crashing item ends a worker there and nothing else.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.grading.grader import Grader


@dataclass(frozen=True)
class NodeInfo:
    """A node that is there."""

    name: str
    """For people: its host name, or its address."""
    resources: frozenset[str]
    """What it offers beyond cores, such as `sandbox`, `lean`, `gpu`."""


@dataclass(frozen=True)
class Task:
    """One item, or a group that is judged together, on its way to a node."""

    number: int
    prompt: Prompt
    completions: tuple[Completion, ...]
    together: bool


@dataclass(frozen=True)
class Reply:
    """What a node has finished since it was asked last."""

    scores: list[tuple[int, list[Score]]] = field(default_factory=list)
    """By the task's number."""
    retries: int = 0
    worker_deaths: int = 0
    """Both since the last reply."""


class NodeLost(Exception):
    """A node, or its host, is gone; what it had not answered is lost."""


class NeverHosts(Exception):
    """No host can grade there, now or later: the environments have to be changed, or the node's installation."""


class Node(Protocol):
    """A node's host, as the driver sees it. Used by one thread; `close` by any."""

    def exchange(self, tasks: Sequence[Task], wait_s: float) -> Reply:
        """Hand over tasks, and return what is finished, after `wait_s` at the latest if nothing is.

        Raises:
            NodeLost: the node is gone.
            NeverHosts: its workers cannot be started.
        """

    def close(self) -> None:
        """End the host and its workers."""


class Cluster(Protocol):
    """Nodes that come and go."""

    def nodes(self) -> Mapping[str, NodeInfo]:
        """Return the nodes that are alive, by an id that no other node ever has."""

    def open(self, node: str) -> Node:
        """Start a host on a node and return once it is ready.

        Raises:
            NodeLost: the node is gone, or it has no room for a host.
            NeverHosts: nothing can be graded there.
        """

    def close(self) -> None:
        """Leave the cluster."""


class NodeHost:
    """Grades on one node.

    Args:
        environments: by name.
        settings: of the node's Grader.
    """

    def __init__(self, environments: Mapping[str, Environment], settings: Mapping[str, Any]) -> None:
        self._grader = Grader(environments, **settings)
        try:
            self._grader.start()
        except UsageError as error:
            self._grader.close()
            raise NeverHosts(str(error)) from None
        self._finished: queue.SimpleQueue[tuple[int, list[Score]]] = queue.SimpleQueue()
        self._told = self._grader.stats
        self._pending = 0
        """Tasks whose verdicts have not been returned."""
        self._few = 2 * max(1, settings.get("workers") or 1)
        """So many tasks keep the workers busy for one more exchange."""

    def exchange(self, tasks: Sequence[Task], wait_s: float) -> Reply:
        """Take tasks, and return what is finished; see `Node.exchange`.

        An exchange costs more than many a verdict, so it goes on for `wait_s` unless the workers are about to run out of tasks.
        """
        for task in tasks:
            self._begin(task)
        self._pending += len(tasks)
        scores: list[tuple[int, list[Score]]] = []
        end = time.monotonic() + wait_s
        while self._pending:
            try:
                scores.append(self._finished.get(timeout=max(0.0, end - time.monotonic())))
            except queue.Empty:
                break
            self._pending -= 1
            if self._pending <= self._few and self._finished.empty():
                break
        told, self._told = self._told, self._grader.stats
        return Reply(scores, self._told.retries - told.retries, self._told.worker_deaths - told.worker_deaths)

    def _begin(self, task: Task) -> None:
        if task.together:
            futures = self._grader.submit_group(task.prompt, task.completions)
        else:
            futures = [self._grader.submit(task.prompt, completion) for completion in task.completions]
        left, lock = [len(futures)], threading.Lock()

        def done(_: object) -> None:
            with lock:
                left[0] -= 1
                last = not left[0]
            if last:
                self._finished.put((task.number, [future.result() for future in futures]))

        for future in futures:
            future.add_done_callback(partial(done))

    def close(self) -> None:
        """End the workers."""
        self._grader.close()
