"""Grading on a Ray cluster of two nodes on this machine, while one is killed and one is added; and beside the local Grader.

    python benchmarks/cluster.py [--items N] [--compared N] [--rounds N]

- `exact`: N short gradings of `match` with a known verdict each; a third of the way one node is killed, at half one is added.
  Counts results, wrong ones and ones without a verdict, and the memory of this process.
- `ratio`: as many gradings on two nodes with one worker each, and by the local Grader with two workers, in turns: wall time
  and CPU time of all processes.

Needs Ray; the last line is one JSON object. Check `uptime` first: both sides want both cores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PLACES = 1000


def items(env: Any, count: int) -> Iterator[tuple[Any, str]]:
    """Yield items, every third of which is wrong."""
    prompts = [env.prompt(f"Which number comes after {place}?", kind="exact", answer=str(place + 1)) for place in range(PLACES)]
    for number in range(count):
        place = number % PLACES
        yield prompts[place], f"<answer>{place + (0 if number % 3 == 0 else 1)}</answer> {number}"


def memory_mb() -> float:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1e6


def cpu_s() -> float:
    """Return the CPU seconds of all processes of this user, those that have ended among them where a parent is there still."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            total += sum(map(int, path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def exact(cluster: Any, env: Any, count: int) -> dict[str, Any]:
    """Grade with a node killed and one added in the middle; return the counts."""
    from verigym.envs.grading import Grader

    joined = cluster.add_node(num_cpus=1)
    results = wrong = unscored = 0
    memory: list[float] = []
    start = time.perf_counter()
    with Grader(env, cluster="ray", workers=1) as grader:
        for number, score in enumerate(grader.stream(items(env, count))):
            results += 1
            unscored += score.reward is None
            wrong += score.reward is not None and score.reward != float(number % 3 != 0)
            if number == count // 3:
                cluster.remove_node(joined, allow_graceful=False)
                print(f"  {number:,}: a node is killed", flush=True)
            if number == count // 2:
                joined = cluster.add_node(num_cpus=1)
                print(f"  {number:,}: a node is added", flush=True)
            if number % max(1, count // 20) == max(1, count // 20) - 1:
                memory.append(memory_mb())
        figures = grader.nodes
    seconds = time.perf_counter() - start
    cluster.remove_node(joined)
    print(f"  {results:,} results of {count:,}, {wrong} wrong, {unscored} without a verdict, {count / seconds:,.0f} a second")
    for one in figures:
        print(f"    {one.name}: {one.graded:,} items, {one.rate:,.0f} a second, {one.state}")
    print(f"  memory of this process {min(memory):.1f} to {max(memory):.1f} MB")
    assert (results, wrong, unscored) == (count, 0, 0)
    return {
        "results": results,
        "wrong": wrong,
        "unscored": unscored,
        "seconds": seconds,
        "memory_mb": [min(memory), max(memory)],
    }


def ratio(cluster: Any, env: Any, count: int, rounds: int) -> dict[str, Any]:
    """Return the local Grader's time over the cluster's, by wall and by CPU."""
    from verigym.envs.grading import Grader

    joined = cluster.add_node(num_cpus=1)
    time.sleep(2)
    sides = {"local": Grader(env, workers=2), "cluster": Grader(env, cluster="ray", workers=1)}
    wall: dict[str, list[float]] = {side: [] for side in sides}
    cpu: dict[str, list[float]] = {side: [] for side in sides}
    for grader in sides.values():
        grader.grade(list(items(env, 2000)))
    for number in range(rounds):
        for side in list(sides)[:: 1 if number % 2 else -1]:
            before, start = cpu_s(), time.perf_counter()
            done = sum(1 for _ in sides[side].stream(items(env, count)))
            assert done == count
            wall[side].append(time.perf_counter() - start)
            cpu[side].append(cpu_s() - before)
    for grader in sides.values():
        grader.close()
    cluster.remove_node(joined)
    found = {
        what: statistics.median(of["local"]) / statistics.median(of["cluster"]) for what, of in (("wall", wall), ("cpu", cpu))
    }
    rates = {side: count / statistics.median(seconds) for side, seconds in wall.items()}
    print(
        f"  {count:,} items: local {rates['local']:,.0f} a second, two nodes {rates['cluster']:,.0f}; "
        f"{found['wall']:.2f} by wall, {found['cpu']:.2f} by CPU"
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--compared", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        from ray.cluster_utils import Cluster
    except ImportError:
        print("cluster: Ray is not installed; pip install 'verigym[ray]'")
        print(json.dumps({}))
        return
    import ray

    from verigym import load

    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    env = load("match")
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        found = {"exact": exact(cluster, env, arguments.items)}
        if arguments.compared:
            found["ratio"] = ratio(cluster, env, arguments.compared, arguments.rounds)
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
