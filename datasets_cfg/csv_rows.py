"""Rows of a CSV file with a header line. Each value is converted from text to the type declared for its column."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verigym.datasets_cfg.fields import ColumnType
from verigym.datasets_cfg.json_rows import ListRows
from verigym.envs import strict_json

MAX_CELL_CHARACTERS = 1 << 24
_INTEGER = re.compile(r"[+-]?[0-9]{1,4000}")


def csv_rows(path: Path, types: Mapping[str, ColumnType]) -> ListRows:
    """Return the rows of a CSV file, which is decompressed if its name ends in .gz.

    Args:
        path: a UTF-8 file with a header; quoted values may span lines.
        types: the type of each column; columns that are not listed stay text.

    Raises:
        ValueError: the file is not CSV, a column is twice in the header, or a row is longer or shorter than the header.
        OSError, EOFError, zlib.error: the file cannot be read.
    """
    packed = path.suffix == ".gz"
    with (
        gzip.open(path, "rt", encoding="utf-8-sig", newline="")
        if packed
        else path.open(encoding="utf-8-sig", newline="") as stream,
        _long_cells(),
    ):
        reader = csv.reader(stream, strict=True)
        try:
            header = next(reader, [])
            for name in header:
                if header.count(name) > 1:
                    raise ValueError(f"line 1: column {name!r} stands twice in the header")
            return ListRows(_rows(reader, header, types))
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from None
        except UnicodeDecodeError as error:
            raise ValueError(f"behind line {reader.line_num}: not UTF-8: {error.reason}; save the file as UTF-8") from None


def _rows(reader: Any, header: list[str], types: Mapping[str, ColumnType]) -> Iterator[dict[str, Any]]:
    for cells in reader:
        if not cells:  # a blank line
            continue
        if len(cells) != len(header):
            raise ValueError(f"line {reader.line_num}: {len(cells)} cells; the header has {len(header)}")
        yield {name: value_of(cell, types.get(name, "string")) for name, cell in zip(header, cells, strict=True)}


def value_of(cell: str, kind: ColumnType) -> Any:
    """Return the CSV value `cell` converted to the type `kind`.

    An empty value becomes None, except as text. A value that cannot be converted is returned unchanged.
    """
    if kind == "string":
        return cell
    text = cell.strip()
    if not text:
        return None
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), cell)
    if kind in ("integer", "number") and _INTEGER.fullmatch(text):
        return int(text)
    if kind == "integer":
        return cell
    try:
        return float(text) if kind == "number" else strict_json.loads(text)
    except ValueError:
        return cell


@contextmanager
def _long_cells() -> Iterator[None]:
    """Raise the limit of a cell's length, which is one for the whole process and low by default."""
    previous = csv.field_size_limit(MAX_CELL_CHARACTERS)
    try:
        yield
    finally:
        csv.field_size_limit(previous)
