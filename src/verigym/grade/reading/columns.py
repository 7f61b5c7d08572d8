"""`Columns`: the columns that hold prompt, completions and reference. `items`: the completions of a row with their prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, cast

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, model_validator

from verigym.datasets_cfg.fields import MISSING, Extraction, FieldProblem, describe, extract_gold, find
from verigym.envs import Completion, Environment, Message, Prompt, UsageError
from verigym.envs.contract.errors import did_you_mean, explain
from verigym.envs.contract.schema import canonical_json
from verigym.grade.reading.completions import TEXTS, samples
from verigym.grade.reading.labels import labels_of
from verigym.grade.reading.records import BadRow, InputRow

MAX_GOLD_CHARS = 500
SHOWN_GOLD_CHARS = 200


class Columns(BaseModel):
    """Names of the input columns that a grading uses.

    A name with dots, such as `a.b`, is read as a path into nested objects and lists, unless the input has a column of exactly
    this name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str = "prompt"
    completions: tuple[str, ...] = ("completion",)
    """Columns that hold completions. If empty, the first existing column of those in `tasks.completion_columns` is used."""
    references: Mapping[str, str] = {}
    """Maps each field of the environment's reference (`part.field` for a composed environment) to its column. An empty column
    name means that the field is not read."""
    optional: Mapping[str, str] = {}
    """Maps optional fields of the reference to their columns; rows without a value there are allowed. `with_references` sets
    this."""
    gold_extract: Extraction | None = None
    """How the gold is extracted from the text in the reference columns; None to take the whole text as the gold."""
    task: str | None = None
    """Column that holds the id of a task of a data set, from which prompt and reference are then taken."""
    group_by: str | None = None
    """Column by which samples are grouped: rows with equal values form a group. None to group rows with the same prompt."""
    label: str | None = None
    """Column with labels from a person or another verifier that say whether a completion is right, to compare verdicts with."""
    keep: tuple[str, ...] = ()
    """Columns copied to the output."""

    @model_validator(mode="after")
    def _one_use_a_name(self) -> Self:
        nested(self.references)
        for name in self.completions:
            if self.completions.count(name) > 1:
                raise ValueError(f"completions: column {name!r} is named twice, and its samples would count twice")
        return self

    def used(self) -> list[str]:
        """Return the names of all columns that rows must have, each once."""
        group = [name for name in (self.group_by, self.label) if name is not None]
        named = [column for name, column in self.optional.items() if name != column]
        prompt = self.prompt if self.task is None else self.task
        return list(dict.fromkeys([prompt, *self.completions, *self.references.values(), *named, *group, *self.keep]))

    def check(self, names: Sequence[str], sample: Sequence[Mapping[str, Any]], source: str, *, all_known: bool = True) -> None:
        """Check, before anything is graded, that every column exists.

        Args:
            names: the column names of the input, or all that occur in `sample`.
            sample: the first rows.
            source: name of the input, for the message.
            all_known: True if `names` are all columns; False if later rows may have others.

        Raises:
            UsageError: a column does not exist; the message suggests the nearest name.
        """
        there = {name for name in self.used() if name in names or any(find(row, name) is not MISSING for row in sample)}
        # Of several columns of completions the first rows may lack some; after grading, one that no row had is told.
        lenient = set() if all_known or not there & {*self.completions} else {*self.completions}
        lacking = [column for column in self.used() if column not in there | lenient]
        if not lacking:
            return
        known = {column: [*names, *(path for row in sample for path in _paths(row) if "." in column)] for column in lacking}
        if len(lacking) == 1:
            raise UsageError(
                f"{source} has no column {self._option_of(lacking[0])}{did_you_mean(lacking[0], known[lacking[0]])}"
            )
        near = [hint if "did you mean" in (hint := did_you_mean(column, known[column])) else "" for column in lacking]
        named = ", ".join(self._option_of(column) + hint for column, hint in zip(lacking, near, strict=True))
        raise UsageError(f"{source} has no columns {named}; its columns: {', '.join(sorted(names))}")

    def _option_of(self, column: str) -> str:
        """Return a column with the option that names another in its place."""
        fields = [name for name, taken in {**self.references, **self.optional}.items() if taken == column]
        options: dict[str, Sequence[str | None]] = {
            "--id-column": [self.task],
            "--prompt-column": [self.prompt],
            "--completion-column": self.completions,
            "--group-by": [self.group_by],
            "--label-column": [self.label],
        }
        named = next((option for option, taken in options.items() if column in taken), None)
        named = named or (f"--reference {fields[0]}=COLUMN" if fields else "--keep")
        return f"{column!r} ({named})"


