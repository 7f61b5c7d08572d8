"""The driver's side of a cluster, with nodes in this process that come, go, stall and die when a test says so."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sample_envs import ExactEnvironment, ScriptedEnvironment

from verigym.cluster import engine as cluster_engine
from verigym.cluster.engine import AFTER_LOSSES, IN_FLIGHT, MOST_LOSSES, ClusterEngine, grader_settings
from verigym.cluster.nodes import NeverHosts, NodeHost, NodeInfo, NodeLost, Reply, Task
from verigym.cluster.ray_cluster import own_sigterm
from verigym.envs import Status, UsageError
from verigym.envs.contract.base import Environment
from verigym.envs.grading import Grader
from verigym.envs.grading import grader as grader_module
from verigym.envs.grading.workers import Limits

LIMITS = Limits(30.0, None, 60.0)
SECONDS = 300


class LocalNode:
    """A node whose host is in this process."""

    def __init__(self, name: str, environments: Mapping[str, Environment]) -> None:
        self.name = name
        self.host = NodeHost(environments, grader_settings(LIMITS, 0, 0))
        self.dead = threading.Event()
        self.most = 0
        """Most tasks that it had at a time."""
        self.held = 0
        self.silent = False
        """Whether it takes tasks and answers none."""
        self.seen: list[int] = []
        self.gate: Callable[[], object] = lambda: None
        """What it waits for before it takes tasks."""

    def exchange(self, tasks: Sequence[Task], wait_s: float) -> Reply:
        self.gate()
        if self.dead.is_set():
            raise NodeLost("somebody pulled the plug")
        self.seen += [task.number for task in tasks]
        self.held += len(tasks)
        self.most = max(self.most, self.held)
        if self.silent:
            time.sleep(wait_s)
            return Reply()
        reply = self.host.exchange(tasks, wait_s)
        self.held -= len(reply.scores)
        return reply

    def close(self) -> None:
        self.host.close()


class LocalCluster:
    """Nodes by name, added and removed by the test."""

    def __init__(self, environments: Mapping[str, Environment], *names: str) -> None:
        self.environments = environments
        self.infos: dict[str, NodeInfo] = {}
        self.made: dict[str, LocalNode] = {}
        self.on_open: Callable[[str], None] = lambda name: None
        self.prepare: Callable[[LocalNode], None] = lambda node: None
        self.closed = 0
        for name in names:
            self.add(name)

    def add(self, name: str, *resources: str) -> None:
        self.infos[name] = NodeInfo(name, frozenset(resources))

    def kill(self, name: str) -> None:
        self.infos.pop(name, None)
        self.made[name].dead.set()

    def nodes(self) -> Mapping[str, NodeInfo]:
        return dict(self.infos)

    def open(self, node: str) -> LocalNode:
        self.on_open(node)
        made = LocalNode(node, self.environments)
        self.prepare(made)
        self.made[node] = made
        return made

    def close(self) -> None:
        self.closed += 1
        for node in self.made.values():
            node.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the nodes often, so that tests are short."""
    monkeypatch.setattr(cluster_engine, "LOOK_S", 0.02)
    monkeypatch.setattr(cluster_engine, "WAIT_S", 0.01)
    monkeypatch.setattr(cluster_engine, "AGAIN_S", 0.1)


