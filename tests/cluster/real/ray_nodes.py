"""Grading on Ray nodes of this machine: run by `test_ray.py` in an environment that has Ray. The last line is JSON."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster
from slow_env import Sleeper

from verigym import UsageError, load
from verigym.client import Client, RetryPolicy
from verigym.envs.grading import Grader

COUNT = 6000


def numbers(env: Any, count: int) -> Any:
    """Yield items, every third of which is wrong."""
    prompts = [env.prompt(f"Which number comes after {place}?", kind="exact", answer=str(place + 1)) for place in range(100)]
    for number in range(count):
        place = number % 100
        yield prompts[place], f"<answer>{place + (0 if number % 3 == 0 else 1)}</answer> {number}"


def killed_and_added(cluster: Cluster) -> dict[str, Any]:
    """Kill a node a third of the way, add one at half."""
    env = load("match")
    joined = cluster.add_node(num_cpus=1)
    rewards = []
    with Grader(env, cluster="ray", workers=1) as grader:
        for number, score in enumerate(grader.stream(numbers(env, COUNT))):
            rewards.append(score.reward)
            if number == COUNT // 3:
                cluster.remove_node(joined, allow_graceful=False)
            if number == COUNT // 2:
                joined = cluster.add_node(num_cpus=1)
        graded, nodes = sum(one.graded for one in grader.nodes), len(grader.nodes)
    cluster.remove_node(joined)
    right = rewards == [float(number % 3 != 0) for number in range(COUNT)]
    return {"right": right, "graded": graded, "nodes": nodes}


def host_killed() -> dict[str, Any]:
    """End the actor, and not the node that it is on."""
    env = load("match")
    rewards, killed = [], 0
    with Grader(env, cluster="ray", workers=1) as grader:
        for number, score in enumerate(grader.stream(numbers(env, COUNT // 3))):
            rewards.append(score.reward)
            if number == 500:
                for process in psutil.Process().children(recursive=True):
                    if "RayHost" in " ".join(process.cmdline()):
                        process.send_signal(signal.SIGKILL)
                        killed += 1
        states = {one.state for one in grader.nodes}
    right = rewards == [float(number % 3 != 0) for number in range(COUNT // 3)]
    return {"right": right, "killed": killed, "states": sorted(states)}


def mixture() -> dict[str, Any]:
    """Compare the verdicts on mathematics, programs and an environment that hangs with those of the local Grader."""
    math, code, sleeper = load("math"), load("code"), Sleeper()
    tests = [{"type": "call", "function": "f", "args": [n], "expected": 2 * n} for n in range(3)]
    items: list[Any] = []
    for number in range(40):
        items.append((math.prompt(f"What is {number} + 1?", answer=str(number + 1)), f"\\boxed{{{number + number % 2}}}"))
        program = f"```python\ndef f(n):\n    return {1 + number % 2} * n  # {number}\n```"
        items.append((code.prompt("Write f.", tests=tests), program))
        items.append((sleeper.prompt("Go.", seconds=60.0 if number % 20 == 7 else 0.01), f"text {number}"))
    environments = [math, code, sleeper]
    with Grader(environments, workers=1, timeout_s=3.0, retries=0) as grader:
        here = [(score.status.value, score.reward) for score in grader.grade(items)]
    with Grader(environments, cluster="ray", workers=1, timeout_s=3.0, retries=0) as grader:
        there = [(score.status.value, score.reward) for score in grader.grade(items)]
    return {"items": len(items), "equal": here == there, "unscored": sum(reward is None for _, reward in there)}


def refused() -> str:
    """Return what is said where no node has Lean."""
    lean = load("lean")
    with Grader(lean, cluster="ray", workers=1) as grader:
        grader._engine._no_node_s = 3.0  # type: ignore[attr-defined]
        try:
            grader.grade([(lean.prompt("Prove it.", name="t", statement="theorem t : True"), "by trivial")])
        except UsageError as error:
            return str(error)
    return ""


def command(address: str) -> dict[str, Any]:
    """Compare `verigym grade` with and without `--cluster`."""
    rows = [{"prompt": f"{n}+1?", "answer": str(n + 1), "completion": f"\\boxed{{{n + n % 2}}}"} for n in range(50)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = []
    for name, options in (("here", []), ("there", ["--cluster", f"ray:{address}", "--workers", "1"])):
        done = subprocess.run(
            [sys.executable, "-m", "verigym", "grade", "rows.jsonl", "--env", "math", "--out", f"{name}.jsonl", *options],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [json.loads(line) for line in Path(f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        found.append([(line["row"], line["score"]["reward"], line["score"]["status"]) for line in lines])
        shown = done.stdout + done.stderr
    return {"equal": found[0] == found[1], "lines": len(found[1]), "nodes": "items a second" in shown}


def service(cluster: Cluster) -> dict[str, Any]:
    """Ask a service on the cluster for verdicts while a node is killed."""
    joined = cluster.add_node(num_cpus=1)
    command = [
        "serve",
        "--env",
        "math",
        "--env",
        "slow_env:Sleeper",
        "--cluster",
        f"ray:{cluster.address}",
        "--workers",
        "1",
        "--port",
        "0",
    ]
    with open("serve.err", "w", encoding="utf-8") as errors:
        served = subprocess.Popen([sys.executable, "-m", "verigym", *command], stdout=subprocess.PIPE, stderr=errors, text=True)
    assert served.stdout is not None
    line = served.stdout.readline()
    assert line.startswith("serving "), Path("serve.err").read_text(encoding="utf-8")
    rewards: dict[int, float | None] = {}
    with Client(line.split(" on ")[1].split(";")[0], retries=RetryPolicy(patience_s=120)) as client:
        items = (
            client.item(environment="math", prompt="?", reference={"answer": str(n)}, completion=f"\\boxed{{{n + n % 2}}}")
            for n in range(1500)
        )
        for answer in client.score_batch(items, size=100):
            assert answer.index not in rewards and answer.score is not None, answer
            rewards[answer.index] = answer.score.reward
            if len(rewards) == 400:
                cluster.remove_node(joined, allow_graceful=False)
        # What is accepted is answered: it takes longer than the three seconds that Ray would leave a process.
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(client.score, environment="sleeper", prompt="?", reference={"seconds": 8.0}, completion="text")
            time.sleep(3.0)
            served.send_signal(signal.SIGTERM)
            accepted = late.result(60).reward
    right = rewards == {n: float(n % 2 == 0) for n in range(1500)}
    return {"right": right, "accepted": accepted, "exit": served.wait(120)}


PIPELINE = """
output: {output}
defaults: {{device: cpu, max_new_tokens: 8, threads: 1, workers: 1{cluster}}}
shared:
  sums: &sums
    - {{environment: arithmetic, options: {{digits: 1}}, add: {{length: {{weight: 0.5, options: {{target: 20}}}}}}}}
