"""The settings of an evaluation, for docs/evaluation.md."""

from __future__ import annotations

from verigym.pages.markdown import field_table
from verigym.trainer.evaluation.config import EndpointModel, EvalConfig


def blocks() -> tuple[str, ...]:
    """Return the table of an evaluation's fields."""
    return (field_table(EndpointModel, title="option"), f"## Fields\n\n{field_table(EvalConfig)}")
