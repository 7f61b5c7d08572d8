"""A run that is hurt again and again, beside one that is left alone: both must end with the same weights.

    python benchmarks/soak.py [--minutes N] [--every SECONDS] [--seed N] [--output DIR]

Trains a small model from nothing on programs (the sandbox) and on episodes (sessions). Every so often one process of the run is
killed: the trainer, which is started again, or any process below it: workers of grading, of sessions, of the sandbox. How many
steps fit into half of the minutes is measured first; then the run is left alone once, and hurt once. Prints the kills by kind.
The exit code is 1 where weights or logged steps differ. The last line is one JSON object.
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

FIELDS: dict[str, Any] = {
    "sources": [
        {"environment": "functions"},
        {"environment": "number_guessing", "options": {"numbers": 8}},
        {"environment": "arithmetic", "options": {"digits": 1}},
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


def below(pid: int) -> list[int]:
    """Return the processes below one, by /proc."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        parents.setdefault(int(fields.rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def kind(pid: int) -> str:
    """Return what a process is, by its command line."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    if "spawn_main" in line:
        return "worker of grading or sessions"
    return "" if "resource_tracker" in line else "process of the sandbox" if "-S" in line else "other"


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
    """Run to the end with kills, drawn by hash, and return how many of each kind there were."""
    from verigym.trainer.rng import keyed_random

    kills: Counter[str] = Counter()
    process, number = start(folder, steps), 0
    while True:
        randomness = keyed_random("soak", seed, number)
        try:
            code = process.wait(every_s * (0.5 + randomness.random()))
        except subprocess.TimeoutExpired:
            number += 1
            victims = [pid for pid in below(process.pid) if kind(pid)]
            if randomness.random() < 0.4 or not victims:
                kills["trainer"] += 1
                process.kill()
                process.wait()
                process = start(folder, steps)
                continue
            victim = randomness.choice(victims)
            what = kind(victim)
            try:
                os.kill(victim, signal.SIGKILL)
                kills[what] += 1
            except OSError:
                continue
        else:
            if code != 0:
                raise SystemExit(f"the run failed with {code}: {(folder / 'log').read_text(errors='replace')[-3000:]}")
            return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="of both runs together, about")
    parser.add_argument("--every", type=float, default=60.0, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="folder that is kept; a temporary one by default")
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
        steps = max(10, int(arguments.minutes * 60 / 2 / step_s))
        print(f"{probe_s:.0f} s for 6 steps, {step_s:.2f} s a step: {steps} steps", flush=True)
        finish(start(output / "alone", steps), output / "alone")
        kills = hurt(output / "hurt", steps, arguments.every, arguments.seed)
        alone, after = end(output / "alone"), end(output / "hurt")
        same = alone == after
        print(f"kills: {', '.join(f'{count} {what}' for what, count in sorted(kills.items())) or 'none'}")
        print(f"weights {after[0][:16]}, {len(after[1])} steps: {'as undisturbed' if same else f'NOT {alone[0][:16]}'}")
        print(json.dumps({"steps": steps, "kills": kills, "same": same}))
    sys.exit(0 if same and kills else 1)  # without a kill nothing was tried


if __name__ == "__main__":
    main()