Opened = Callable[..., tuple[Grader, LocalCluster]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a Grader on a local cluster; closed at the end."""
    graders: list[Grader] = []

    def make(environments: Mapping[str, Environment], *names: str, no_node_s: float = SECONDS, **settings: Any) -> Any:
        cluster = LocalCluster(environments, *names)

        def open_cluster(kind: str, given: Any, *, workers: Any, retries: Any, **rest: Any) -> ClusterEngine:
            return ClusterEngine(given, lambda: cluster, no_node_s=no_node_s, **rest)

        monkeypatch.setattr(grader_module, "open_cluster", open_cluster)
        graders.append(Grader(environments, cluster="ray", **settings))
        return graders[-1], cluster

    yield make
    for grader in graders:
        grader.close()


def items(environment: Any, count: int) -> Any:
    for i in range(count):
        yield environment.prompt(f"q{i}", answer=str(i)), f"answer: {i if i % 2 else 'no'}"


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


def together(*names: str) -> Callable[[LocalNode], None]:
    """Have each of these nodes wait with its first tasks until all have tasks, so that none is left out however slow it is."""
    barrier = threading.Barrier(len(names), timeout=SECONDS)

    def prepare(node: LocalNode) -> None:
        def first() -> None:
            barrier.wait()
            node.gate = lambda: None

        if node.name in names:
            node.gate = first

    return prepare


def test_two_nodes_give_the_verdicts_of_the_local_grader_in_order(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a", "b")
    cluster.prepare = together("a", "b")
    scores = grader.grade(items(env, 1600))
    assert [score.reward for score in scores] == [float(i % 2) for i in range(1600)]
    assert {score.grader for score in scores} == {env.grader}
    assert grader.stats.by_status == {"exact": {Status.CORRECT: 800, Status.INCORRECT: 800}}
    assert sum(one.graded for one in grader.nodes) == 1600 and all(one.graded for one in grader.nodes)
    assert all(node.most <= IN_FLIGHT for node in cluster.made.values())


def test_a_node_that_dies_loses_and_doubles_nothing(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a", "b")
    both = together("a", "b")

    def prepare(node: LocalNode) -> None:
        both(node)
        exchange = node.exchange

        def dies(tasks: Sequence[Task], wait_s: float) -> Reply:
            exchange(tasks, wait_s)
            cluster.kill("b")
            cluster.add("c")
            raise NodeLost("somebody pulled the plug")  # after it had graded, before it could say so

        if node.name == "b":
            node.exchange = dies  # type: ignore[method-assign]

    cluster.prepare = prepare
    rewards = [score.reward for score in grader.stream(items(env, 3000))]
    assert rewards == [float(i % 2) for i in range(3000)]
    assert sum(sum(counts.values()) for counts in grader.stats.by_status.values()) == 3000
    figures = {one.name: one for one in grader.nodes}
    assert figures["b"].state == "lost: somebody pulled the plug" and figures["b"].in_flight == 0
    until(lambda: {one.name: one for one in grader.nodes}["c"].state == "grading")


def test_a_host_that_ends_on_a_node_that_stays_is_started_again(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a")
    assert grader.grade(items(env, 10))[1].reward == 1.0
    first = cluster.made["a"]
    first.dead.set()  # the node is listed as alive all the time
    assert [score.reward for score in grader.grade(items(env, 20))] == [float(i % 2) for i in range(20)]
    assert cluster.made["a"] is not first
    [figures] = grader.nodes
    assert (figures.graded, figures.state) == (30, "grading")


def test_an_answer_that_comes_twice_counts_once(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a")

    def stutters(node: LocalNode) -> None:
        exchange = node.exchange

        def twice(tasks: Sequence[Task], wait_s: float) -> Reply:
            reply = exchange(tasks, wait_s)
            return Reply([*reply.scores, *reply.scores], reply.retries, reply.worker_deaths)

        node.exchange = twice  # type: ignore[method-assign]

    cluster.prepare = stutters
    assert [score.reward for score in grader.grade(items(env, 100))] == [float(i % 2) for i in range(100)]
    assert sum(sum(counts.values()) for counts in grader.stats.by_status.values()) == 100


def test_an_item_that_is_there_whenever_nodes_are_lost_is_given_up(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "n0")
    opened_nodes: list[LocalNode] = []

    def deadly(node: LocalNode) -> None:
        opened_nodes.append(node)
        if len(opened_nodes) > MOST_LOSSES:
            return
        exchange = node.exchange

        def dies(tasks: Sequence[Task], wait_s: float) -> Reply:
            if tasks:
                raise NodeLost("it took the node with it")
            return exchange(tasks, wait_s)

        node.exchange = dies  # type: ignore[method-assign]

    cluster.prepare = deadly
    [score] = grader.grade(items(env, 1))
    assert score.reward is None and score.error is not None
    assert (score.error.kind, score.error.message) == ("unavailable", f"{MOST_LOSSES} nodes were lost while they had this item")
    assert grader.grade(items(env, 2))[1].reward == 1.0


def test_an_item_that_takes_nodes_along_is_found_and_costs_no_other_its_verdict(opened: Opened) -> None:
    """Whatever node has it is lost; the items beside it are tried in smaller groups, and ordinary ones are not at stake.

    How many items the first node was given together with it depends on how fast they came.
    """
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "n0", "n1")
    lost: list[int] = []

    def fragile(node: LocalNode) -> None:
        exchange = node.exchange

        def dies(tasks: Sequence[Task], wait_s: float) -> Reply:
            if any("poison" in str(task.completions) for task in tasks):
                lost.append(len(tasks))
                raise NodeLost("it took the node with it")
            return exchange(tasks, wait_s)

        node.exchange = dies  # type: ignore[method-assign]

    cluster.prepare = fragile
    work = [*items(env, 200), (env.prompt("q", answer="1"), "poison"), *items(env, 200)]
    scores = grader.grade(work)
    assert [score.reward for score in scores[:200]] == [score.reward for score in scores[201:]] == [i % 2 for i in range(200)]
    assert scores[200].error is not None and scores[200].error.kind == "unavailable"
    assert len(lost) == MOST_LOSSES and lost[-1] == 1, lost
    assert all(size <= most for size, most in zip(lost[1:], AFTER_LOSSES, strict=True)), lost


def test_items_go_only_to_nodes_with_the_resources(opened: Opened) -> None:
    exact, scripted = ExactEnvironment(), ScriptedEnvironment()
    scripted.resources = ("sandbox",)  # type: ignore[attr-defined]
    grader, cluster = opened({"exact": exact, "scripted": scripted})
    cluster.add("plain")
    cluster.add("boxed", "sandbox", "gpu")
    work = [(one.prompt("q", answer="1"), "answer: 1") for one in (exact, scripted) * 50]
    work = [(prompt, f"{text} {number}") for number, (prompt, text) in enumerate(work)]
    assert all(score.grader for score in grader.grade(work))
    until(lambda: "plain" in cluster.made)
    lanes = {state.info.name: state.lanes for state in grader._engine._states.values()}  # type: ignore[attr-defined]
    assert lanes == {"plain": {"exact"}, "boxed": {"exact", "scripted"}}


def test_where_no_node_may_grade_an_error_says_what_is_missing(opened: Opened) -> None:
    env = ExactEnvironment()
    env.resources = ("lean", "sandbox")  # type: ignore[attr-defined]
    grader, cluster = opened({"exact": env}, no_node_s=0.3)
    cluster.add("plain", "sandbox")
    with pytest.raises(UsageError) as refused:
        grader.grade(items(env, 3))
    assert "no node of the cluster may grade 'exact': it needs a node with the resources lean, sandbox" in str(refused.value)
    assert "plain (sandbox; has none of the resources that are needed)" in str(refused.value)
    assert 'ray start --resources \'{"lean": 1, "sandbox": 1}\'' in str(refused.value)
    with pytest.raises(UsageError, match="no node of the cluster"):
        grader.submit(env.prompt("q", answer="1"), "answer: 1")


def test_start_waits_for_a_node_and_says_where_there_is_none(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a")
    grader.start()
    assert [one.state for one in grader.nodes] == ["grading"]
    alone, _ = opened({"exact": env}, no_node_s=0.2)
    with pytest.raises(UsageError, match="for 0.2 s there was none; seen: none"):
        alone.start()


def test_a_node_that_can_never_grade_is_left_out(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "broken", "good")

    def refuse(name: str) -> None:
        if name == "broken":
            raise NeverHosts("the module of the environment is not there")

    cluster.on_open = refuse
    assert [score.reward for score in grader.grade(items(env, 20))] == [float(i % 2) for i in range(20)]
    why = "cannot grade: the module of the environment is not there"
    until(lambda: {one.name: one.state for one in grader.nodes}["broken"] == why)


def test_all_nodes_gone_for_good_is_an_error_and_no_reward(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a", no_node_s=0.3)
    assert grader.grade(items(env, 2))[1].reward == 1.0
    cluster.kill("a")
    with pytest.raises(UsageError, match="no node of the cluster may grade 'exact'"):
        grader.grade(items(env, 5))


def test_groups_equal_items_and_the_cache_work_as_without_a_cluster(opened: Opened, tmp_path: Any) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a", cache=tmp_path / "cache")
    prompt = env.prompt("q", answer="7")
    futures = [grader.submit(prompt, "answer: 7") for _ in range(5)]
    assert {future.result(SECONDS).reward for future in futures} == {1.0}
    assert grader.stats.deduplicated + grader.stats.cache_hits >= 1
    graded = sum(one.graded for one in grader.nodes)
    assert grader.submit(prompt, "answer: 7").result(SECONDS).reward == 1.0
    assert sum(one.graded for one in grader.nodes) == graded, "a kept verdict goes to no node"
    group = grader.submit_group(prompt, ["answer: 7", "answer: 8"])
    assert [future.result(SECONDS).reward for future in group] == [1.0, 0.0]


def test_a_limit_on_an_environment_holds_in_the_whole_cluster(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a", "b", concurrency={"exact": 3})
    assert len(grader.grade(items(env, 200))) == 200
    assert sum(node.most for node in cluster.made.values()) <= 2 * 3
    assert max(node.most for node in cluster.made.values()) <= 3


def test_closed_in_the_middle_every_item_has_an_answer(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a")

    def silent(node: LocalNode) -> None:
        node.silent = True

    cluster.prepare = silent
    futures = [grader.submit(prompt, text) for prompt, text in items(env, 700)]
    until(lambda: bool(cluster.made) and cluster.made["a"].most == IN_FLIGHT)
    grader.close()
    scores = [future.result(SECONDS) for future in futures]
    assert {score.error.message for score in scores if score.error} == {"the grader was closed"} and len(scores) == 700
    with pytest.raises(UsageError, match="the grader is closed"):
        grader.submit(env.prompt("q", answer="1"), "answer: 1")


def test_a_grader_that_is_closed_twice_leaves_its_cluster_once(opened: Opened) -> None:
    env = ExactEnvironment()
    grader, cluster = opened({"exact": env}, "a")
    assert len(grader.grade(items(env, 3))) == 3
    for _ in range(2):
        grader.close()
    assert cluster.closed == 1


@pytest.mark.parametrize("in_thread", [True, False])
def test_what_sigterm_does_is_kept_where_a_cluster_is_joined(in_thread: bool) -> None:
    """Ray replaces the handler of the C library in any thread, and Python's too in the main thread."""
    got: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))

    def join() -> None:
        with own_sigterm():
            if not in_thread:
                signal.signal(signal.SIGTERM, lambda number, frame: None)
            ctypes.CDLL(None).signal(signal.SIGTERM, 1)  # SIG_IGN

    try:
        if in_thread:
            thread = threading.Thread(target=join)
            thread.start()
            thread.join()
        else:
            join()
        signal.raise_signal(signal.SIGTERM)
        assert got == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("name", ["slurm", "rays", "ray2:x"])
def test_an_unknown_kind_of_cluster_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="expected ray, or KIND:ADDRESS"):
        Grader(ExactEnvironment(), cluster=name)


def test_ray_is_named_where_it_is_not_installed_or_not_asked_for() -> None:
    from verigym.trainer.config.run import build_config

    with pytest.raises(UsageError, match="cluster"):
        build_config({"model": "m", "output": "o", "sources": [{"environment": "arithmetic"}], "cluster": "slurm"}, "test")
