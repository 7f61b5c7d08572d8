"""Batches made by hand, for measuring and comparing updates without generating first; and what they weigh in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import torch

from trainer_parts.setting import Shape, codec, lengths, prompt_text
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.rng import keyed_random, keyed_uniforms


def make_rows(shape: Shape, key: str, *, zero_groups: int = 0, off_policy: float = 0.0) -> list[TrainingRow]:
    """Return a batch of random completions, group after group.

    Args:
        shape: of the batch.
        key: of the randomness.
        zero_groups: in so many groups, evenly spread, all rewards are equal.
        off_policy: where above 0, old log-probabilities are given: a uniform distribution's, give or take half of this.
    """
    random = keyed_random("rows", key)
    text = codec()
    counts = iter(lengths(shape.rows, shape, key))
    rows = []
    for group in range(shape.prompts):
        prompt_ids = text.encode_text(prompt_text(group, shape.prompt_tokens) + "\n")
        silent = (group + 1) * zero_groups // shape.prompts > group * zero_groups // shape.prompts
        for place in range(shape.group):
            count = next(counts)
            old = -torch.log(torch.tensor(shape.vocabulary)) + off_policy * (
                keyed_uniforms(count, "old", key, group, place) - 0.5
            )
            rows.append(
                TrainingRow(
                    prompt_ids=prompt_ids,
                    token_ids=tuple(random.choices(range(2, shape.vocabulary), k=count)),
                    advantage=0.0 if silent else (1.0 if place % 2 else -1.0),
                    trained=True,
                    old_logprobs=tuple(old.tolist()) if off_policy else None,
                )
            )
    return rows


def extra_peak_bytes(work: Callable[[], object]) -> int:
    """Return by how much the resident memory of this process rises above its present size while it works."""
    gc.collect()
    before = _status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    work()
    return _status_bytes("VmHWM") - before


def _status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}: memory is measured on Linux only")
