"""`make_task`: a pure function from a row and its data set's description to the arguments of the environment's `prompt`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from verigym.datasets_cfg.adapters import Adapter
from verigym.datasets_cfg.fields import MISSING, FieldProblem, check_type, describe, extract_gold, fill, find, placeholders
from verigym.datasets_cfg.schema import DatasetConfig, TextPart


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task's text, reference and metadata, as arguments for the environment's method `prompt`."""

    text: str
    reference: Mapping[str, Any]
    metadata: Mapping[str, Any]
    question: str | None = None
    """The text without instructions about the answer's form."""
    worked: str = "{gold}"
    """How the task's answer is shown in a few-shot example: a template over the columns of `row` and `{gold}`."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The row's columns, and the texts made from them."""


def make_task(config: DatasetConfig, row: Mapping[str, Any]) -> PreparedTask:
    """Return the task that `row` holds.

    Raises:
        FieldProblem: the row does not fit; the problem names the field.
    """
    for column, expected in config.all_columns.items():
        if column not in config.optional_columns or find(row, column) not in (None, MISSING):
            check_type(row, column, expected)
    copied = {column: find(row, column) for column in config.metadata}
    if config.texts:
        row = {**row, **{name: _part(row, part) for name, part in config.texts.items()}}
    if config.adapter:
        return _adapted_task(config, config.adapter, row, copied)
    reference: dict[str, Any] = dict(config.fixed)
    for name, source in config.reference.items():
        value = find(row, source.column)
        if source.optional and value in (None, MISSING):
            continue
        reference[name] = extract_gold(value, source.extract, source.column) if source.extract else value
    return _task(config, row, reference, copied)


def _part(row: Mapping[str, Any], part: TextPart) -> str:
    text = find(row, part.column)
    if not isinstance(text, str):
        raise FieldProblem(part.column, f"{describe(text)}; expected text to take a part of")
    for mark in (part.after, part.before):
        if mark not in text:
            raise FieldProblem(part.column, f"does not hold {mark!r}, by which a part of it is found")
    text = text.split(part.after, 1)[1] if part.after else text
    return (text.rsplit(part.before, 1)[0] if part.before else text).strip()


def _task(
    config: DatasetConfig, row: Mapping[str, Any], reference: Mapping[str, Any], copied: Mapping[str, Any]
) -> PreparedTask:
    asked = placeholders(config.prompt)
    if asked and all(_is_blank(find(row, column)) for column in asked):
        raise FieldProblem(asked[0], "is empty, so the row asks nothing")
    question = None if config.question is None else fill(config.question, row)
    return PreparedTask(fill(config.prompt, row), reference, copied, question, config.worked, row)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _adapted_task(config: DatasetConfig, adapter: Adapter, row: Mapping[str, Any], copied: Mapping[str, Any]) -> PreparedTask:
    adapted = adapter.convert(row, str(config.fixed.get("language", "python")))
    reference = merged(config.fixed, adapted.reference)
    for exception in config.exceptions:
        if exception.task_id == adapted.task_id:
            reference = merged(reference, exception.reference)
    return _task(config, {**row, **adapted.prompt_texts}, reference, {**copied, "task_id": adapted.task_id})


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` updated with the values of `above`. Where both have a mapping, the two mappings are merged likewise."""
    result = dict(below)
    for name, value in above.items():
        lower = result.get(name)
        result[name] = merged(lower, value) if isinstance(lower, Mapping) and isinstance(value, Mapping) else value
    return result
