"""Makes Markdown tables of any rows, and of the fields of a settings class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import get_annotations

from pydantic import BaseModel


def cell(text: str) -> str:
    """Return `text` on one line with pipe characters escaped."""
    return " ".join(text.split()).replace("|", "\\|")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table of `columns` and `rows`, escaping each value; a row has one value per column."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(_line(row) for row in lines)


def _line(row: Sequence[str]) -> str:
    return f"|{'|'.join(row)}|" if set(row) == {"---"} else f"| {' | '.join(map(cell, row))} |"


def field_table(model: type[BaseModel], names: Iterable[str] | None = None, title: str = "field") -> str:
    """Return a Markdown table of the fields of `model`, with name, default and description.

    Args:
        model: the settings class.
        names: the fields to list, in this order; by default all, the class's own before inherited ones.
        title: heading of the first column.
    """
    if names is None:
        own_first = [name for kind in model.__mro__ for name in get_annotations(kind) if name in model.model_fields]
        names = dict.fromkeys(own_first)
    return table((title, "default", "what"), (_field_row(model, name) for name in names))


def _field_row(model: type[BaseModel], name: str) -> tuple[str, str, str]:
    field = model.model_fields[name]
    default = "required" if field.is_required() else f"`{_shown(field.get_default(call_default_factory=True))}`"
    return f"`{name}`", default, field.description or ""


def _shown(value: object) -> str:
    """Return a default as YAML and the command line take it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value.replace("\n", "\\n") or '""'
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
