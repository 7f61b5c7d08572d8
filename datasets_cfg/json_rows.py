"""Rows of a JSON Lines file, or of a file that is one JSON list, with the values exactly as written.

The `datasets` library is not used because it gives each column one type. If a field is text in one row and a number in another,
it parses the texts as JSON (`"12"` becomes 12, in tests too). It also adds the keys of other rows to objects.
"""

from __future__ import annotations

import gzip
import json
import mmap
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from verigym.envs import strict_json

_BOM = b"\xef\xbb\xbf"


class JsonRows(Sequence[Mapping[str, Any]]):
    """The rows of a JSON file as a sequence.

    A row is parsed only when it is accessed, but opening the file checks each row once.

    Raises:
        ValueError: a line is not a JSON object; the message names the line. A row that is not UTF-8 raises only when accessed.
        OSError, EOFError, zlib.error: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._data = _content(path)
        self._spans = array("Q")
        columns: dict[str, None] = {}
        start = len(_BOM) if self._data[: len(_BOM)] == _BOM else 0
        if self._data[start : start + 1024].lstrip().startswith(b"["):
            self._listed(start, columns)
        else:
            self._lines(start, columns)
        self.column_names = list(columns)

    def _listed(self, start: int, columns: dict[str, None]) -> None:
        rows = _parse(self._data[start:], "the list")
        for number, row in enumerate(rows, 1):
            columns.update(dict.fromkeys(_object(row, f"item {number}")))
        texts = [json.dumps(row).encode() for row in rows]
        self._data = b"".join(texts)
        end = 0
        for text in texts:
            self._spans.extend((end, end + len(text)))
            end += len(text)

    def _lines(self, start: int, columns: dict[str, None]) -> None:
        number = 0
        while start < len(self._data):
            number += 1
            end = self._data.find(b"\n", start)
            end = len(self._data) if end < 0 else end
            if self._data[start:end].strip():
                try:
                    row = _parse(self._data[start:end], f"line {number}")
                except UnicodeDecodeError:  # reported when this row is read; the others can be used
                    row = {}
                columns.update(dict.fromkeys(_object(row, f"line {number}")))
                self._spans.extend((start, end))
            start = end + 1

    def __len__(self) -> int:
        return len(self._spans) // 2

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, int):
            raise TypeError(f"{index!r}: expected the number of a row")
        if not 0 <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        row: Mapping[str, Any] = _parse(self._data[self._spans[2 * index] : self._spans[2 * index + 1]], f"row {index}")
        return row

    def select(self, rows: Sequence[int]) -> JsonRows:
        """Return the rows with the numbers `rows`, counted from 0."""
        chosen = object.__new__(type(self))
        chosen._data, chosen.column_names = self._data, self.column_names
        chosen._spans = array("Q", (place for row in rows for place in self._spans[2 * row : 2 * row + 2]))
        return chosen


class ListRows(list[Mapping[str, Any]]):
    """Rows in memory; all have the columns of the first."""

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self[0]) if self else []

    def select(self, rows: Sequence[int]) -> ListRows:
        """Return the rows with the numbers `rows`, counted from 0."""
        return ListRows(self[row] for row in rows)


class ChainedRows(Sequence[Mapping[str, Any]]):
    """The rows of several files as one sequence, one file after the other.

    Args:
        parts: the rows of each file; each has `column_names`.
        rows: the numbers of the rows to include; all by default.
    """

    def __init__(self, parts: Sequence[Any], rows: Sequence[int] | None = None) -> None:
        self._parts = parts
        self._ends = list(accumulate(len(part) for part in parts))
        self._rows = range(self._ends[-1]) if rows is None else rows
        self.column_names = list(dict.fromkeys(name for part in parts for name in part.column_names))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        row = self._rows[index]
        part = bisect_right(self._ends, row)
        return self._parts[part][row - (self._ends[part - 1] if part else 0)]

    def select(self, rows: Sequence[int]) -> ChainedRows:
        """Return the rows with the numbers `rows`, counted from 0."""
        return ChainedRows(self._parts, [self._rows[row] for row in rows])


def _content(path: Path) -> bytes | mmap.mmap:
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            file.seek(0)
            return gzip.GzipFile(fileobj=file).read()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _parse(text: bytes, where: str) -> Any:
    try:
        return strict_json.loads(text.decode("utf-8"))
    except UnicodeDecodeError:
        raise
    except json.JSONDecodeError as error:
        raise ValueError(f"{where}: {error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: expected an object, a row; found {type(row).__name__}")
    return row
