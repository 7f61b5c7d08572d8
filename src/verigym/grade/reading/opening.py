"""Opens a file of records in its format."""

from __future__ import annotations

import io
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, cast

from verigym.envs import UsageError
from verigym.envs.contract.errors import did_you_mean, near_file
from verigym.grade.lines import GZIP_MAGIC, LineReader
from verigym.grade.reading.records import MAX_RECORD_BYTES, STDIN, Source

Format = Literal["jsonl", "csv", "parquet"]


FORMATS: tuple[Format, ...] = ("jsonl", "csv", "parquet")


SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
}


PARQUET_MAGIC = b"PAR1"


STDIN_NAME = "standard input"


SHOWN = 60


_COLUMN = re.compile(r"[A-Za-z_][\w .\-]{0,63}")
"""A name that a header may have."""


@contextmanager
def open_source(path: str, format: str | None = None, *, max_record_bytes: int = MAX_RECORD_BYTES) -> Iterator[Source]:
    """Open a file, or `-` for standard input, and return a source that yields its records.

    Args:
        path: a JSONL or CSV file (plain or gzip), or a Parquet file.
        format: one of FORMATS; by default it follows from the file name (standard input: jsonl).
        max_record_bytes: maximum size of a record; a longer one becomes a bad row.

    Raises:
        UsageError: the file is missing, empty, unreadable, or not in the format that its name says.
    """
    with ExitStack() as stack:
        raw = _open(path, stack)
        chosen = _format(path, format)
        name = STDIN_NAME if path == STDIN else path
        start = _peek(name, raw)
        if not start:
            raise UsageError(f"{name} is empty: there is nothing to grade")
        if (start == PARQUET_MAGIC) != (chosen == "parquet"):
            what = "is a Parquet file" if start == PARQUET_MAGIC else "is not a Parquet file"
            raise UsageError(f"{name} {what}, but is to be read as {chosen}; pass --format {' or '.join(FORMATS)}")
        if path.endswith(".gz") and not start.startswith(GZIP_MAGIC):
            raise UsageError(f"{name} is not a gzip file, whatever its name says; decompress or rename it")
        yield _source(chosen, name, raw, max_record_bytes, stack)


def _source(chosen: Format, name: str, raw: io.BufferedReader, max_record_bytes: int, stack: ExitStack) -> Source:
    if chosen == "parquet":
        from verigym.grade.reading.rows_parquet import ParquetSource

        if not raw.seekable():  # a pipe: the format is read from its end
            copy = stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(raw, copy)
            raw = cast(io.BufferedReader, copy)
        return ParquetSource(name, raw)
    lines = LineReader(name, raw, max_record_bytes)
    _refuse_other_format(chosen, name, lines.peek())
    if chosen == "csv":
        from verigym.grade.reading.rows_csv import CsvSource

        return CsvSource(lines)
    from verigym.grade.reading.rows_jsonl import JsonlSource

    return JsonlSource(lines)


def _refuse_other_format(chosen: Format, name: str, start: bytes) -> None:
    """Refuse rows of JSON that are to be read as CSV, and a CSV file that is to be read as JSON.

    Raises:
        UsageError: saying what the file looks like.
    """
    lines = [line.strip() for line in start.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:2]]
    first, second = (*lines, "", "")[:2]
    objects = first.startswith(("{", "["))
    if chosen == "csv" and objects:
        raise UsageError(_looks(name, "JSON Lines", "jsonl", first))
    if chosen == "csv" or objects or not second or second.startswith("{"):
        return
    for separator, what in ((",", "CSV"), ("\t", "a table with tabs")):
        names = [column.strip().strip('"') for column in first.split(separator)]
        if len(names) > 1 and all(_COLUMN.fullmatch(column) for column in names):
            if separator == ",":
                raise UsageError(_looks(name, what, "csv", first))
            raise UsageError(f"{name} looks like {what} (it begins {first[:SHOWN]!r}); save it with commas, as CSV")


def _looks(name: str, what: str, format: Format, first: str) -> str:
    ending = f", or name it {Path(name.removesuffix('.gz')).stem}.{format}" if name != STDIN_NAME else ""
    return f"{name} looks like {what}, whatever its name says (it begins {first[:SHOWN]!r}); pass --format {format}{ending}"


def _peek(name: str, raw: io.BufferedReader) -> bytes:
    try:
        return raw.peek(len(PARQUET_MAGIC))[: len(PARQUET_MAGIC)]
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror or error}") from None


def _format(path: str, format: str | None) -> Format:
    if format is not None:
        if format not in FORMATS:
            raise UsageError(f"--format {format!r} is not known{did_you_mean(format, FORMATS)}")
        return format
    if path == STDIN:
        return "jsonl"
    suffix = Path(path.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of {path} from its name; pass --format {', '.join(FORMATS)}")
    return SUFFIXES[suffix]


def _open(path: str, stack: ExitStack) -> io.BufferedReader:
    if path == STDIN:
        return cast(io.BufferedReader, sys.stdin.buffer)
    try:
        return stack.enter_context(open(path, "rb"))
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist{near_file(path)}") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory; give one file") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path!r}: {getattr(error, 'strerror', None) or error}") from None
