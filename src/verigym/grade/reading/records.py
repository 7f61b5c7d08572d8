"""Records of an input file, which are rows or bad rows (with place and reason), and the interface of the readers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

MAX_RECORD_BYTES = 16 * 2**20
STDIN = "-"


@dataclass(frozen=True, slots=True)
class InputRow:
    """One record of an input.

    `number` counts records from 1; in JSONL it is the line number. `line` is the number of the line on which the record starts;
    None if the format has no lines.
    """

    number: int
    line: int | None
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A record, or a field of it, that cannot be used."""

    number: int
    line: int | None
    field: str
    reason: str


def place(row: int, line: int | None) -> str:
    """Return a row's position for a message: its `line`, or its number `row` if the format has no lines; both from 1."""
    return f"row {row}" if line is None else f"line {line}"


def sample_place(line: Mapping[str, Any]) -> str:
    """Return the position of a completion for a message, from its line of scores; samples are counted from 1, like rows."""
    return f"{place(line['row'], line.get('line'))}, sample {line['sample_index'] + 1}"


class Source(Protocol):
    """An open input."""

    name: str

    @property
    def columns(self) -> list[str] | None:
        """The column names, or None if the format does not declare them."""

    def select(self, paths: Sequence[str]) -> None:
        """Declare which columns, or paths into columns, will be used, so that the reader can skip all other columns."""

    def __iter__(self) -> Iterator[InputRow | BadRow]:
        """Yield the records in order; raise UsageError as soon as the rest of the input cannot be read."""

    def fraction(self) -> float | None:
        """Return the fraction of the input read so far, from 0 to 1; None if unknown."""


def bytes_read(raw: BinaryIO) -> float | None:
    """Return the fraction of a regular file that has been read, from 0 to 1; None for a pipe."""
    try:
        size = os.fstat(raw.fileno()).st_size
        return min(1.0, raw.tell() / size) if size else None
    except (OSError, ValueError):
        return None
