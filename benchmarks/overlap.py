"""What `overlap: one_step` costs in accuracy, and what it gains in time, against the same run without it.

    python benchmarks/overlap.py --output DIR [--part accuracy|gain] [--seeds N ...] [--steps N]

The quickstart's tasks and model, from the same cold start; on both sides the same loss with ratios to the sampler's
log-probabilities, and as many completions.

- `accuracy`: held-out accuracy (greedy, mean over the tasks) after `--steps` steps, by seed, with sampled tokens. The interval
  is Student's, at 95%, for the synchronous mean over the seeds.
- `gain`: seconds of a step, synchronous runs and runs with overlap in turns, beside the bound (g + u) / max(g, u) that
  `--dry-run` prints, here from the synchronous runs' own times. Generation and update have one thread each: the figure is
  for two free cores.

What is done already in DIR is not done again. The last line is one JSON object. It takes an hour on two cores, so nothing is
run without --output; check `uptime` before you believe a gain.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

SIDES: dict[str, dict[str, Any]] = {"synchronous": {}, "one_step": {"overlap": "one_step"}}
STUDENT_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""By number of seeds."""


def run(folder: Path, seed: int, steps: int, name: str, **changed: Any) -> list[dict[str, Any]]:
    """Train from the seed's cold start unless that is done, and return the rows of its metrics."""
    from verigym.trainer.config.run import build_config
    from verigym.trainer.loop import train
    from verigym.trainer.monitoring.logs import read_rows
    from verigym.trainer.stages import quickstart

    quickstart.quickstart(folder, seed, quickstart.Sizes(grpo_steps=1), 1)  # for its cold start
    sizes = quickstart.Sizes(grpo_steps=steps, eval_every=steps)
    fields = quickstart._config(folder, seed, sizes, 1).model_dump(exclude_unset=True)
    config = build_config({**fields, "output": str(folder / "runs" / name), "workers": 1, "loggers": [], **changed}, "overlap")
    train(config)
    return read_rows(config.output / "metrics.jsonl")


def accuracy(output: Path, seeds: list[int], steps: int) -> dict[str, Any]:
    """Print and return held-out accuracy and sampled tokens of both sides, by seed."""
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    tokens: dict[str, list[float]] = {side: [] for side in SIDES}
    for seed in seeds:
        for side, changed in SIDES.items():
            rows = run(output / f"seed-{seed}", seed, steps, f"{side}-{steps}", **changed)
            trained = [row for row in rows if row["kind"] == "train"]
            found[side].append([row["accuracy"] for row in rows if row["kind"] == "eval"][-1])
            tokens[side].append(sum(row["completions"] * row["completion_tokens"] for row in trained))
        shown = ", ".join(f"{side} {found[side][-1]:.3f} ({tokens[side][-1]:,.0f} tokens)" for side in SIDES)
        print(f"  seed {seed}: {shown}", flush=True)
    means = {side: statistics.fmean(values) for side, values in found.items()}
    result: dict[str, Any] = {"accuracy": found, "tokens": tokens, "mean": means}
    if len(seeds) in STUDENT_95:
        half = STUDENT_95[len(seeds)] * statistics.stdev(found["synchronous"]) / len(seeds) ** 0.5
        low, high = means["synchronous"] - half, means["synchronous"] + half
        inside = low <= means["one_step"] <= high
        said = "inside" if inside else "OUTSIDE"
        print(f"  one_step {means['one_step']:.3f}, {said} {low:.3f} to {high:.3f} (synchronous {means['synchronous']:.3f})")
        result |= {"interval": [low, high], "inside": inside}
    return result


def gain(output: Path, seeds: list[int], steps: int, repeats: int) -> dict[str, Any]:
    """Print and return the seconds of a step of both sides, the gain and its bound."""
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    halves: list[tuple[float, float]] = []
    for repeat in range(repeats):
        for side, changed in SIDES.items():
            rows = run(output / f"seed-{seeds[0]}", seeds[0], steps, f"gain-{side}-{steps}-{repeat}", eval_every=0, **changed)
            kept = [row for row in rows if row["kind"] == "train"][steps // 4 : -1]  # the last step samples nothing ahead
            seconds[side].append(statistics.fmean(row["step_s"] for row in kept))
            if side == "synchronous":
                halves += [(row["generate_grade_s"], row["update_s"]) for row in kept]
    generation, update = (statistics.fmean(half[part] for half in halves) for part in (0, 1))
    step = {side: statistics.median(values) for side, values in seconds.items()}
    bound, measured = (generation + update) / max(generation, update), step["synchronous"] / step["one_step"]
    print(
        f"  generation {generation:.3f} s, update {update:.3f} s: at most {bound:.2f} times shorter; a step takes "
        f"{step['synchronous']:.3f} s, with overlap {step['one_step']:.3f} s: {measured:.2f} times shorter"
    )
    return {"step_s": seconds, "bound": bound, "gain": measured}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--part", choices=("accuracy", "gain"), help="this alone")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--gain-steps", type=int, default=24)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.output is None:
        print("overlap: nothing is run without --output DIR, because it takes an hour")
        print(json.dumps({}))
        return

    import torch

    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    found: dict[str, Any] = {}
    if arguments.part != "accuracy":
        found["gain"] = gain(arguments.output, arguments.seeds, arguments.gain_steps, arguments.repeats)
    if arguments.part != "gain":
        found["accuracy"] = accuracy(arguments.output, arguments.seeds, arguments.steps)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
