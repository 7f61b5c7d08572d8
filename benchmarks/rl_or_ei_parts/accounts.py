"""Counts of what an arm has spent, read from the stages' own files, and how large the next stage may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from verigym.trainer.monitoring.logs import read_rows
from verigym.trainer.stages.sample_log import read_samples


@dataclass(frozen=True)
class Spent:
    """What something cost."""

    tokens: int = 0
    """Sampled: of all completions, kept or not, end-of-sequence included."""
    completions: int = 0
    updates: int = 0
    """Optimizer steps."""
    learned_tokens: int = 0
    """Of completions that went through a backward pass, once for each time."""
    cpu_s: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.tokens + other.tokens,
            self.completions + other.completions,
            self.updates + other.updates,
            self.learned_tokens + other.learned_tokens,
            self.cpu_s + other.cpu_s,
        )


def rl_spent(rows: Sequence[Mapping[str, Any]], *, epochs: int = 1, updates: int = 1) -> list[Spent]:
    """Return what a GRPO run had spent after each step, without CPU time.

    Args:
        rows: of its metrics.jsonl. `completions` counts all that were sampled, `completion_tokens` is their mean length.
        epochs: the run's `epochs_per_step`.
        updates: the run's `updates_per_step`.
    """
    steps = []
    for row in rows:
        if row["kind"] == "train":
            # A completion with a gradient is as long as the mean one, as far as the log can say.
            learned = epochs * round(row["rows_with_gradient"] * row["completion_tokens"])
            tokens = round(row["completions"] * row["completion_tokens"])
            steps.append(Spent(tokens, round(row["completions"]), epochs * updates, learned))
    return list(accumulate(steps))


def rl_stage(folder: Path, epochs: int, updates: int) -> list[Spent]:
    """Return what the run in a folder had spent after each step; the numbers are those of `rl_spent`."""
    return rl_spent(read_rows(folder / "metrics.jsonl"), epochs=epochs, updates=updates)


def sampling_stage(folder: Path) -> Spent:
    """Return what a stage of rejection sampling spent."""
    lengths = [sample.tokens for one in read_samples(folder / "samples.jsonl") for sample in one.samples]
    return Spent(sum(lengths), len(lengths))


def fitting_stage(folder: Path) -> Spent:
    """Return what a stage of supervised fine-tuning spent."""
    rows = [row for row in read_rows(folder / "metrics.jsonl") if row["kind"] == "train"]
    return Spent(updates=len(rows), learned_tokens=round(sum(row["tokens"] for row in rows)))


def portion(budget: int, spent: int, turns_left: int, unit: int, mean_length: float) -> int:
    """Return how many units, prompts or steps, bring an arm closest to its share of what is left of the budget; at least 1.

    Args:
        budget: tokens in all.
        spent: tokens so far.
        turns_left: turns that share the rest evenly, this one included.
        unit: completions of a unit.
        mean_length: tokens that a completion is expected to have.

    Raises:
        ValueError: nothing can be divided.
    """
    if turns_left < 1 or unit < 1 or mean_length <= 0:
        raise ValueError(f"a portion needs turns, completions and a length above 0; got {turns_left}, {unit}, {mean_length}")
    return max(1, round((budget - spent) / turns_left / (unit * mean_length)))