stages:
  - {{name: base, kind: scratch, demonstrations: *sums, hidden_size: 32, layers: 1, vocabulary: 300}}
  - {{name: rl, kind: grpo, model: "stage:base", sources: *sums, steps: 4, prompts_per_step: 4, learning_rate: 1.0e-2}}
  - {{name: after, kind: evaluate, models: {{rl: "stage:rl"}}, sources: *sums, prompts: 20, samples: 2}}
"""


def pipeline(address: str) -> dict[str, Any]:
    """Train and evaluate with the verdicts of the cluster, and with those of this machine."""
    ends = []
    for name, cluster in (("alone", ""), ("on_nodes", f', cluster: "ray:{address}"')):
        Path(f"{name}.yaml").write_text(PIPELINE.format(output=name, cluster=cluster), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "verigym", "pipeline", "run", f"{name}.yaml"], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (base,), (rl,) = (Path(name).glob(f"{stage}-*/final/model.safetensors") for stage in ("base", "rl"))
        (path,) = Path(name).glob("after-*/samples-*.jsonl")
        samples = [json.loads(line)["samples"] for line in path.read_text(encoding="utf-8").splitlines()[1:]]
        for *_, score in (sample for prompt in samples for sample in prompt):
            del score["seconds"]
        weights = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (base, rl)]
        ends.append((weights, samples))
    return {"equal": ends[0] == ends[1], "learnt": ends[0][0][0] != ends[0][0][1], "prompts": len(ends[1][1])}


def main() -> None:
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "resources": {"sandbox": 1}, "include_dashboard": False}
    )
    try:
        ray.init(cluster.address, log_to_driver=False, logging_level="ERROR")
        parts = {
            "killed_and_added": lambda: killed_and_added(cluster),
            "host_killed": host_killed,
            "mixture": mixture,
            "refused": refused,
            "command": lambda: command(cluster.address),
            "service": lambda: service(cluster),
            "pipeline": lambda: pipeline(cluster.address),
        }
        found = {}
        for name, part in parts.items():
            start = time.monotonic()
            found[name] = part()
            print(f"{name}: {time.monotonic() - start:.1f} s, {found[name]}", flush=True)
    finally:
        ray.shutdown()
        cluster.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
