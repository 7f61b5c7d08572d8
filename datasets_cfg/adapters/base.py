"""`Adapter`, and the readers that adapters share: JSON inside a column, lists of text, paired tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verigym.datasets_cfg.fields import MISSING, ColumnType, FieldProblem, describe, find

RawRow = Mapping[str, Any]
Test = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdaptedRow:
    """The result of an adapter for one row: the reference, the task's id and the texts for the prompt."""

    reference: Mapping[str, Any]
    """Fields of the environment's reference."""
    task_id: str
    """The row's id in its data set, for the prompt's metadata. `exceptions` in the YAML refer to a row by it."""
    prompt_texts: Mapping[str, str] = field(default_factory=dict)
    """Texts made from the row, by name. The YAML's `prompt` may contain these names, as it may contain names of columns."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """The reader of one published row layout: the columns it needs, and the function that makes a reference from a row."""

    convert: Callable[[RawRow, str], AdaptedRow]
    """(row, programming language) -> AdaptedRow.

    Raises:
        FieldProblem: the row does not fit; names the field.
    """
    columns: Mapping[str, ColumnType]
    """Checked before `convert` is called."""
    gold: str
    """Names of the columns from which the reference is made, for messages about a row with a wrong reference or solution."""
    prompt_texts: tuple[str, ...] = ()
    """Names of the texts that `convert` makes."""


def parse_json(text: str, column: str) -> Any:
    """Return the JSON value in `text`, the value of `column`.

    Raises:
        FieldProblem: `text` is not JSON, is nested too deeply, or has a number too long for Python to read.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldProblem(column, f"is not JSON: {str(error)[:120]}") from None


def parse_object(text: str, column: str) -> RawRow:
    """Return the JSON object in `text`, the value of `column`. Raise FieldProblem if it holds anything else."""
    value = parse_json(text, column)
    if not isinstance(value, dict):
        raise FieldProblem(column, f"holds JSON that is {type(value).__name__}; expected an object")
    return value


def texts(value: Any, column: str) -> list[str]:
    """Return `value` unchanged if it is a list of strings; raise FieldProblem otherwise."""
    if not isinstance(value, list):
        raise FieldProblem(column, f"{describe(value)}; expected a list of text")
    for place, item in enumerate(value):
        if not isinstance(item, str):
            raise FieldProblem(f"{column}.{place}", f"{describe(item)}; expected text")
    return value


def text_at(row: RawRow, path: str) -> str:
    """Return the text at `path` in `row`; raise FieldProblem if there is none."""
    value = find(row, path)
    if not isinstance(value, str):
        raise FieldProblem(path, f"{describe(value)}; expected text")
    return value


def pairs(inputs: Any, outputs: Any, column: str, names: tuple[str, str] = ("inputs", "outputs")) -> list[tuple[Any, Any]]:
    """Return the pairs (input, output) of the lists `inputs` and `outputs`.

    Raise FieldProblem if these are not lists of equal length; `names` are what the message calls them.
    """
    for name, value in zip(names, (inputs, outputs), strict=True):
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise FieldProblem(f"{column}.{name}", f"{describe(value)}; expected a list")
    if len(inputs) != len(outputs):
        raise FieldProblem(column, f"has {len(inputs)} inputs and {len(outputs)} outputs")
    return list(zip(inputs, outputs, strict=True))


def some(tests: list[Test], column: str) -> list[Test]:
    """Return `tests` if there are any; raise FieldProblem otherwise, because every program would pass an empty list."""
    if not tests:
        raise FieldProblem(column, "holds no tests: every program would pass")
    return tests


def stdio(stdin: Any, stdout: Any, column: str) -> Test:
    """Return a test that feeds `stdin` to a program and compares its output with `stdout`.

    Either text may be a list of lines, as in some rows of SandboxFusion; the lines are then joined.
    """
    both = []
    for name, value in (("input", stdin), ("output", stdout)):
        joined = "\n".join(value) if isinstance(value, list) and all(isinstance(line, str) for line in value) else value
        if not isinstance(joined, str):
            raise FieldProblem(column, f"has an {name} that {describe(value if value is not None else MISSING)}; expected text")
        both.append(joined)
    return {"type": "stdio", "stdin": both[0], "stdout": both[1]}


def without_empty(reference: dict[str, Any]) -> dict[str, Any]:
    """Return `reference` without the optional fields that are empty."""
    return {name: value for name, value in reference.items() if value not in (None, "", {}) or name == "tests"}
