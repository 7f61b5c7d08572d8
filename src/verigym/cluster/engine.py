"""`ClusterEngine`: the engine of a `Grader` with worker processes on the nodes of a cluster.

The queue, the results that equal items share, the cache and the counters are on the driver, as without a cluster. The driver
has one thread per node. The thread hands the node a limited number of tasks at a time and receives the verdicts. When a node is
lost, its unanswered tasks are queued again under new numbers. A late answer has an old number and is ignored, so each verdict
counts once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from verigym.cluster.nodes import Cluster, NeverHosts, Node, NodeInfo, NodeLost, Task
from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score, Status
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.grading.engine import Engine, Job
from verigym.envs.grading.judging import resources_of
from verigym.envs.grading.workers import Limits

logger = logging.getLogger("verigym.cluster")

IN_FLIGHT = 512
"""Tasks that a node has at a time."""
BATCH = 256
"""Tasks that are handed over at once."""
WAIT_S = 0.1
"""Maximum time in seconds that a node waits for new results before it answers a call of `Node.exchange`."""
LOOK_S = 0.5
"""Time between two looks at which nodes there are."""
NO_NODE_S = 60.0
"""Default of `no_node_s`: after so many seconds without a node that can grade an environment, the environment's items are
refused."""
AGAIN_S = 5.0
"""Seconds after which a new host (the process that grades on a node) is started on a node that is alive but lost its host."""
AFTER_LOSSES = (64, 8, 1)
"""How many lost jobs are tried again together on a node: the three numbers are for jobs that were lost with one, two and three
nodes. The groups become smaller in order to isolate a job that kills nodes."""
MOST_LOSSES = len(AFTER_LOSSES) + 1
"""A job that was lost with this many nodes is given up. When the last of them was lost, the job was alone on it, so the job is
the cause."""


@dataclass
class NodeState:
    """What the driver knows about one node: its host, the jobs that it has, and what it has graded so far."""

    info: NodeInfo
    lanes: frozenset[str]
    """Environments that it may grade."""
    thread: threading.Thread | None = None
    node: Node | None = None
    held: dict[int, Job] = field(default_factory=dict)
    """Jobs without an answer yet, by their task's number."""
    suspicious: bool = False
    """Whether the held jobs are suspects, that is, jobs that were lost with an earlier node. A node gets no ordinary jobs
    beside suspects."""
    graded: int = 0
    busy_s: float = 0.0
    """Seconds that earlier hosts on it graded."""
    since: float = field(default_factory=time.monotonic)
    ended: float | None = None
    lost: bool = False
    """Whether the node's host (the process that grades) was lost. The node itself may still be alive."""
    why: str = ""
    """Why it is not used any more; empty while it is."""

    def again(self) -> bool:
        """Return True if it is time to try another host on this node."""
        return self.lost and self.ended is not None and time.monotonic() - self.ended > AGAIN_S


@dataclass(frozen=True)
class NodeFigures:
    """How much one node has graded, and how fast."""

    name: str
    graded: int
    rate: float
    """Items a second since it joined."""
    in_flight: int
    state: str
    """`grading`, `starting`, or why it is not used any more."""


