"""The settings of a run as a Markdown table, for docs/training.md: one place says what a field means."""

from __future__ import annotations

from inspect import get_annotations

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from verigym.trainer.config.run import SourceConfig, TrainConfig


def table(model: type[BaseModel]) -> str:
    """Return a row for each field: name, default, sentence."""
    lines = ["| field | default | what |", "|---|---|---|"]
    # A class's own fields come before those that it inherits.
    own_first = [name for kind in model.__mro__ for name in get_annotations(kind) if name in model.model_fields]
    for name in own_first:
        field = model.model_fields[name]
        default = "required" if field.default is PydanticUndefined else f"`{field.default}`"
        lines.append(f"| `{name}` | {default} | {(field.description or '').replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def sections() -> str:
    """Return the tables of a run and of a source."""
    return f"## Fields of a run\n\n{table(TrainConfig)}\n\n## Fields of a source\n\n{table(SourceConfig)}\n"


if __name__ == "__main__":
    print(sections())
