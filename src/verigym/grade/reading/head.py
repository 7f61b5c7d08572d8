"""Reads the first rows before anything is graded: which columns there are, and which hold completions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from verigym.datasets_cfg.fields import MISSING, FieldProblem, find
from verigym.envs import UsageError
from verigym.grade.reading.columns import Columns
from verigym.grade.reading.completions import RESPONSES, is_response, samples
from verigym.grade.reading.records import BadRow, InputRow, Source

SAMPLE_ROWS = 32


@dataclass(frozen=True, slots=True)
class InputHead:
    """The first rows of an input, and its columns."""

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
    """Read the first rows and check the columns.

    Args:
        source: the input.
        columns: what is used; where no column of completions is named, one of the usual.
        usual: the names to look for, the first before the second.

    Raises:
        UsageError: a column exists nowhere.
    """
    declared = source.columns
    if declared is not None:  # only such a source can skip columns, and must know before its first row
        columns = _with_completions(columns, usual, declared, [])
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
    columns = _with_completions(columns, usual, names, rows)
    if names:
        columns.check(names, rows, source.name)
    return InputHead(columns, rows, _chain(head, broken, records))


def _with_completions(
    columns: Columns, usual: Sequence[str], names: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Columns:
    if columns.completions:
        return columns
    for name in usual:
        if name in RESPONSES and rows:
            there = any(is_response(row, name) for row in rows)
        else:
            there = name.partition(".")[0] in names or any(find(row, name) is not MISSING for row in rows)
        if there:
            return columns.model_copy(update={"completions": (name,)})
    return columns.model_copy(update={"completions": tuple(usual[:1])})


def _chain(
    head: Sequence[InputRow | BadRow], broken: UsageError | None, rest: Iterator[InputRow | BadRow]
) -> Iterator[InputRow | BadRow]:
    yield from head
    if broken is not None:
        raise broken
    yield from rest
