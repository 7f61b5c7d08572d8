"""The settings of a run as a Markdown table, for docs/training.md: one place says what a field means."""

from __future__ import annotations

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from verigym.trainer.config import SourceConfig, TrainConfig


def table(model: type[BaseModel]) -> str:
    """Return a row for each field: name, default, sentence."""
    lines = ["| field | default | what |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        default = "required" if field.default is PydanticUndefined else f"`{field.default}`"
        lines.append(f"| `{name}` | {default} | {(field.description or '').replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


def sections() -> str:
    """Return the tables of a run and of a source."""
    return f"## Fields of a run\n\n{table(TrainConfig)}\n\n## Fields of a source\n\n{table(SourceConfig)}\n"


if __name__ == "__main__":
    print(sections())
