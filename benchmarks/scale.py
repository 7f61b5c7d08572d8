"""`verigym scale` against real runs: two small runs calibrate the model, which then predicts four others.

    python benchmarks/scale.py [--steps N] [--hidden N]

Verdicts wait without using a core, as a judge on another machine does; the engine and the learner have a thread each, so that
on two cores nothing slows another. Each configuration is one the calibration has not seen: three times the completions, one
worker, four times the workers, and `overlap: one_step`. Prints predicted and measured seconds of a step; the last line is
one JSON object. A loaded machine stretches steps, so check `uptime` first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from scale_parts.slow_verdicts import SlowVerdicts
from turns import made

PROMPTS, GROUP, WORKERS = 8, 8, 3
BAR = 1.2


def run(folder: Path, model: Path, steps: int, **changed: Any) -> Path:
    """Train and return the output folder."""
    from verigym.trainer.config.run import TrainConfig
    from verigym.trainer.loop import train

    fields: dict[str, Any] = {
        "model": str(model),
        "output": folder,
        "sources": [{"environment": "slow_verdicts"}],
        "steps": steps,
        "prompts_per_step": PROMPTS,
        "group_size": GROUP,
        "max_new_tokens": 128,
        "learning_rate": 1e-9,  # lengths stay as they are
        "eval_every": 0,
        "device": "cpu",
        "threads": 1,
        "workers": WORKERS,
        "loggers": [],
    }
    train(TrainConfig(**{**fields, **changed}), {"slow_verdicts": SlowVerdicts()})
    return folder


def measured(folder: Path) -> float:
    """Return the mean seconds of a step, without the first quarter."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = [row["step_s"] for row in rows if row["kind"] == "train"]
    return statistics.fmean(seconds[len(seconds) // 4 :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=256)
    arguments = parser.parse_args()

    import torch

    from verigym.scale.calibration import calibrate
    from verigym.scale.simulation import Plant, simulate

    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; {arguments.steps} steps a run")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, codec = made(arguments.hidden)
        model.save_pretrained(folder / "model")
        codec.tokenizer.save_pretrained(folder / "model")
        small = run(folder / "small", folder / "model", arguments.steps)
        large = run(folder / "large", folder / "model", arguments.steps, group_size=2 * GROUP)
        costs = calibrate([small, large])
        print(f"calibrated: {costs.model_dump_json()}")
        cases: dict[str, tuple[dict[str, Any], Plant, int]] = {
            "three times the completions": ({"prompts_per_step": 3 * PROMPTS}, Plant(1, WORKERS), 3 * PROMPTS * GROUP),
            "one worker": ({"workers": 1}, Plant(1, 1), PROMPTS * GROUP),
            "four times the workers": ({"workers": 4 * WORKERS}, Plant(1, 4 * WORKERS), PROMPTS * GROUP),
            "overlap: one_step": (
                {"overlap": "one_step", "correction": "token_truncated"},
                Plant(1, WORKERS, overlap=True),
                PROMPTS * GROUP,
            ),
        }
        ratios = {}
        for number, (case, (changed, plant, completions)) in enumerate(cases.items()):
            predicted = simulate(costs, plant, completions=completions).step_s
            seconds = measured(run(folder / f"run-{number}", folder / "model", arguments.steps, **changed))
            ratios[case] = max(predicted / seconds, seconds / predicted)
            print(f"  {case:<28} predicted {predicted:6.3f} s   measured {seconds:6.3f} s   ratio {predicted / seconds:5.2f}")
        print(f"within a factor of {BAR}: {sum(ratio <= BAR for ratio in ratios.values())} of {len(ratios)}")
        print(json.dumps({"off_by": ratios, "costs": costs.model_dump()}))


if __name__ == "__main__":
    main()
