"""`BadRows`: the side file that lists rows that cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from verigym.grade.lines import json_line
from verigym.grade.out_file import remove
from verigym.grade.reading.records import BadRow, place


class BadRows:
    """Writes the file of bad rows, with a line `{file, row, line, field, reason}` for each; without bad rows there is no file.

    Every run writes the file anew. A resumed run reads the input from the start again and so finds the same rows.
    """

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        self.count = 0
        self.first: BadRow | None = None
        self._source = source
        self._stream: BinaryIO | None = None
        remove(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._stream is not None:
            self._stream.close()

    def add(self, bad: BadRow) -> None:
        """Write a bad row."""
        self.count += 1
        self.first = self.first or bad
        if self._stream is None:
            self._stream = open(self.path, "wb")
        line = {"file": self._source, "row": bad.number, "line": bad.line, "field": bad.field, "reason": bad.reason}
        self._stream.write(json_line(line))

    def describe_first(self) -> str:
        """Return a description of the first bad row, or an empty string if there is none."""
        if self.first is None:
            return ""
        field = f", field {self.first.field!r}" if self.first.field else ""
        return f"{place(self.first.number, self.first.line)}{field}: {self.first.reason}"


def same_file(one: Path, other: Path) -> bool:
    """Return True if the paths `one` and `other` lead to the same file, whether it exists or not."""
    if one.exists() and other.exists():
        return os.path.samefile(one, other)
    return one.resolve() == other.resolve()
