"""Lines of a plain or gzip stream, each within a size limit, with errors that name file and line."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import cast

from verigym.envs import UsageError

GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


class LineProblem(ValueError):
    """A line that cannot be used; the lines after it can."""


class LineReader:
    """Reads line after line as text. `line` is the number of the line read last."""

    def __init__(self, name: str, raw: io.BufferedReader, max_line_bytes: int) -> None:
        self.name = name
        self.raw = raw
        self.max_line_bytes = max_line_bytes
        self.line = 0
        zipped = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
        # GzipFile reads like a BufferedReader; its type only says so in newer stubs
        self._stream = cast(io.BufferedReader, gzip.GzipFile(fileobj=raw)) if zipped else raw

    def read(self) -> str | None:
        """Return the next line with its line end; None at the end.

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

    def _readline(self) -> bytes:
        try:
            return self._stream.readline(self.max_line_bytes + 1)
        except EOFError:
            raise self._broken("the gzip stream ends too early (a cut-off download?)") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self._broken(f"the gzip stream is damaged ({error})") from None
        except OSError as error:
            raise self._broken(error.strerror or str(error)) from None

    def _broken(self, reason: str) -> UsageError:
        place = f", after line {self.line}" if self.line else ""
        return UsageError(f"{self.name}{place}: {reason}")
