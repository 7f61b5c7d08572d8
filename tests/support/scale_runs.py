"""Folders with the metrics of runs that were never made: their costs are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DECODE_S, TOKEN_S, UPDATE_S, TRAINED_TOKEN_S, REST_S = 0.01, 0.0002, 0.5, 0.0001, 0.05


def row(step: int, completions: int, **changed: Any) -> dict[str, Any]:
    """Return a training step's metrics; lengths depend on its number."""
    mean, longest = 20.0 + step % 3, 60.0 + step % 5
    tokens = completions * mean
    generate_s, update_s = DECODE_S * longest + TOKEN_S * tokens, UPDATE_S + TRAINED_TOKEN_S * tokens
    return {
        "step": step,
        "kind": "train",
        "completions": float(completions),
        "completion_tokens": mean,
        "completion_tokens_max": longest,
        "verdict_s": 0.02,
        "verdict_max_s": 0.05,
        "generate_s": generate_s,
        "grade_wait_s": 0.1,
        "update_s": update_s,
        "step_s": generate_s + 0.1 + update_s + REST_S,
        **changed,
    }


def write_run(folder: Path, completions: int = 64, steps: int = 12, settings: Any = None, **changed: Any) -> Path:
    """Write a run's settings and metrics; `changed` stands in every row. Returns the folder."""
    config = {"max_new_tokens": 128, "generation_rows": 512, "overlap": "none", **(settings or {})}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    lines = [json.dumps(row(step, completions, **changed)) + "\n" for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder
