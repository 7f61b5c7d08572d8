"""The runs of `conversations.py`, and their tables."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from conversation_parts import starts
from verigym.envs.games.number_guessing import best_bound, blind_bound
from verigym.trainer import train
from verigym.trainer.config.run import build_config
from verigym.trainer.monitoring.logs import read_rows

Source = dict[str, Any]
CALCULATOR: Source = {
    "environment": "arithmetic",
    "options": starts.SUMS,
    "tools": {"calculator": {}},
    "name": "with_calculator",
}
ANSWERS: Source = {"environment": "arithmetic", "options": starts.SUMS, "name": "without"}
GUESSING: Source = {"environment": "number_guessing", "options": starts.GUESSING, "name": "guessing"}
ONE_TURN: Source = {"environment": starts.ONE_TURN[0], "options": starts.ONE_TURN[1], "name": "one_turn"}

# name -> (kinds of examples, supervised steps, sources, steps of GRPO, settings)
RUNS: Mapping[str, tuple[tuple[str, ...], int, tuple[Source, ...], int, dict[str, Any]]] = {
    "calculator": (("calculator",), 900, (CALCULATOR,), 40, {"max_turns": 3}),
    "without": (("answers",), 900, (ANSWERS,), 40, {}),
    "guessing": (("guessing",), 700, (GUESSING,), 60, {"max_turns": starts.GUESSES}),
    "mixture": (("calculator", "one_turn"), 1400, (CALCULATOR, ONE_TURN), 40, {"max_turns": 3}),
}


def run(name: str, seed: int, folder: Path, threads: int) -> list[dict[str, Any]]:
    """Make the start and train from it; return the rows of its metrics."""
    kinds, supervised, sources, steps, settings = RUNS[name]
    model = folder / f"{name}-{seed}-start"
    starts.start(model, kinds, seed, supervised)
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(folder / f"{name}-{seed}"),
        "seed": seed,
        "sources": list(sources),
        "steps": steps,
        "prompts_per_step": 16,
        "group_size": 8,
        "max_new_tokens": 120,
        "learning_rate": 2e-4,
        "eval_prompts": 150,
        "eval_every": steps,
        "checkpoint_every": steps,
        "canary_share": 0.0,
        "device": "cpu",
        "threads": threads,
        **settings,
    }
    train(build_config(fields, name))
    return read_rows(folder / f"{name}-{seed}" / "metrics.jsonl")


def main(description: str | None) -> None:
    """Run what was asked for, and print the tables."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    parser.add_argument("--output", type=Path, help="folder that keeps the runs; a stopped one is resumed")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    folder = arguments.output or Path(tempfile.mkdtemp(prefix="conversations-"))
    print(f"load {os.getloadavg()[0]:.1f}; {arguments.threads} thread(s); runs in {folder}")
    result: dict[str, Any] = {}
    for name in arguments.only:
        rows = []
        for seed in range(arguments.seeds):
            begun = time.perf_counter()
            metrics = run(name, seed, folder, arguments.threads)
            evaluations = [row for row in metrics if row["kind"] == "eval"]
            trained = [row for row in metrics if row["kind"] == "train"]
            row = {"before": evaluations[0]["accuracy"], "after": evaluations[-1]["accuracy"]}
            row |= {key: evaluations[-1][key] for key in evaluations[-1] if key.endswith("/accuracy")}
            faults = [one["with_calculator/malformed_calls"] for one in trained if "with_calculator/malformed_calls" in one]
            if faults:
                row |= {"malformed_first": statistics.fmean(faults[:5]), "malformed_last": statistics.fmean(faults[-5:])}
            row["minutes"] = (time.perf_counter() - begun) / 60
            print(f"{name:<12} seed {seed}: " + ", ".join(f"{key} {value:.3f}" for key, value in row.items()))
            rows.append(row)
        result[name] = {key: round(statistics.fmean(row[key] for row in rows), 4) for key in rows[0]}
        result[name]["least"] = min(row["after"] for row in rows)
    result["bounds"] = {
        "ignoring the replies": blind_bound(starts.NUMBERS, starts.GUESSES),
        "best": best_bound(starts.NUMBERS, starts.GUESSES),
    }
    print(json.dumps(result))
