"""Reads the first rows before anything is graded, to find out which columns exist and which hold completions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verigym.datasets_cfg.fields import FieldProblem
from verigym.envs import UsageError
from verigym.grade.reading.columns import Columns
from verigym.grade.reading.completions import RESPONSES, is_response, samples
from verigym.grade.reading.records import BadRow, InputRow, Source

SAMPLE_ROWS = 32


@dataclass(frozen=True, slots=True)
class InputHead:
    """The beginning of an input: its columns and first rows, and an iterator over all records, including the first."""

    columns: Columns
    rows: Sequence[Mapping[str, Any]]
    records: Iterator[InputRow | BadRow]
    """All records of the input, from the first."""

    def texts(self) -> list[str]:
        """Return the texts of the first completions."""
        found = []
        for row in self.rows:
            for column in self.columns.completions:
                try:
                    found += [one.text for _, one in samples(row, column) if not isinstance(one, FieldProblem)]
                except FieldProblem:
                    continue
        return found


def read_head(source: Source, columns: Columns, usual: Sequence[str]) -> InputHead:
    """Read the first rows, check the columns, and return the rows, the columns, and an iterator over all records.

    Args:
        source: the input.
        columns: the columns to use. If they name no column of completions, a column whose name is in `usual` is chosen.
        usual: column names to look for; a column of texts is preferred to a column of API responses.

    Raises:
        UsageError: a column does not exist, or several may hold the completions.
    """
    declared = source.columns
    if declared is not None:  # only such a source can skip columns, and must know before its first row
        columns = _with_completions(columns, usual, declared, [], source.name)
        source.select([*columns.used(), *columns.optional.values()])
    records = iter(source)
    head: list[InputRow | BadRow] = []
    broken: UsageError | None = None
    try:
        for record in itertools.islice(records, SAMPLE_ROWS):
            head.append(record)
    except UsageError as error:
        broken = error
    rows = [record.data for record in head if isinstance(record, InputRow)]
    names = declared if declared is not None else list(dict.fromkeys(name for row in rows for name in row))
    columns = _with_completions(columns, usual, names, rows, source.name)
    if names:
        columns.check(names, rows, source.name, all_known=declared is not None)
    return InputHead(columns, rows, _chain(head, broken, records))


def _with_completions(
    columns: Columns, usual: Sequence[str], names: Sequence[str], rows: Sequence[Mapping[str, Any]], source: str
) -> Columns:
    """Return the columns with that of the completions, where none is named.

    Raises:
        UsageError: there are several that may be meant.
    """
    if columns.completions:
        return columns
    otherwise = {*columns.references.values(), columns.prompt, columns.group_by, columns.label, columns.task}
    texts = [name for name in usual if name not in RESPONSES and name not in otherwise and _holds_texts(name, names, rows)]
    if len(texts) > 1:
        all_of = " ".join(f"--completion-column {name}" for name in texts)
        raise UsageError(
            f"{source} has completions in {len(texts)} columns, {', '.join(texts)}; name what is graded, --completion-column "
            f"{texts[0]}, or {all_of}: a row is then graded in those that it has"
        )
    responses = [name for name in usual if name in RESPONSES and _holds_responses(name, names, rows)]
    return columns.model_copy(update={"completions": ((*texts, *responses, usual[0])[0],)})


def _holds_texts(name: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(isinstance(row.get(name), str | list | dict) for row in rows) if rows else name in names


def _holds_responses(name: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(is_response(row, name) for row in rows) if rows else name.partition(".")[0] in names


def _chain(
    head: Sequence[InputRow | BadRow], broken: UsageError | None, rest: Iterator[InputRow | BadRow]
) -> Iterator[InputRow | BadRow]:
    yield from head
    if broken is not None:
        raise broken
    yield from rest
