"""A run that is hurt again and again, beside one that is left alone: both must end with the same weights.

    python benchmarks/soak.py [--minutes N] [--every SECONDS] [--seed N] [--output DIR]

Trains a small model from nothing on programs (the sandbox) and on episodes (sessions). Every so often one process of the hurt
run is killed: the trainer, which is started again, a worker that grades or plays sessions, or a process of a sandbox; the kinds
take turns. How many steps fit into the minutes is measured first; then both runs train side by side. Prints the kills. The exit
code is 1 where weights or logged steps differ, where the weights have not changed at all, or where a kind was never killed. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

LENGTH = {"length": {"weight": 0.5, "options": {"target": 40}}}
"""A reward that a model gets before it can do anything, without which no weight would ever change."""
FIELDS: dict[str, Any] = {
    "sources": [
        {"environment": "functions", "add": LENGTH},
        {"environment": "number_guessing", "options": {"numbers": 8}},
        {"environment": "arithmetic", "options": {"digits": 1}, "add": LENGTH},
    ],
    "seed": 3,
    "prompts_per_step": 6,
    "group_size": 4,
    "max_new_tokens": 24,
    "max_turns": 4,
    "learning_rate": 1e-4,
    "checkpoint_every": 5,
    "eval_every": 0,
    "device": "cpu",
    "threads": 1,
    "workers": 2,
    "loggers": [],
}


def below(pid: int) -> dict[int, int]:
    """Return the descendants of the process `pid`, each with its parent, as /proc lists them."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        parents.setdefault(int(fields.rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found: dict[int, int] = {}
    todo = [pid]
    while todo:
        above = todo.pop()
        children = parents.get(above, [])
        found |= dict.fromkeys(children, above)
        todo += children
    return found


KINDS = (
    "trainer",
    "worker with a sandbox",
    "worker without one",
    "cell of a sandbox",
    "pid 1 of a cell",
    "process of a program",
)


def victims(trainer: int) -> dict[str, list[int]]:
    """Return the processes of a run by kind, one of KINDS. Workers grade or play sessions; cells are below them."""
    parents = below(trainer)
    depth: dict[int, int] = {}  # in a sandbox: its cell has 1
    workers: dict[int, str] = {}
    for pid, parent in parents.items():  # parents come first
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if parent in depth:
            depth[pid] = depth[parent] + 1
        elif "spawn_main" in line:
            workers[pid] = "worker without one"
        elif parent in workers:
            depth[pid] = 1
            workers[parent] = "worker with a sandbox"
    found: dict[str, list[int]] = {"trainer": [trainer]}
    for pid, kind in workers.items():
        found.setdefault(kind, []).append(pid)
    for pid, levels in depth.items():
        found.setdefault(KINDS[2 + min(levels, 3)], []).append(pid)
    return found


def start(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    """Start or resume a run."""
    folder.mkdir(exist_ok=True)
    config = folder / "run.json"
    config.write_text(
        json.dumps({**FIELDS, "model": str(folder.parent / "model"), "output": str(folder / "out"), "steps": steps})
    )
    log = (folder / "log").open("ab")
    command = [sys.executable, "-m", "verigym", "train", "--config", str(config)]
    with log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True
        )


def end(folder: Path) -> tuple[str, list[int]]:
    """Return the hash of the final weights, and the steps that are logged."""
    rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    weights = hashlib.sha256((folder / "out/final/model.safetensors").read_bytes()).hexdigest()
    return weights, [row["step"] for row in rows if row["kind"] == "train"]


def finish(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait for a run that nobody hurts."""
    if process.wait() != 0:
        raise SystemExit(f"the run in {folder} failed: {(folder / 'log').read_text(errors='replace')[-2000:]}")


def hurt(folder: Path, steps: int, every_s: float, seed: int) -> Counter[str]:
    """Train to the last step while processes are killed, and return the number of kills by kind.

    The kind with the fewest kills so far comes next.
    """
    from verigym.trainer.rng import keyed_random

    kills: Counter[str] = Counter()
    process, number = start(folder, steps), 0
    while True:
        randomness = keyed_random("soak", seed, number)
        try:
            code = process.wait(every_s * (0.5 + randomness.random()))
        except subprocess.TimeoutExpired:
            number += 1
            present = victims(process.pid)
            kind = min(sorted(present), key=lambda name: (kills[name], randomness.random()))
            try:
                os.kill(randomness.choice(present[kind]), signal.SIGKILL)
            except OSError:  # it has ended by itself
                continue
            kills[kind] += 1
            print(f"  {time.strftime('%H:%M:%S')} killed a {kind}", flush=True)
            if kind == "trainer":
                process.wait()
                process = start(folder, steps)
        else:
            if code != 0:
                raise SystemExit(f"the run failed with {code}: {(folder / 'log').read_text(errors='replace')[-3000:]}")
            return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the two runs, which share the machine; about")
    parser.add_argument("--every", type=float, default=60.0, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="folder that is kept, whose runs go on if it has some")
    arguments = parser.parse_args()

    from verigym.trainer.models.scratch import CONVERSATION_TEMPLATE, scratch_qwen3, scratch_tokenizer

    with tempfile.TemporaryDirectory() as made:
        output = arguments.output or Path(made)
        output.mkdir(parents=True, exist_ok=True)
        if not (output / "model").exists():
            texts = ["def f(n): return n + 1 # guess 3 higher lower \\boxed{4} ```python"] * 3
            tokenizer = scratch_tokenizer(texts, 300, template=CONVERSATION_TEMPLATE)
            model = scratch_qwen3(tokenizer, hidden_size=64, layers=2, intermediate_size=128, max_positions=4096, seed=1)
            model.save_pretrained(output / "model")
            tokenizer.save_pretrained(output / "model")
        begun = time.perf_counter()
        finish(start(output / "probe", 6), output / "probe")
        probe_s = time.perf_counter() - begun
        rows = [json.loads(line) for line in (output / "probe/out/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        step_s = sum(row["step_s"] for row in rows if row["kind"] == "train") / 6
        has_runs = (output / "alone/out/final").exists()  # of an earlier soak, which this one goes on with
        done = max(end(output / "alone")[1]) if has_runs else 0
        steps = done + max(10, int(arguments.minutes * 60 / step_s))
        print(f"{probe_s:.0f} s for 6 steps, {step_s:.2f} s a step: {steps} steps", flush=True)
        undisturbed = start(output / "alone", steps)
        try:
            kills = hurt(output / "hurt", steps, arguments.every, arguments.seed)
            finish(undisturbed, output / "alone")
        finally:
            undisturbed.kill()
        alone, after = end(output / "alone"), end(output / "hurt")
        same = alone == after
        learnt = after[0] != hashlib.sha256((output / "model/model.safetensors").read_bytes()).hexdigest()
        if not learnt:
            print("the weights are still those of the beginning: that they are the same proves nothing")
        print(f"kills: {', '.join(f'{kills[kind]} {kind}' for kind in KINDS)}")
        print(f"weights {after[0][:16]}, {len(after[1])} steps: {'as undisturbed' if same else f'NOT {alone[0][:16]}'}")
        print(json.dumps({"steps": steps, "kills": kills, "same": same, "learnt": learnt}))
    sys.exit(0 if same and learnt and all(kills[kind] for kind in KINDS) else 1)  # what was not killed was not tried


if __name__ == "__main__":
    main()
