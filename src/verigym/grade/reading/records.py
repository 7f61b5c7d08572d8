"""Records of an input file: a row, or a bad row with its place and reason; and the interface of readers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

MAX_RECORD_BYTES = 16 * 2**20
STDIN = "-"


@dataclass(frozen=True, slots=True)
class InputRow:
    """One record. `number` counts records from 1 (for JSONL it is the line); `line` is where the record starts."""

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
    """Return where a row is, for people: its line in the file, or its number where the file has no lines; both from 1."""
    return f"row {row}" if line is None else f"line {line}"


def sample_place(line: Mapping[str, Any]) -> str:
    """Return where a completion is, for people, from its line of scores: samples count from 1, as rows do."""
    return f"{place(line['row'], line.get('line'))}, sample {line['sample_index'] + 1}"


class Source(Protocol):
    """An open input."""

    name: str

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns where the format declares them."""

    def select(self, paths: Sequence[str]) -> None:
        """Say which columns, or paths into them, will be used, so that others need not be read."""

    def __iter__(self) -> Iterator[InputRow | BadRow]:
        """Yield the records in order; raise UsageError where the rest cannot be read."""

    def fraction(self) -> float | None:
        """How much has been read, 0 to 1; None when unknown."""


def bytes_read(raw: BinaryIO) -> float | None:
    """Return the share of a regular file that has been consumed; None for a pipe."""
    try:
        size = os.fstat(raw.fileno()).st_size
        return min(1.0, raw.tell() / size) if size else None
    except (OSError, ValueError):
        return None
