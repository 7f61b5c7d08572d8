"""Reads JSON Lines files that another process may still be writing: only complete lines; a replaced file is detected."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class LogTail:
    """Reads a log file while it grows. If a resumed run replaces the log by a shorter log, all rows are read again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        """All rows so far."""
        self.unreadable = 0
        """Whole lines that are no JSON objects."""
        self.restarts = 0
        """How often the log has begun anew."""
        self.modified: float | None = None
        """Time at which the log was last written, in seconds since the epoch; None while there is no file."""
        self._file: tuple[int, int] | None = None
        self._offset = 0
        self._last = b""

    def update(self) -> bool:
        """Read the new lines; return True if there were any, or if the log was replaced.

        An incomplete last line is not read yet.
        """
        try:
            stream = open(self.path, "rb")
        except OSError:
            self.modified = None
            return False
        with stream:
            status = os.fstat(stream.fileno())
            self.modified = status.st_mtime
            begun_anew = self._begun_anew(stream, status)
            if begun_anew:
                self.rows, self.unreadable, self._offset, self._last = [], 0, 0, b""
                self.restarts += 1
            self._file = status.st_dev, status.st_ino
            stream.seek(self._offset)
            found = False
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                self._offset += len(line)
                self._last = line
                found = True
                row = _row(line)
                if row is None:
                    self.unreadable += 1
                else:
                    self.rows.append(row)
        return found or begun_anew

    def _begun_anew(self, stream: Any, status: os.stat_result) -> bool:
        if self._file is None:
            return False
        if self._file != (status.st_dev, status.st_ino) or status.st_size < self._offset:
            return True
        # The same file, cut and written on beyond where we were.
        stream.seek(self._offset - len(self._last))
        return bool(stream.read(len(self._last)) != self._last)


class Lines:
    """Iterator over the JSON objects in a file, one per line.

    It counts the lines that are not JSON objects, an incomplete last one too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable = 0

    def __iter__(self) -> Iterator[Row]:
        with open(self.path, "rb") as stream:
            for line in stream:
                row = _row(line)
                if row is None:
                    self.unreadable += 1
                else:
                    yield row


def _row(line: bytes) -> Row | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def first_row(path: Path) -> Row | None:
    """Return the first line of a file as a JSON object; None if the line is no JSON object."""
    with open(path, "rb") as stream:
        return _row(stream.readline(64 * 2**20))


def read_json(path: Path) -> Row:
    """Return the JSON object in a file; empty if there is no such file or it holds anything else."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
