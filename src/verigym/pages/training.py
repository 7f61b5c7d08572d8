"""Tables of the settings of a training run and of its sources, for docs/training.md."""

from __future__ import annotations

from verigym.pages.markdown import field_table
from verigym.trainer.config.run import SourceConfig, TrainConfig


def blocks() -> tuple[str, ...]:
    """Return two tables: the fields of a run and the fields of a source."""
    return (
        f"## Fields of a run\n\n{field_table(TrainConfig)}",
        f"## Fields of a source\n\n{field_table(SourceConfig)}",
    )
