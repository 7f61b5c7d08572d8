"""Finds tasks that are in two splits, of one data set or of two. Results on such tasks tell nothing about new tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from verigym.datasets_cfg.fields import MISSING, find
from verigym.datasets_cfg.load import PromptDataset, RowError
from verigym.datasets_cfg.rows import PreparedTask
from verigym.datasets_cfg.schema import DatasetConfig

SHOWN = 5
EVALUATION_NAMES = ("test", "validation", "valid", "dev", "eval")
"""If the description of a data set names no splits in `evaluation_only`, splits with these names are its evaluation splits."""
IDS = ("task_id", "id", "uid")
"""Fields of a row that name it to people."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The prompts that two splits, one for training and one for evaluation, have in common."""

    measured: str
    """Data set and split that is measured on."""
    trained: str
    """Data set and split that is trained on."""
    of: int
    """Prompts of the measured split that were compared."""
    rows: tuple[tuple[str, str], ...]
    """Which row of the measured split is which of the other."""

    def describe(self) -> str:
        """Return a one-line message that names the first few rows."""
        named = ", ".join(f"{one} is {other}" for one, other in self.rows[:SHOWN])
        dots = ", ..." if len(self.rows) > SHOWN else ""
        return (
            f"{len(self.rows):,} of {self.of:,} prompts of {self.measured} stand in {self.trained} too (rows: "
            f"{named}{dots}); take them out of one of the two, or figures on them say nothing of new tasks"
        )


def pairs(config: DatasetConfig, split: str) -> list[tuple[str, str]]:
    """Return the pairs (training split, evaluation split) that are to be compared for common prompts and contain `split`.

    Only splits in local files count.
    """
    measured = config.evaluation_only or EVALUATION_NAMES
    if split in measured:
        return [(other, split) for other in config.files if other not in measured]
    return [(split, other) for other in config.files if other in measured]


def overlap(
    trained: PromptDataset,
    measured: PromptDataset,
    chosen: Iterable[int] | None = None,
    on_row: Callable[[int], None] = lambda done: None,
) -> Overlap | None:
    """Return the questions that two splits share; None if they share none.

    If a description has no field `question`, its prompts are compared instead. White space is ignored, and rows that do not fit
    the description are left out. Golds are not compared: a question that was trained on is not a new task, whatever its gold.

    Args:
        trained: the split that is trained on.
        measured: the split that is evaluated on.
        chosen: the rows of `measured` to compare; all by default.
        on_row: called with the number of the current row of `trained`, for a progress bar.
    """
    held = [(_digest(task), _name(row, task)) for row, task in _tasks(measured, chosen)]
    wanted = {digest for digest, _ in held}
    first: dict[bytes, str] = {}
    for row, task in _tasks(trained):
        on_row(row)
        digest = _digest(task)
        if digest in wanted:
            first.setdefault(digest, _name(row, task))
    shared = tuple((name, first[digest]) for digest, name in held if digest in first)
    here, there = (f"{rows.config.name}/{rows.split}" for rows in (measured, trained))
    return Overlap(here, there, len(held), shared) if shared else None


def _tasks(rows: PromptDataset, chosen: Iterable[int] | None = None) -> Iterator[tuple[int, PreparedTask]]:
    for row in range(len(rows)) if chosen is None else chosen:
        try:
            yield row, rows.task(row)
        except RowError:
            continue


def _digest(task: PreparedTask) -> bytes:
    words = (task.question or task.text).split()
    return hashlib.sha256(" ".join(words).encode(errors="surrogatepass")).digest()


def _name(row: int, task: PreparedTask) -> str:
    found = (value for name in IDS if (value := task.metadata.get(name, find(task.row, name))) is not MISSING)
    return next((f"{row + 1} ({str(value)[:40]})" for value in found if value is not None), str(row + 1))
