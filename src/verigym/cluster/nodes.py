"""`Cluster` and `Node`: the interface through which the engine uses a cluster. `NodeHost`: grades on a node with a `Grader`.

A hanging or crashing item is handled on its node: it ends one worker process there and nothing else.
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
    """A node that is alive."""

    name: str
    """For people: its host name, or its address."""
    resources: frozenset[str]
    """Resources that the node offers beside CPU cores, such as `sandbox`, `lean`, `gpu`."""


@dataclass(frozen=True)
class Task:
    """A unit of work for a node: an item to grade, or a group of completions to be judged together."""

    number: int
    prompt: Prompt
    completions: tuple[Completion, ...]
    together: bool


@dataclass(frozen=True)
class Reply:
    """The results that a node has finished since its last reply."""

    scores: list[tuple[int, list[Score]]] = field(default_factory=list)
    """By the task's number."""
    retries: int = 0
    worker_deaths: int = 0
    """Both since the last reply."""


class NodeLost(Exception):
    """Raised when a node, or the host process on it, is gone. The tasks without an answer are lost."""


class NeverHosts(Exception):
    """Raised when a node can never start a worker, because the environments or the installation on the node do not allow it."""


class Node(Protocol):
    """The driver's connection to the host on one node, which is the process that grades there.

    Only one thread may use it, but any thread may call `close`.
    """

    def exchange(self, tasks: Sequence[Task], wait_s: float) -> Reply:
        """Send `tasks` and return the finished results. If there are none, wait up to `wait_s` seconds for some.

        Raises:
            NodeLost: the node is gone.
            NeverHosts: the node's workers cannot be started.
        """

    def close(self) -> None:
        """End the host and its workers."""


class Cluster(Protocol):
    """A cluster whose nodes may join and leave at any time."""

    def nodes(self) -> Mapping[str, NodeInfo]:
        """Return the nodes that are alive, by id. The id of one node is never used for another."""

    def open(self, node: str) -> Node:
        """Start a host, the process that grades, on `node`; wait until it is ready, and return the connection to it.

        Raises:
            NodeLost: the node is gone, or has no room for a host.
            NeverHosts: nothing can be graded on this node.
        """

    def close(self) -> None:
        """Leave the cluster."""


class NodeHost:
    """Grades tasks on one node with a Grader.

    Args:
        environments: the environments by name.
        settings: keyword arguments of the node's Grader.
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
        """Accept `tasks` and return the finished results; see `Node.exchange`.

        The call collects results for `wait_s` seconds, or less if the workers are about to run out of tasks. It does not return
        at the first result, because one exchange can cost more time than many verdicts: few exchanges are better.
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
