"""Reads lines of a plain or gzip file, with a size limit per line, and with errors that name file and line."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from verigym.envs import UsageError

GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"
PEEKED_BYTES = 1024


def json_line(value: Any) -> bytes:
    """Return `value` as one line of JSON in UTF-8, or in ASCII if it holds a lone surrogate, which UTF-8 cannot encode."""
    try:
        return (json.dumps(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(value) + "\n").encode()


class LineProblem(ValueError):
    """Raised for a line of the input that cannot be used; the lines after it can still be read."""


class LineReader:
    """Reads a file line by line as text. `line` is the number of the last line read."""

    def __init__(self, name: str, raw: io.BufferedReader, max_line_bytes: int) -> None:
        self.name = name
        self.raw = raw
        self.max_line_bytes = max_line_bytes
        self.line = 0
        zipped = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
        # GzipFile reads like a BufferedReader; its type only says so in newer stubs
        self._stream = cast(io.BufferedReader, gzip.GzipFile(fileobj=raw)) if zipped else raw

    def read(self) -> str | None:
        """Return the next line including its line break, or None at the end of the file.

        Raises:
            LineProblem: the line is too long or not UTF-8.
            UsageError: the rest of the file cannot be read.
        """
        data = self._readline()
        if not data:
            return None
        self.line += 1
        if self.line == 1:
            data = data.removeprefix(BOM)
        if len(data) > self.max_line_bytes:
            while data and not data.endswith(b"\n"):
                data = self._readline()
            raise LineProblem(f"longer than {self.max_line_bytes:,} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise LineProblem(f"not UTF-8 (byte {error.start + 1}: {error.reason})") from None

    def rest(self) -> str:
        """Return everything that has not been read yet.

        Raises:
            ValueError: the text is not UTF-8.
            UsageError: the file cannot be read to its end.
        """
        with self._reading():
            data = self._stream.read()
        try:
            return data.removeprefix(BOM).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 (byte {error.start + 1}: {error.reason})") from None

    def peek(self) -> bytes:
        """Return the next bytes without consuming them; empty at the end of the file or if it cannot be read."""
        try:
            # GzipFile has it too
            return self._stream.peek(PEEKED_BYTES).removeprefix(BOM)
        except (OSError, EOFError, zlib.error):  # told when it is read
            return b""

    def _readline(self) -> bytes:
        with self._reading():
            return self._stream.readline(self.max_line_bytes + 1)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            raise self._broken("the gzip stream ends too early (a cut-off download?)") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._broken(f"the gzip stream is damaged ({error})") from None
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from None

    def _broken(self, reason: str) -> UsageError:
        place = f", after line {self.line}" if self.line else ""
        return UsageError(f"{self.name}{place}: {reason}")
