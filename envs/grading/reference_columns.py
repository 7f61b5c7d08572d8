"""`ReferenceColumns`: makes tasks from the columns of a data set in another trainer's format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Message, Prompt

PromptLike = str | Sequence[Message | Mapping[str, Any]]


@dataclass(frozen=True)
class _Field:
    name: str
    column: str
    required: bool


class ReferenceColumns:
    """Mapping from the fields of an environment's reference to the columns of a data set. It makes tasks from rows.

    Args:
        environment: the environment.
        columns: mapping from a field of the reference (`part.field` for a composition) to the column that holds it, or to None
            for a field that is not read. A field that is not in this mapping is read from the column with the field's name
            (without `part.`); for an optional field this column may be missing.
        who: name of the caller, such as the reward function, for error messages.

    Raises:
        UsageError: `columns` names a field that the reference lacks, or maps a required field to None.
    """

    def __init__(self, environment: Environment, columns: Mapping[str, str | None], who: str) -> None:
        self.environment, self._who = environment, who
        known = dict(_fields_of(environment, ""))
        for field in columns:
            if known and field not in known:
                hint = did_you_mean(field, known)
                raise UsageError(f"columns: the reference of environment {environment.name!r} has no field {field!r}{hint}")
        for field, column in columns.items():
            if column is not None and not isinstance(column, str):
                raise UsageError(f"columns: {field!r} is to come from {column!r}; expected the name of one column")
            if column is None and known.get(field):
                raise UsageError(
                    f"columns: {field!r} is None, but {environment.name!r} cannot judge without it; name its column"
                )
        named = {field: _Field(field, column, True) for field, column in columns.items() if column is not None}
        by_default = {field: _Field(field, field.rpartition(".")[2], required) for field, required in known.items()}
        self._fields = tuple(one for field, one in (by_default | named).items() if columns.get(field, "") is not None)

    def rows(self, columns: Mapping[str, Any], lengths: dict[str, int]) -> list[dict[str, Any]]:
        """Return a mapping for each row of a batch, from reference field (`part.field` for a composition) to value.

        Args:
            columns: columns of a batch, each a list or an array.
            lengths: lengths of the batch's other lists by name. This method adds the lengths of the columns that it reads.

        Raises:
            UsageError: a column is missing or is not a list.
            ValueError: the lists differ in length.
        """
        used: list[tuple[_Field, Sequence[Any]]] = []
        for field in self._fields:
            values = columns.get(field.column)
            listed = _listed(values)
            if listed is not None:
                used.append((field, listed))
                lengths[field.column] = len(listed)
            elif field.required and values is not None:
                raise UsageError(
                    f"{self._who} got {type(values).__name__} {values!r:.60} as column {field.column!r}; expected a list, "
                    "one value for each prompt"
                )
            elif field.required:
                raise UsageError(self._missing(field, columns))
        if len(set(lengths.values())) > 1:
            given = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"{self._who} got lists of unequal lengths: {given}")
        return [
            {field.name: plain(values[row]) for field, values in used if field.required or values[row] is not None}
            for row in range(next(iter(lengths.values())))
        ]

    def row(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return a mapping from reference field (`part.field` for a composition) to value, for one row.

        `columns` maps column names to this row's values.

        Raises:
            UsageError: a column is missing.
        """
        for field in self._fields:
            if field.required and field.column not in columns:
                raise UsageError(self._missing(field, columns))
        used = [field for field in self._fields if field.required or columns.get(field.column) is not None]
        return {field.name: plain(columns[field.column]) for field in used}

    def _missing(self, field: _Field, columns: Mapping[str, Any]) -> str:
        return (
            f"{self._who} got no column {field.column!r} for the field {field.name!r} of its reference; the trainer passed: "
            f"{', '.join(sorted(map(str, columns))) or 'no columns'}. Name the data set's column: "
            f'columns={{"{field.name}": "COLUMN"}}'
        )

    def task(self, prompt: PromptLike, fields: Mapping[str, Any]) -> Prompt:
        """Return the task of a row.

        Args:
            prompt: a text or chat messages.
            fields: the reference fields, from `rows` or `row`.

        Raises:
            ValueError: the row's prompt or reference cannot be used.
        """
        missing = [field.column for field in self._fields if field.required and fields.get(field.name) is None]
        if missing:
            raise ValueError(f"its {missing[0]!r} is None")
        reference: dict[str, Any] = {}
        for name, value in fields.items():
            *parts, last = name.split(".")
            place = reference
            for part in parts:
                place = place.setdefault(part, {})
            place[last] = value
        task = self.environment.prompt(prompt, **reference)  # type: ignore[arg-type]
        if _has_nulls(reference):
            _refuse_filled_in(self.environment, prompt, reference, task)
        return task

    def hint(self, problem: str) -> str:
        """Return advice on `problem`, an error message about a row, or an empty string if there is no advice.

        An optional field is read from the column with its name if there is one, though that column may hold something
        unrelated. So if the message names an optional field, the advice is how to leave that column unread.
        """
        for field in self._fields:
            if not field.required and f"'{field.name}'" in problem:
                return f"; if column {field.column!r} is about something else: columns={{{field.name!r}: None}}"
        return ""


def plain(value: Any) -> Any:
    """Return a numpy or torch scalar or array, as data sets in those formats contain, as plain Python numbers or lists."""
    return value.tolist() if hasattr(value, "tolist") else value


def _listed(values: Any) -> Sequence[Any] | None:
    """Return a column as a list, arrays and tensors too; None if it is no column."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return values
    listed = values.tolist() if hasattr(values, "tolist") else None
    return listed if isinstance(listed, list) else None


def _has_nulls(value: Any, *, inside: bool = False) -> bool:
    if isinstance(value, Mapping):
        return any((inside and one is None) or _has_nulls(one, inside=True) for one in value.values())
    return isinstance(value, list | tuple) and any(_has_nulls(one, inside=True) for one in value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list | tuple) else value


def _refuse_filled_in(environment: Environment, prompt: PromptLike, reference: Mapping[str, Any], task: Prompt) -> None:
    """Refuse nulls that may be values, or may stand where a row of a table has nothing, if that makes another task.

    Raises:
        ValueError: the task is another without them.
    """
    try:
        bare = environment.prompt(prompt, **_without_nulls(reference))  # type: ignore[arg-type]
    except UsageError:
        return
    if bare.key != task.key:
        raise ValueError(
            "its reference holds nulls, which a table fills in where other rows have a value, and which may be meant; "
            "make the column JSON texts (json.dumps)"
        )


def _fields_of(environment: Environment, prefix: str) -> Iterator[tuple[str, bool]]:
    """Yield the dotted name of every field of the reference, and whether it must be given."""
    parts = getattr(environment, "parts", None)
    if isinstance(parts, Mapping):
        for part, inner in parts.items():
            yield from _fields_of(inner, f"{prefix}{part}.")
    kind = getattr(environment, "reference_type", None)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield f"{prefix}{name}", field.is_required()
