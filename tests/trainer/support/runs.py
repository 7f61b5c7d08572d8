"""Short runs on the letters environment, for tests of the loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from letters import LettersEnvironment

from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train

LETTERS = {"letters": LettersEnvironment()}


def settings(model: Path, output: Path, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model": str(model),
        "output": str(output),
        "sources": [{"environment": "letters"}],
        "steps": 3,
        "prompts_per_step": 4,
        "group_size": 4,
        "max_new_tokens": 10,
        "learning_rate": 1e-2,
        "warmup_steps": 0,
        "eval_every": 0,
        "workers": 0,
        "device": "cpu",
    }
    return fields | more


def run(model: Path, output: Path, **more: Any) -> list[dict[str, Any]]:
    train(build_config(settings(model, output, **more), "test"), LETTERS)
    return rows(output)


def rows(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()
