"""Reader of CSV with a header line; a quoted field may span lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from verigym.envs import UsageError
from verigym.grade.lines import LineProblem, LineReader
from verigym.grade.reading.records import BadRow, InputRow, bytes_read


class _Lines:
    """What csv.reader draws from; it may go on after an exception, as the reader starts a new record then."""

    def __init__(self, lines: LineReader) -> None:
        self.lines = lines
        self.record_bytes = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        text = self.lines.read()
        if text is None:
            raise StopIteration
        self.record_bytes += len(text)
        if self.record_bytes > self.lines.max_line_bytes:
            raise LineProblem(f"record longer than {self.lines.max_line_bytes:,} characters (a quote left open?)")
        if "\0" in text:
            raise LineProblem("a NUL character")
        return text


class CsvSource:
    """The rows of a CSV file; every value is a string. Blank lines are skipped."""

    def __init__(self, lines: LineReader) -> None:
        self.name = lines.name
        self._text = _Lines(lines)
        self._reader = csv.reader(self._text, strict=True)
        try:
            header = self._read() or []
        except (LineProblem, csv.Error) as problem:
            raise UsageError(f"{self.name}, line 1: the header cannot be read: {problem}") from None
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None or not header:
            raise UsageError(
                f"{self.name}, line 1: "
                + (f"column {twice!r} occurs twice in the header" if header else "expected a header with column names")
            )
        self.columns = header

    def select(self, paths: Sequence[str]) -> None:
        """Do nothing: a line is always parsed as a whole, so no column can be skipped."""

    def fraction(self) -> float | None:
        """Return the fraction of the input read so far, from 0 to 1; None if unknown."""
        return bytes_read(self._text.lines.raw)

    def __iter__(self) -> Iterator[InputRow | BadRow]:
        number = 0
        while True:
            line = self._text.lines.line + 1
            try:
                values = self._read()
            except (LineProblem, csv.Error) as problem:
                number += 1
                yield BadRow(number, line, "", str(problem))
                continue
            if values is None:
                return
            if not values:
                continue
            number += 1
            if len(values) != len(self.columns):
                yield BadRow(number, line, "", f"{len(values)} columns; the header has {len(self.columns)}")
            else:
                yield InputRow(number, line, dict(zip(self.columns, values, strict=True)))

    def _read(self) -> list[str] | None:
        self._text.record_bytes = 0
        # The limit is one for the whole process and low by default; a record's size is limited in _Lines anyway.
        previous = csv.field_size_limit(self._text.lines.max_line_bytes)
        try:
            return next(self._reader, None)
        finally:
            csv.field_size_limit(previous)
