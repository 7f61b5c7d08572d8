"""The nodes of a Ray cluster. On each node, one Ray actor runs a `Grader` with worker processes.

Ray only transports tasks and verdicts, and retries nothing. If an actor is gone, its node counts as lost, and the engine
decides what happens to the node's items.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from verigym.cluster.engine import ClusterEngine, grader_settings
from verigym.cluster.nodes import NeverHosts, NodeHost, NodeInfo, NodeLost, Reply, Task
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt
from verigym.envs.extras import need
from verigym.envs.grading.cache import ScoreCache
from verigym.envs.grading.judging import resources_of
from verigym.envs.grading.workers import Limits

START_S = 120.0
"""Time limit in seconds for starting a host (the actor on a node): its process, its imports and its workers."""
ANSWER_S = 60.0
"""Time limit in seconds for one exchange of tasks and results. An exchange does not wait for slow items, so a node that takes
longer counts as lost."""
KEPT_PROMPTS = 4096
"""Maximum number of recent prompts that are cached: in packed form on the driver, and unpacked on each node."""
PackedTask = tuple[int, bytes, list[tuple[str, Completion | None]], bool]
"""A `Task` in the form that Ray sends: number, packed prompt, completions, and whether these are judged together."""
OURS = ("sandbox", "lean")
"""Names of Ray resources that say what a node can grade, in addition to Ray's own resource `GPU`. Example: `ray start
--resources '{"sandbox": 1}'`."""


def open_engine(
    environments: Mapping[str, Environment],
    address: str,
    *,
    workers: int | None,
    limits: Limits,
    retries: int,
    concurrency: Mapping[str, int],
    cache: ScoreCache | None,
) -> ClusterEngine:
    """Return an engine that grades on a Ray cluster.

    Args:
        environments: the environments by name.
        address: the cluster's address, as `ray.init` accepts it; empty for the one in RAY_ADDRESS, or else a new local cluster.
        workers: number of worker processes per node; None for one per core.
        limits: limits on one item and on a worker's start.
        retries: how often an item is tried again on its node.
        concurrency: maximum number of items graded at a time in the whole cluster, by environment.
        cache: score cache, kept on this machine.

    Raises:
        UsageError: Ray is not installed, or `workers` is 0.
    """
    need("ray", "cluster: ray")
    if workers == 0:
        raise UsageError("workers=0 grades in this process, and `cluster` on others; leave one of them out")
    settings = grader_settings(limits, workers, retries)
    return ClusterEngine(
        environments,
        lambda: RayCluster(address, dict(environments), settings),
        limits=limits,
        concurrency=concurrency,
        cache=cache,
    )


@contextlib.contextmanager
def own_sigterm() -> Iterator[None]:
    """Keep what SIGTERM does in this process while Ray connects it to a cluster.

    Ray puts its handler in front of ours. It lets ours run, but kills the process three seconds later, in which a run cannot
    save a checkpoint, nor a service answer what it has accepted. In the main thread it also replaces Python's handler.
    """
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGTERM)
        try:
            yield
        finally:
            if handler is not None:  # None: not set from Python
                signal.signal(signal.SIGTERM, handler)
        return
    libc = ctypes.CDLL(None)
    action = ctypes.create_string_buffer(1024)  # a `struct sigaction`, which has fewer than 200 bytes
    libc.sigaction(signal.SIGTERM, None, action)
    try:
        yield
    finally:
        libc.sigaction(signal.SIGTERM, action, None)


class RayCluster:
    """The nodes of a Ray cluster, on which it starts hosts; implements `Cluster`.

    Args:
        address: see `open_engine`.
        environments: the environments by name. They are sent to every node, where their modules must be importable.
        settings: keyword arguments of the Grader on each node.
    """

    def __init__(self, address: str, environments: dict[str, Environment], settings: Mapping[str, Any]) -> None:
        import ray

        self._environments, self._settings = environments, settings
        self._packed = PackedPrompts()
        self._wants_gpu = any("gpu" in resources_of(one) for one in environments.values())
        self._ours = not ray.is_initialized()
        if self._ours:
            with own_sigterm():
                self._join(address)

    @staticmethod
    def _join(address: str) -> None:
        import ray

        try:
            ray.init(address or None, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        except ValueError:  # an option is for new clusters, and RAY_ADDRESS or `address` names one
            ray.init(address or None, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError as error:
            where = address or "RAY_ADDRESS"
            raise UsageError(f"cluster: no Ray cluster answers at {where}: {error}; `ray status` says what is there") from None

    def nodes(self) -> Mapping[str, NodeInfo]:
        """Return the nodes that are alive and have cores, by node id."""
        import ray

        found = {}
        for one in ray.nodes() if ray.is_initialized() else ():
            resources = one.get("Resources", {})
            if one.get("Alive") and resources.get("CPU", 0) >= 1:
                offered = {name for name in OURS if resources.get(name, 0) > 0} | (
                    {"gpu"} if resources.get("GPU", 0) > 0 else set()
                )
                name = f"{one.get('NodeName', '')}/{one['NodeID'][:6]}"
                found[one["NodeID"]] = NodeInfo(name, frozenset(offered))
        return found

    def open(self, node: str) -> RayNode:
        """Start the host, a Ray actor, on `node` and return the connection to it; see `Cluster.open`."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        found: dict[str, float] = next((one["Resources"] for one in ray.nodes() if one["NodeID"] == node and one["Alive"]), {})
        cores = found.get("CPU", 0)
        if cores < 1:
            raise NodeLost("it has left the cluster")
        workers = int(cores) if self._settings["workers"] is None else int(self._settings["workers"])
        actor = ray.remote(RayHost).options(
            num_cpus=min(workers, cores),
            num_gpus=1 if self._wants_gpu and found.get("GPU", 0) >= 1 else 0,  # without one Ray hides all GPUs
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        host = RayNode(actor.remote(self._environments, {**self._settings, "workers": workers}), self._packed)
        try:
            host.exchange((), 0.0, START_S)
        except NodeLost as lost:
            host.close()
            raise NodeLost(f"no host was ready there: {lost}") from None
        return host

    def close(self) -> None:
        """Disconnect from Ray. If the process was connected to Ray before this object was made, it stays connected."""
        import ray

        if self._ours:
            ray.shutdown()


class RayHost(NodeHost):
    """The Ray actor that hosts a Grader on a node. It unpacks a prompt only once for all its completions."""

    def __init__(self, environments: Mapping[str, Environment], settings: Mapping[str, Any]) -> None:
        super().__init__(environments, settings)
        self._prompt = functools.lru_cache(KEPT_PROMPTS)(pickle.loads)

    def exchange_packed(self, tasks: Sequence[PackedTask], wait_s: float) -> Reply:
        """Unpack `tasks`, accept them and return the finished results; see `Node.exchange`."""
        unpacked = [
            Task(number, self._prompt(prompt), tuple(_completion(text, more) for text, more in completions), together)
            for number, prompt, completions, together in tasks
        ]
        return self.exchange(unpacked, wait_s)


class PackedPrompts:
    """Cache of recently sent prompts as bytes, so that a prompt is not packed again for each of its completions.

    It is shared by the threads of all nodes. If two threads pack the same prompt, this does no harm.
    """

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def __call__(self, prompt: Prompt) -> bytes:
        """Return a prompt as bytes."""
        packed = self._kept.get(prompt.key)
        if packed is None:
            packed = pickle.dumps(prompt, pickle.HIGHEST_PROTOCOL)
            if len(self._kept) >= KEPT_PROMPTS:
                self._kept.clear()
            self._kept[prompt.key] = packed
        return packed


def _plain(completion: Completion) -> tuple[str, Completion | None]:
    """Return a completion's text, and the completion itself where it is more than that: objects take longer to travel."""
    more = completion.model_fields_set - {"text"}
    return completion.text, completion if more else None


def _completion(text: str, whole: Completion | None) -> Completion:
    return Completion(text=text) if whole is None else whole


class RayNode:
    """The driver's connection to the Ray actor that runs a `Grader` on a node; implements `Node`."""

    def __init__(self, actor: Any, packed: Callable[[Prompt], bytes]) -> None:
        self._actor, self._packed = actor, packed

    def exchange(self, tasks: Sequence[Task], wait_s: float, answer_s: float = ANSWER_S) -> Reply:
        """Send `tasks` and return the finished results; see `Node.exchange`.

        Args:
            tasks: the tasks to grade.
            wait_s: how long, in seconds, to wait for results if there are none.
            answer_s: the node counts as lost if it has not answered after this many seconds.
        """
        sent = [
            (task.number, self._packed(task.prompt), [_plain(one) for one in task.completions], task.together) for task in tasks
        ]
        return self._asked(lambda: self._actor.exchange_packed.remote(sent, wait_s), answer_s)

    def _asked(self, call: Callable[[], Any], answer_s: float) -> Reply:
        import ray

        if not ray.is_initialized():  # Ray would connect again by itself
            raise NodeLost("the process has disconnected from Ray")
        try:
            reply: Reply = ray.get(call(), timeout=answer_s)
        except ray.exceptions.GetTimeoutError:
            raise NodeLost(f"it gave no answer for {answer_s:g} s") from None
        except ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, NeverHosts) else None
            raise NeverHosts(str(cause or error)) from None
        except ray.exceptions.RayActorError as error:
            if "NeverHosts" in str(error):  # it was raised where the host was made
                raise NeverHosts(str(error).strip().splitlines()[-1]) from None
            raise NodeLost(str(error).strip().splitlines()[0][:200]) from None
        except ray.exceptions.RayError as error:
            raise NodeLost(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}") from None
        return reply

    def close(self) -> None:
        """Kill the actor; its workers end with it."""
        import ray

        with contextlib.suppress(Exception):
            if ray.is_initialized():
                ray.kill(self._actor)
