"""Runs training stages other than GRPO on the CPU and on the device: the first update's loss and gradient must be the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from verigym.trainer.gpu_check.runs import differences
from verigym.trainer.gpu_check.task import write_model
from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.reward_models.config import PrmConfig, RewardModelConfig
from verigym.trainer.reward_models.process_training import train_prm
from verigym.trainer.reward_models.training import train_reward_model
from verigym.trainer.stages.config import SftConfig
from verigym.trainer.stages.sft import sft

STEPS = 8
QUICK: Mapping[str, Any] = {
    "threads": 1,
    "loggers": (),
    "steps": STEPS,
    "batch_size": 8,
    "warmup_steps": 0,
    "learning_rate": 1e-3,
}


def first_updates(place: Path, device: str) -> dict[str, dict[str, float]]:
    """Train each stage on the CPU and on `device`, and compare the first updates.

    Return, by stage and metric, the difference in units of the tolerance; see `runs.differences`.
    """
    model = write_model(place / "model")
    examples = _lines(
        place / "examples.jsonl", [{"prompt": f"train {n} plus", "completion": f" {n} is {n}"} for n in range(64)]
    )
    pairs = _lines(
        place / "pairs.jsonl", [{"prompt": f"train {n}", "chosen": f"{n} plus {n}", "rejected": f"is {n}"} for n in range(64)]
    )
    steps = _lines(
        place / "steps.jsonl",
        [{"prompt": f"train {n}", "steps": [f"is {n}", f"plus {n}"], "labels": [1, n % 2]} for n in range(64)],
    )
    trained: Mapping[str, tuple[Callable[[Any], Path], type[Any], Path]] = {
        "sft": (sft, SftConfig, examples),
        "reward_model": (train_reward_model, RewardModelConfig, pairs),
        "prm": (train_prm, PrmConfig, steps),
    }
    found: dict[str, dict[str, float]] = {}
    for name, (train, kind, data) in trained.items():
        first: list[Mapping[str, Any]] = []
        for where, on in (("here", "cpu"), ("there", device)):
            output = place / where / name
            train(kind(model=str(model), output=output, data=(data,), device=on, **QUICK))
            rows = [row for row in read_rows(output / "metrics.jsonl") if row["kind"] == "train"]
            assert len(rows) == STEPS
            first.append(rows[0])
        found[name] = differences(first[0], first[1], ("loss", "grad_norm"))
    return found


def _lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