class ClusterEngine(Engine):
    """Grades jobs on the nodes of a cluster.

    Args:
        environments: the environments by name.
        cluster: function that returns the cluster; it is called once, by the first job or by `start`.
        limits: limits on one item and on a worker's start; they apply on the nodes.
        concurrency: maximum number of items graded at a time in the whole cluster, by environment.
        cache: score cache, kept on the driver.
        no_node_s: if no node can grade an environment for this many seconds, the environment's items are refused.
    """

    def __init__(
        self,
        environments: Mapping[str, Environment],
        cluster: Callable[[], Cluster],
        *,
        limits: Limits,
        concurrency: Mapping[str, int],
        cache: ScoreCache | None,
        no_node_s: float = NO_NODE_S,
    ) -> None:
        super().__init__(environments, workers=1, limits=limits, retries=0, concurrency=concurrency, cache=cache)
        self._make = cluster
        self._cluster: Cluster | None = None
        self._no_node_s = no_node_s
        self._states: dict[str, NodeState] = {}
        self._needs = {name: frozenset(resources_of(one)) for name, one in environments.items()}
        self._numbers = itertools.count()
        self._losses: dict[str, int] = {}
        """How often a job was lost with its node, by the job's key."""
        self._suspects: list[Job] = []
        """Jobs that were lost with a node and are on no other yet."""
        self._suspects_lock = threading.Lock()
        self._covered = dict.fromkeys(environments, time.monotonic())
        """When each environment last had a node that may grade it."""
        self._watcher: threading.Thread | None = None
        self._stopped = threading.Event()
        self._first = threading.Event()
        """Set once a node is ready."""

    @property
    def look_ahead(self) -> int:
        """Number of items that should be queued to keep all nodes busy."""
        return max(2, len(self._states)) * 2 * IN_FLIGHT

    def figures(self) -> list[NodeFigures]:
        """Return each node's state and number of graded items, with the rate, in the order in which the nodes joined."""
        now = time.monotonic()
        return [
            NodeFigures(
                name=one.info.name,
                graded=one.graded,
                rate=one.graded / max(1e-9, one.busy_s + (one.ended or now) - one.since),
                in_flight=len(one.held),
                state=one.why or ("grading" if one.node is not None else "starting"),
            )
            for one in list(self._states.values())
        ]

    def start(self) -> None:
        """Join the cluster and wait until the first node is ready.

        Raises:
            UsageError: no node was ready in time, or there is an environment that no node may grade.
        """
        with self._lock:
            self._staff()
        while not self._first.wait(0.05):
            if self._unusable is not None:
                raise self._unusable
            if self._closed:
                return

    def _staff(self) -> None:
        if self._watcher is None and not self._closed:
            self._begun_in = os.getpid()
            self._covered = dict.fromkeys(self._covered, time.monotonic())
            self._watcher = threading.Thread(target=self._watch, name="verigym-cluster", daemon=True)
            self._watcher.start()

    def _watch(self) -> None:
        """Follow which nodes there are, until the engine is closed."""
        try:
            self._cluster = self._make()
            while not self._stopped.is_set():
                self._look(self._cluster.nodes())
                self._refuse_what_no_node_may_grade()
                self._stopped.wait(LOOK_S)
        except UsageError as error:
            self._give_up(error)
        except Exception as error:
            logger.exception("the cluster cannot be watched any more")
            self._give_up(UsageError(f"the cluster cannot be reached: {describe(error)}"))

    def _look(self, found: Mapping[str, NodeInfo]) -> None:
        for key, info in found.items():
            known = self._states.get(key)
            if known is not None and not known.again():
                continue
            lanes = frozenset(name for name, needs in self._needs.items() if needs <= info.resources)
            state = NodeState(info, lanes, graded=known.graded if known else 0, busy_s=known.busy_s if known else 0.0)
            self._states[key] = state
            if not lanes:
                state.why, state.ended = "has none of the resources that are needed", time.monotonic()
                continue
            state.thread = threading.Thread(
                target=self._serve, args=(key, state), name=f"verigym-node-{info.name}", daemon=True
            )
            state.thread.start()

    def _refuse_what_no_node_may_grade(self) -> None:
        now = time.monotonic()
        covered = {lane for state in self._states.values() if not state.why for lane in state.lanes}
        self._covered.update(dict.fromkeys(covered, now))
        for name, last in self._covered.items():
            if now - last < self._no_node_s:
                continue
            suspects = any(job.environment.name == name for job in self._suspects)
            if not self._first.is_set() or suspects or self._queue.waiting(name):
                self._give_up(self._nobody(name))
                return

    def _nobody(self, name: str) -> UsageError:
        needs = sorted(self._needs[name])
        seen = [f"{one.info.name} ({', '.join(sorted(one.info.resources)) or 'no resources'}; {one.why or 'in use'})"
                for one in self._states.values()]  # fmt: skip
        what = f"a node with the resource{'s' if len(needs) > 1 else ''} {', '.join(needs)}" if needs else "a node"
        example = ", ".join(f'"{need}": 1' for need in needs if need != "gpu")
        hint = f"; start one by: ray start --resources '{{{example}}}'" if example else ""
        return UsageError(
            f"no node of the cluster may grade {name!r}: it needs {what}, and for {self._no_node_s:g} s there was none; "
            f"seen: {'; '.join(seen) or 'none'}{hint}"
        )

    def _give_up(self, error: UsageError) -> None:
        """Raise the error from everything that waits, and from what is submitted later."""
        with self._lock:
            self._unusable = self._unusable or error
            jobs = list(self._in_flight.values())
            self._in_flight.clear()
        for job in jobs:
            for future in job.futures:
                if not future.done() and future.set_running_or_notify_cancel():
                    future.set_exception(self._unusable)

    def _serve(self, key: str, state: NodeState) -> None:
        """Hand a node its tasks and take its verdicts, until it is lost or the engine is closed."""
        assert self._cluster is not None
        try:
            node = self._cluster.open(key)
            state.node = node
            state.since = time.monotonic()
            self._first.set()
            while not self._stopped.is_set():
                tasks = self._taken(state)
                if not tasks and not state.held:
                    self._queue.wait(WAIT_S)
                    continue
                reply = node.exchange(tasks, WAIT_S)
                self.counter.add("retries", reply.retries)
                self.counter.add("worker_deaths", reply.worker_deaths)
                for number, scores in reply.scores:
                    self._answered(state, number, scores)
        except NodeLost as lost:
            state.why, state.lost = f"lost: {lost}", True
            logger.warning("node %s is lost: %s; its %d items go to others", state.info.name, lost, len(state.held))
        except NeverHosts as error:
            state.why = f"cannot grade: {error}"
            logger.warning("node %s cannot grade: %s", state.info.name, error)
        except Exception as error:  # nothing that happens in here may lose an item
            state.why = f"failed: {describe(error)}"
            logger.exception("node %s is not used any more", state.info.name)
        finally:
            state.ended = time.monotonic()
            state.busy_s += state.ended - state.since
            state.since = state.ended
            if not self._stopped.is_set():
                if state.node is not None:  # a host that cannot be reached may be there still
                    with contextlib.suppress(Exception):
                        state.node.close()
                self._hand_on(state)

    def _taken(self, state: NodeState) -> list[Task]:
        """Return the next tasks of a node, and note that it holds them."""
        suspects = self._next_suspects(state)
        if suspects is not None:
            return suspects
        tasks = []
        room = min(BATCH, IN_FLIGHT - len(state.held))
        for lane, job in self._queue.take_ready(room, state.lanes):
            try:
                if self._abandoned(job) or self._from_cache(job):
                    self._queue.done(lane)
                    continue
            except Exception as error:
                self._resolve_all(job, Score.failed("internal", f"grading failed: {describe(error)}"))
                self._queue.done(lane)
                continue
            tasks.append(self._given(state, job))
        return tasks

    def _given(self, state: NodeState, job: Job) -> Task:
        number = next(self._numbers)
        state.held[number] = job
        return Task(number, job.prompt, job.completions, job.together)

    def _next_suspects(self, state: NodeState) -> list[Task] | None:
        """Return the next group of suspects for a node as tasks; None if the node may get ordinary jobs.

        The list is empty while the node still has jobs of the other sort. The cause of a lost node is one of the jobs that it
        held. Suspects are tried in ever smaller groups, so that in the end only the cause is given up, and no ordinary job is
        lost with it.
        """
        with self._suspects_lock:
            mine = [job for job in self._suspects if job.environment.name in state.lanes]
            if state.held and (mine or state.suspicious):
                return []
            state.suspicious = bool(mine)
            if not mine:
                return None
            losses = self._losses[mine[0].key]
            group = [job for job in mine if self._losses[job.key] == losses][: AFTER_LOSSES[losses - 1]]
            chosen = set(map(id, group))
            self._suspects = [job for job in self._suspects if id(job) not in chosen]
        return [self._given(state, job) for job in group]

    def _answered(self, state: NodeState, number: int, scores: list[Score]) -> None:
        job = state.held.pop(number, None)
        if job is None:  # it has been answered before
            return
        state.graded += len(scores)
        self._losses.pop(job.key, None)
        for score in scores:
            if score.error is not None:
                self._log.warn(job.environment.name, score.error.kind, f"no score ({score.error.kind}): {score.error.message}")
        if all(score.error is None and score.status is not Status.LIMIT for score in scores):
            self._keep(job, scores)
        self._resolve(job, scores)
        self._queue.done(job.environment.name)

    def _hand_on(self, state: NodeState) -> None:
        """Make suspects of the jobs that a lost node has not answered; give up those lost with `MOST_LOSSES` nodes.

        A suspect still counts as running in its environment's limit on concurrency.
        """
        held, state.held = state.held, {}
        for job in held.values():
            losses = self._losses[job.key] = self._losses.get(job.key, 0) + 1
            if losses < MOST_LOSSES:
                with self._suspects_lock:
                    self._suspects.append(job)
                continue
            del self._losses[job.key]
            self._queue.done(job.environment.name)
            self._resolve_all(
                job, Score.failed("unavailable", f"{losses} nodes were lost while they had this item", retryable=True)
            )

    def _end_workers(self) -> None:
        if self._stopped.is_set():  # closed before; Ray would connect again for the sake of a second farewell
            return
        self._stopped.set()
        threads = [self._watcher, *(state.thread for state in self._states.values())]
        for state in list(self._states.values()):
            if state.node is not None and not state.why:
                with contextlib.suppress(Exception):
                    state.node.close()
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join(5.0)
        left = [job for state in list(self._states.values()) for job in state.held.values()]
        for job in [*left, *self._suspects]:
            self._resolve_all(job, Score.failed("unavailable", "the grader was closed", retryable=True))
        if self._cluster is not None:
            with contextlib.suppress(Exception):
                self._cluster.close()


def grader_settings(limits: Limits, workers: int | None, retries: int) -> dict[str, Any]:
    """Return keyword arguments for the Grader on a node."""
    return {
        "workers": workers,
        "timeout_s": limits.timeout_s,
        "memory_bytes": limits.memory_bytes,
        "start_timeout_s": limits.start_timeout_s,
        "retries": retries,
    }
