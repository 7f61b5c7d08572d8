"""Save batches whose loss or gradient is not finite, for inspection."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from verigym.trainer.credit.training_row import TrainingRow

KEPT = 3
"""Largest number of batches that are saved. Later ones are not, because the first ones are the most informative."""


def save_bad_batch(
    folder: Path, step: int, rows: Sequence[TrainingRow], metrics: Mapping[str, float], decode: Callable[[Sequence[int]], str]
) -> Path | None:
    """Save a batch with a loss or gradient that is not finite, if fewer than `KEPT` batches are saved already.

    `step-<n>.safetensors` has the numbers, `step-<n>.json` the texts.

    Each tensor concatenates all rows: `prompt_ids` with `prompt_lengths`, `token_ids` with `completion_lengths`, `trained`, and
    for each completion token `advantages` and, where known, `sampler_logprobs`, `old_logprobs`, and a critic's `values` and
    `returns`.

    Args:
        folder: made if absent.
        step: counted from 1.
        rows: rows of the update.
        metrics: metrics of the update; values that are not finite are written as text, such as "nan".
        decode: turns tokens into text.

    Returns:
        The JSON file; None if `KEPT` batches exist already.
    """
    path = folder / f"step-{step:08d}.json"
    others = [other for other in folder.glob("step-*.json") if other != path]
    if len(others) >= KEPT:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    save_file(_tensors(rows), path.with_suffix(".safetensors"))
    document = {
        "step": step,
        "metrics": {name: _plain(value) for name, value in metrics.items()},
        "rows": [_readable(row, decode) for row in rows],
    }
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def _tensors(rows: Sequence[TrainingRow]) -> dict[str, torch.Tensor]:
    tensors = {
        "prompt_ids": torch.tensor([token for row in rows for token in row.prompt_ids]),
        "prompt_lengths": torch.tensor([len(row.prompt_ids) for row in rows]),
        "token_ids": torch.tensor([token for row in rows for token in row.token_ids]),
        "completion_lengths": torch.tensor([len(row.token_ids) for row in rows]),
        "advantages": torch.tensor([value for row in rows for value in row.advantages], dtype=torch.float64),
        "trained": torch.tensor([row.trained for row in rows]),
    }
    for name in ("sampler_logprobs", "old_logprobs", "values", "returns"):
        values = [getattr(row, name) for row in rows]
        if any(values) and None not in values:
            tensors[name] = torch.tensor([value for row in values for value in row], dtype=torch.float64)
    return tensors


def _readable(row: TrainingRow, decode: Callable[[Sequence[int]], str]) -> dict[str, Any]:
    not_finite = [value for value in (*(row.sampler_logprobs or ()), *(row.old_logprobs or ())) if not math.isfinite(value)]
    return {
        "prompt": decode(row.prompt_ids),
        "completion": decode(row.token_ids),
        "prompt_tokens": len(row.prompt_ids),
        "completion_tokens": len(row.token_ids),
        "advantage": _plain(row.advantage),
        "trained": row.trained,
        "lowest_logprob": _plain(min(row.sampler_logprobs)) if row.sampler_logprobs else None,
        "logprobs_not_finite": len(not_finite),
    }


def _plain(value: float) -> float | str:
    """Return `value` if it is finite, else its text, because JSON cannot hold it as a number."""
    return value if math.isfinite(value) else str(value)
