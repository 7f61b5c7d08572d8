"""The runs of `benchmarks/learning.py`, and its command line."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

from verigym.trainer.config.run import TrainConfig, build_config
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.rollout.graders import open_graders
from verigym.trainer.rollout.held_out import evaluate
from verigym.trainer.stages import quickstart
from verigym.trainer.tasks.mixture import build_source

HAS_TRL = importlib.util.find_spec("trl") is not None
METHODS = ("grpo", "dr_grpo", "dapo", "gspo", "rloo", "trl")
EVALUATE_EVERY = 10

Point = tuple[float, float]
"""Sampled tokens so far, held-out accuracy."""


def settings(folder: Path, seed: int, steps: int, preset: str | None, threads: int) -> TrainConfig:
    """The quickstart's settings, with other lengths and a paper's choices."""
    sizes = quickstart.Sizes(grpo_steps=steps, eval_every=EVALUATE_EVERY)
    fields = quickstart._config(folder, seed, sizes, threads).model_dump(exclude_unset=True)
    output = str(folder / "runs" / (preset or "trl"))  # the quickstart has a folder grpo of its own
    return build_config({**fields, "output": output, **({"preset": preset} if preset else {})}, "learning")


def ours(config: TrainConfig) -> list[Point]:
    """Train and return the curve of the run's own evaluations."""
    train(config)
    tokens, curve = 0.0, []
    for row in read_rows(config.output / "metrics.jsonl"):
        if row["kind"] == "train":
            groups = row.get("sampled_groups", config.prompts_per_step)
            tokens += row["completion_tokens"] * groups * config.group_size
        elif row["kind"] == "eval":
            curve.append((tokens, float(row["accuracy"])))
    return curve


def theirs(config: TrainConfig) -> list[Point]:
    """Train with TRL on the prompts that our run draws, with DAPO's loss, and return its curve."""
    from trainer_parts.trl_learning import train_with_trl

    tokenizer = transformers.AutoTokenizer.from_pretrained(config.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(config.model, dtype=torch.float32)
    sources = [build_source(source, config.seed, config.eval_prompts) for source in config.sources]
    codec = Codec(tokenizer, model.generation_config)
    curve: list[Point] = []
    with open_graders(sources, config) as graders:

        def measure(policy: Any, tokens: float) -> None:
            engine = NativeEngine(policy, codec, rows_at_a_time=config.generation_rows, dtype=config.dtype)
            metrics, _ = evaluate(engine, codec, sources, graders, config)
            curve.append((tokens, metrics["accuracy"]))

        measure(model.eval(), 0.0)
        train_with_trl(model, tokenizer, sources, config, measure, EVALUATE_EVERY)
    return curve


@dataclass(frozen=True)
class Learned:
    """A run's curve and what it cost, evaluations included."""

    curve: list[Point]
    wall_s: float
    cpu_s: float
    """Of this process and the grading processes that have ended."""

    def within(self, budget: float) -> Point:
        """Return the last point that cost at most so many tokens."""
        return max(point for point in self.curve if point[0] <= budget)


def run(folder: Path, method: str, seed: int, steps: int, threads: int) -> Learned:
    """Return a method's curve, from its file where it is there."""
    file = folder / f"{method}.json"
    if not file.exists():
        config = settings(folder, seed, steps, None if method == "trl" else method, threads)
        wall, cpu = time.perf_counter(), _cpu_s()
        curve = theirs(config) if method == "trl" else ours(config)
        found = Learned(curve, time.perf_counter() - wall, _cpu_s() - cpu)
        file.write_text(json.dumps(asdict(found)), encoding="utf-8")
    fields = json.loads(file.read_text(encoding="utf-8"))
    return Learned(**{**fields, "curve": [(tokens, accuracy) for tokens, accuracy in fields["curve"]]})


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(description: str) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--steps", type=int, default=quickstart.Sizes().grpo_steps // 4)
    parser.add_argument("--budget", type=float, default=400_000, help="sampled tokens that a figure may have cost")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold-start-steps", type=int, default=quickstart.Sizes().cold_start_steps)
    arguments = parser.parse_args()
    if arguments.output is None:
        print("learning: nothing is run without --output DIR, because it takes hours; see docs/benchmarks.md")
        print(json.dumps({}))
        return
    torch.set_num_threads(arguments.threads)
    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore", category=FutureWarning)
    methods = [method for method in arguments.methods if method != "trl" or HAS_TRL]
    if methods != arguments.methods:
        print("trl: left out, because TRL is not installed here; docs/benchmarks.md says how to install it")
    found: dict[str, list[float]] = {method: [] for method in methods}
    costs: dict[str, list[float]] = {method: [] for method in methods}
    for seed in arguments.seeds:
        folder = arguments.output / f"seed-{seed}"
        sizes = quickstart.Sizes(grpo_steps=1, cold_start_steps=arguments.cold_start_steps)
        quickstart.quickstart(folder, seed, sizes, arguments.threads)  # for its cold start
        for method in methods:
            learned = run(folder, method, seed, arguments.steps, arguments.threads)
            tokens, accuracy = learned.within(arguments.budget)
            found[method].append(accuracy)
            spent = learned.curve[-1][0] / 1e5
            costs[method].append(learned.cpu_s / spent)
            print(
                f"seed {seed}  {method:<8} {accuracy:.3f} after {tokens:8.0f} tokens (at the start {learned.curve[0][1]:.3f})  "
                f"a 100,000 tokens: {learned.wall_s / spent:.0f} s, CPU {learned.cpu_s / spent:.0f} s",
                flush=True,
            )
    means = {method: round(statistics.mean(values), 3) for method, values in found.items()}
    print(json.dumps(means | {f"{method}_cpu_s": round(statistics.median(values), 1) for method, values in costs.items()}))