class PromptsById(Protocol):
    """The prompts of a data set, found by the id in a row."""

    def prompt(self, row: Mapping[str, Any]) -> Prompt:
        """Return the prompt whose id is in `row`; raise FieldProblem if there is none."""


@dataclass(frozen=True, slots=True)
class Item:
    """One completion to grade."""

    row: int
    line: int | None
    sample_index: int
    """Number of the completion in its row, from 0."""
    column: str
    group: str
    prompt: Prompt
    completion: Completion
    gold: Mapping[str, JsonValue]
    task: str | None = None
    kept: Mapping[str, JsonValue] = field(default_factory=dict)
    label: bool | None = None
    """Whether the input says that it is right."""


def items(
    row: InputRow, columns: Columns, environment: Environment, tasks: PromptsById | None = None
) -> Iterator[Item | BadRow]:
    """Yield an Item for each completion of a row, numbered across its columns, and a BadRow for each value that cannot be used.

    Args:
        row: the row that was read.
        columns: the names of its columns.
        environment: makes the prompt.
        tasks: finds prompts by id, if `columns.task` names the column of the prompt's id; else None.
    """
    try:
        prompt = _prompt(row, columns, environment) if tasks is None else tasks.prompt(row.data)
        group = prompt.key if columns.group_by is None else _group(row, columns.group_by)
        kept = {name: None if (value := find(row.data, name)) is MISSING else _plain(value) for name in columns.keep}
    except FieldProblem as problem:
        yield BadRow(row.number, row.line, problem.field, str(problem))
        return
    except (UsageError, ValueError) as error:
        names = [name for name in columns.optional if f"field {name!r}" in str(error) or f"'{name}." in str(error)]
        where = ", ".join(columns.optional[name] for name in names) or ", ".join(columns.references.values())
        hint = f"; --reference {names[0]}= leaves that column alone" if names else ""
        yield BadRow(row.number, row.line, where, " ".join(str(error).split()) + hint)
        return
    gold = shown_gold(prompt)
    found, problems = samples_of(row, columns.completions)
    labels: list[bool | None] = [None] * len(found)
    if columns.label is not None:
        try:
            labels = labels_of(row.data, columns.label, len(found))
        except FieldProblem as problem:  # the completions are graded all the same
            problems = [*problems, problem]
    task = None if columns.task is None else str(find(row.data, columns.task))
    for index, ((column, sample), label) in enumerate(zip(found, labels, strict=True)):
        if isinstance(sample, FieldProblem):
            yield BadRow(row.number, row.line, sample.field, str(sample))
        else:
            yield Item(row.number, row.line, index, column, group, prompt, sample, gold, task, kept, label)
    yield from (BadRow(row.number, row.line, one.field, str(one)) for one in problems)


def samples_of(row: InputRow, columns: Sequence[str]) -> tuple[list[tuple[str, Completion | FieldProblem]], list[FieldProblem]]:
    """Return the completions of `row` with their column names, and the problems that concern a whole column.

    With several `columns` a row may lack some of them, but not all.
    """
    there = [column for column in columns if (value := find(row.data, column)) is not MISSING and value is not None]
    found: list[tuple[str, Completion | FieldProblem]] = []
    problems = []
    others = [name for name in TEXTS if name in row.data and name not in columns]
    for column in there if there and len(columns) > 1 else columns:
        if others and find(row.data, column) is MISSING:
            named = " ".join(f"--completion-column {name}" for name in (*columns, *others))
            problems.append(FieldProblem(column, f"is missing, and the row has {', '.join(others)}; {named} reads both"))
            continue
        try:
            found += [(column, sample) for _, sample in samples(row.data, column)]
        except FieldProblem as problem:
            problems.append(problem)
    return found, problems


