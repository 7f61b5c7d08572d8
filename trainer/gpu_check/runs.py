"""Does short runs of the trainer, and compares two of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verigym.trainer.config.run import build_config
from verigym.trainer.gpu_check.configurations import FIGURES
from verigym.trainer.gpu_check.task import ENVIRONMENTS, settings
from verigym.trainer.monitoring.logs import read_rows

TOLERANCE = 1e-3
"""Largest relative difference that a metric in fp32 may have between two devices, because devices add numbers in different
orders. An absolute tolerance of a hundredth of this number is added."""


@dataclass(frozen=True)
class Ran:
    """The results of a finished run."""

    rows: tuple[Mapping[str, Any], ...]
    """Its metrics of training steps, by step."""
    texts: tuple[tuple[str, ...], ...]
    """Its completions, by step."""
    said: tuple[str, ...]
    """Messages that the trainer logged, for example that a fast path was not taken."""
    model: Path
    """Folder of the final model."""


def run(model: Path, output: Path, **more: Any) -> Ran:
    """Train `model` for a few steps in this process and return the results; see `task.settings`."""
    from verigym.trainer.loop import train

    with overheard() as said:
        final = train(build_config(settings(model, output, **more), "gpu-check"), ENVIRONMENTS)
    texts: dict[int, list[str]] = {}
    for sample in read_rows(output / "samples.jsonl"):
        texts.setdefault(sample["step"], []).append(sample["completion"])
    trained = tuple(row for row in read_rows(output / "metrics.jsonl") if row["kind"] == "train")
    return Ran(trained, tuple(tuple(texts[step]) for step in sorted(texts)), tuple(said), final)


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Return a context that yields a list, to which each message is added that the trainer logs within the context."""
    logger = logging.getLogger("verigym.trainer")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def differences(row: Mapping[str, Any], other: Mapping[str, Any], figures: Sequence[str] = FIGURES) -> dict[str, float]:
    """Return the difference of each metric in `figures` between the steps `row` and `other`, in units of `TOLERANCE`.

    The difference is infinite if one of the steps lacks the metric, and left out if both do.
    """
    found: dict[str, float] = {}
    for name in figures:
        if name in row or name in other:
            one, two = row.get(name, float("nan")), other.get(name, float("nan"))
            bound = TOLERANCE * max(abs(one), abs(two)) + TOLERANCE / 100
            found[name] = abs(one - two) / bound if one == one and two == two else float("inf")
    return found


def share_equal(texts: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> float:
    """Compare the completions of two runs, `texts` and `others`; return the share of completions that are the same in both."""
    pairs = [pair for mine, theirs in zip(texts, others, strict=True) for pair in zip(mine, theirs, strict=True)]
    return sum(one == two for one, two in pairs) / len(pairs)