def _prompt(row: InputRow, columns: Columns, environment: Environment) -> Prompt:
    fields = reference_fields(row.data, columns.references, columns.gold_extract)
    given = {name: find(row.data, column) for name, column in columns.optional.items()}
    given = {name: value for name, value in given.items() if value is not MISSING and value is not None}
    return environment.prompt(prompt_messages(row, columns.prompt), **fields, **given)


def shown_gold(prompt: Prompt) -> dict[str, JsonValue]:
    """Return the fields of the prompt's reference for display; for a composed environment, the fields by part.

    A value of more than MAX_GOLD_CHARS characters of JSON, such as a program's tests, is cut and its length is noted.
    """
    parts = {
        part: {name: _short(value) for name, value in reference.model_dump(mode="json", exclude_defaults=True).items()}
        for part, reference in prompt.references.items()
    }
    return cast(dict[str, JsonValue], next(iter(parts.values())) if len(parts) == 1 else parts)


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else canonical_json(value)
    return value if len(text) <= MAX_GOLD_CHARS else f"{text[:SHOWN_GOLD_CHARS]}... ({len(text):,} characters)"


def reference_fields(data: Mapping[str, Any], references: Mapping[str, str], how: Extraction | None) -> dict[str, Any]:
    """Return the fields of the reference as read from `data`, a row.

    Args:
        data: the row.
        references: maps each field to its column; a field `part.field` belongs to a part of a composed environment.
        how: the method by which a gold is extracted from its column; None to take it as it is.

    Raises:
        FieldProblem: a column is missing or null, or no gold is found in it.
    """
    flat: dict[str, Any] = {}
    for name, column in references.items():
        if not column:
            continue
        value = find(data, column)
        if value is MISSING or value is None:
            raise FieldProblem(column, f"{describe(value)}; expected a reference")
        if how is not None:
            value = extract_gold(value, how, column)
        flat[name] = value
    return nested(flat)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return a flat mapping such as `{"part.field": value}` in nested form, `{"part": {"field": value}}`.

    Raises:
        UsageError: a name is used both for a value and for a mapping of fields.
    """
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *parts, last = name.split(".")
        place = tree
        for part in parts:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise UsageError(f"reference {part!r} is given as a field and as a part that has fields")
        if last in place:
            raise UsageError(f"reference {last!r} is given as a field and as a part that has fields")
        place[last] = value
    return tree


def _group(row: InputRow, column: str) -> str:
    value = find(row.data, column)
    if value is MISSING:
        raise FieldProblem(column, "is missing")
    plain = _plain(value)
    return plain if isinstance(plain, str) else canonical_json(plain)


def _plain(value: Any) -> JsonValue:
    """Return a value as JSON can hold it: a date or a nan of a Parquet file becomes text."""
    try:
        canonical_json(value)
    except (TypeError, ValueError):
        return str(value)
    return cast(JsonValue, value)


def prompt_messages(row: InputRow, column: str) -> str | list[Message]:
    """Return the prompt in `column` of `row`: a text, or chat messages. Raise FieldProblem if there is none."""
    value = find(row.data, column)
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return [_message(one, f"{column}[{index}]") for index, one in enumerate(value)]
    raise FieldProblem(column, f"{describe(value)}; expected text or a list of messages")


def _message(value: Any, place: str) -> Message:
    if not isinstance(value, dict):
        raise FieldProblem(place, f"{describe(value)}; expected a message with role and content")
    try:
        return Message(**{key: value[key] for key in ("role", "content") if key in value})
    except ValidationError as error:
        raise FieldProblem(place, explain(error)) from None


def _paths(row: Mapping[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from (f"{name}.{key}" for key in value)
