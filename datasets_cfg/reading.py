"""Rows of a split. JSON, CSV and archives are read here; Parquet and the hub by the library `datasets` (extra `data`)."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from verigym.datasets_cfg.csv_rows import csv_rows
from verigym.datasets_cfg.fields import ColumnType, describe
from verigym.datasets_cfg.json_rows import ChainedRows, JsonRows, ListRows
from verigym.datasets_cfg.schema import DatasetConfig, LocalFile, RowRange, RowValue
from verigym.envs import UsageError
from verigym.envs.contract.errors import did_you_mean, near_file
from verigym.envs.extras import need
from verigym.envs.file_hash import file_sha256
from verigym.envs.hub import hub_or_cache

MAX_RATIO = 200
"""Maximum compression ratio of a .gz file with more than MAX_UNASKED_BYTES of content. For text the ratio is 3 to 20."""
MAX_UNASKED_BYTES = 1 << 28
MAX_LEAN_FILE_BYTES = 1 << 20


class FileMismatch(UsageError):
    """Raised when a local file contradicts the description's `files.SPLIT`; `field` names the contradicted field."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


VALUES_NAMED = 8


def local_rows(config: DatasetConfig, split: str, data_dir: Path, cache: str | None) -> Any:
    """Return the rows of the local file of `split`.

    Raises:
        FileMismatch: the file does not exist, has no rows or cannot be read, or its hash is not that in the description.
        UsageError: the description has no file for `split`, or a package is not installed.
    """
    if split not in config.files:
        raise UsageError(f"data set {config.name!r} has no local file for split {split!r}{did_you_mean(split, config.files)}")
    file = config.files[split]
    path = data_dir / file.path
    paths = file.parts(data_dir)
    if not paths:
        what = "is a folder; name the file in it" if os.path.isdir(path) else "does not exist"
        near = near_file(path) if data_dir.is_dir() and not os.path.exists(path) else ""
        hint = near if near.endswith("?") else f"{near}; is --data-dir {data_dir} the right folder?"
        raise FileMismatch("path", f"data set {config.name!r}: {path} {what}{hint}")
    kind = _kind(file)
    try:
        for path in paths:
            if path.suffix == ".gz":
                refuse_packed_bomb(path)
        if file.sha256 and (found := digest(*paths)) != file.sha256:
            raise FileMismatch(
                "sha256",
                f"field files.{split}.sha256 is {file.sha256[:12]}..., but the content of {data_dir / file.path} has "
                f"{found[:12]}...: another revision of the data. Fetch the one described, or describe this one "
                f"(`verigym datasets pin`)",
            )
        parts = []
        for path in paths:
            parts.append(_read(path, kind, cache, _types(config, file)))
            if not len(parts[-1]):
                raise ValueError("it has no rows")
        rows = parts[0] if len(parts) == 1 else ChainedRows(parts)
        rows = _chosen(file, split, rows, data_dir / file.path)
    except UsageError:  # another revision, or a package that is not installed
        raise
    except Exception as error:  # the library's own, pyarrow's and the file system's errors have no common base
        field = "layout" if file.layout == "columns" else "path"
        raise FileMismatch(field, f"data set {config.name!r}: {path} cannot be read as {kind}: {_cause(error)}") from None
    return rows


def _kind(file: LocalFile) -> str:
    """Return how a file is read, in words for a message; its name decides."""
    if file.layout == "columns":
        return "columns"
    if file.path.endswith((".csv", ".csv.gz")):
        return "CSV"
    return "Parquet" if file.path.endswith(".parquet") else "JSON Lines"


def _types(config: DatasetConfig, file: LocalFile) -> dict[str, ColumnType]:
    """Return the types of columns for a file that holds texts alone: as declared, else as the choice of rows needs them."""
    types: dict[str, ColumnType] = {}
    if file.where is not None and not isinstance(file.where.equals, str):
        types[file.where.column] = "boolean" if isinstance(file.where.equals, bool) else "integer"
    if file.rows is not None:
        types[file.rows.column] = "integer"
    return {**types, **config.all_columns}


def _read(path: Path, kind: str, cache: str | None, types: Mapping[str, ColumnType]) -> Any:
    if path.name.endswith(".tar.gz"):
        return ListRows(lean_files(path))
    if kind == "columns":
        return ListRows(_columns(path))
    with path.open("rb") as stream:  # `datasets` reports this incomprehensibly
        if not stream.read(1 << 20).strip():
            raise ValueError("it is empty")
    if kind == "CSV":
        return csv_rows(path, types)
    if kind == "JSON Lines":
        return JsonRows(path)
    with quiet_datasets(str(path)) as datasets:
        return datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=cache)


def lean_files(path: Path) -> list[dict[str, str]]:
    """Return a row for each .lean file in a subfolder of an archive's top folder, ordered by path.

    `Root/Test/a.lean` gives a row with name `a`, folder `Test` and the text. Files directly in the top folder, such as
    `Root/Test.lean`, only import others and give no row.

    Raises:
        ValueError: a file is not UTF-8, or is larger than 1 MiB.
        OSError, tarfile.TarError: the archive cannot be read.
    """
    rows = []
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            place = PurePosixPath(member.name)
            if not member.isfile() or place.suffix != ".lean" or len(place.parts) < 3:
                continue
            if member.size > MAX_LEAN_FILE_BYTES:
                raise ValueError(f"{member.name} has {member.size:,} bytes, over {MAX_LEAN_FILE_BYTES:,}")
            stream = archive.extractfile(member)
            assert stream is not None, "a regular file has content"
            rows.append({"name": place.stem, "folder": place.parts[-2], "text": stream.read().decode()})
    return rows


def digest(*paths: Path) -> str:
    """Return the sha256 of a file's content.

    A .gz file is decompressed first, so that the hash does not depend on how it was compressed. For several files, return the
    sha256 of their concatenated hex digests.

    Raises:
        OSError, EOFError, zlib.error: a file cannot be read.
    """
    each = [file_sha256(path, unpacked=path.suffix == ".gz") for path in paths]
    return each[0] if len(each) == 1 else hashlib.sha256("".join(each).encode()).hexdigest()


def refuse_packed_bomb(path: Path) -> None:
    """Check that the .gz file `path` does not unpack to far more than text would, before its content is written to a disk.

    Raises:
        ValueError: the file unpacks to too many bytes.
        OSError, EOFError, zlib.error: the file cannot be read.
    """
    most = max(MAX_RATIO * path.stat().st_size, MAX_UNASKED_BYTES)
    size = 0
    with gzip.open(path) as stream:
        while block := stream.read(1 << 20):
            size += len(block)
            if size > most:
                raise ValueError(
                    f"it unpacks to over {most:,} bytes, {MAX_RATIO} times its size; unpack it yourself if that is right"
                )


def _columns(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
        try:
            table = json.load(stream)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {error.lineno}: {error.msg.removesuffix(' at')}; expected the object alone") from None
    if not isinstance(table, dict) or not table or not all(isinstance(column, dict) for column in table.values()):
        raise ValueError("expected one JSON object of columns, each an object {row: value}")
    rows = list(next(iter(table.values())))
    if any(list(column) != rows for column in table.values()):
        raise ValueError("the columns do not have the same rows")
    return [{name: column[row] for name, column in table.items()} for row in rows]


def _chosen(file: LocalFile, split: str, rows: Any, path: Path) -> Any:
    """Return the rows that `rows` and `where` of `files.SPLIT` choose.

    Raises:
        FileMismatch: they choose by a column that is not there, or choose none.
    """
    choices: dict[str, RowRange | RowValue | None] = {"rows": file.rows, "where": file.where}
    for field, choice in choices.items():
        if choice is None:
            continue
        said = f"field files.{split}.{field}"
        if choice.column not in rows.column_names:
            hint = did_you_mean(choice.column, rows.column_names)
            raise FileMismatch(field, f"{said}: {path} has no column {choice.column!r} to choose rows by{hint}")
        column = rows[choice.column] if hasattr(rows, "features") else [row.get(choice.column) for row in rows]
        chosen = [row for row, value in enumerate(column) if choice.fits(value)]
        if not chosen:
            raise FileMismatch(field, f"{said}: no row of {path} has {choice}; values there: {_values(column)}")
        rows = rows.select(chosen)
    return rows


def _values(column: Sequence[Any]) -> str:
    """Return the first few different values of a column, those that are no text with their type."""
    shown: dict[str, None] = {}
    for value in column:
        text = value if isinstance(value, str) else f"{json.dumps(value)} ({describe(value).removeprefix('is ')})"
        shown.setdefault(text if value is not None else "null")
        if len(shown) > VALUES_NAMED:
            break
    named = [text if len(text) <= 40 else f"{text[:37]}..." for text in shown][:VALUES_NAMED]
    return ", ".join([*named, "..."] if len(shown) > VALUES_NAMED else named)


def hub_rows(config: DatasetConfig, split: str, cache: str | None) -> Any:
    """Return the rows of a split from the hub, at the pinned revision.

    Raises:
        UsageError: there is no such split, or the hub cannot be reached.
    """
    if config.hub is None and split in config.files:
        raise UsageError(
            f"data set {config.name!r} is in local files, not on the hub; give --data-dir, the folder that holds "
            f"{config.files[split].path} (`data_dir` in Python and in a run's source)"
        )
    if config.hub is None:
        raise UsageError(f"data set {config.name!r} has no split {split!r}{did_you_mean(split, config.splits)}")
    if split not in config.hub.names:
        hint = did_you_mean(split, config.hub.names)
        local = f"; with --data-dir: {', '.join(config.files)}" if split in config.files else ""
        raise UsageError(f"data set {config.name!r} has no split {split!r} on the hub{hint}{local}")
    hub = config.hub
    what = f"data set {config.name!r} from the hub"
    with quiet_datasets(what) as datasets, hub_or_cache(what) as silence:
        try:
            if split in hub.files:
                at = f"@{hub.revision}" if hub.revision else ""
                urls = [f"hf://datasets/{hub.path}{at}/{file}" for file in hub.files[split]]
                return datasets.load_dataset("json", data_files=urls, split="train", cache_dir=cache)
            return datasets.load_dataset(hub.path, hub.config, split=hub.splits[split], revision=hub.revision, cache_dir=cache)
        except Exception as error:  # as above, and the network's
            local = f", or pass --data-dir DIR to read DIR/{config.files[split].path}" if split in config.files else ""
            reason = f"{silence}, and there is no copy in its cache" if silence else _cause(error)
            raise UsageError(
                f"data set {config.name!r} cannot be read from the hub ({hub.path}): {reason}; try later{local}"
            ) from None


@contextmanager
def quiet_datasets(what: str) -> Iterator[Any]:
    """Return a context that yields the module `datasets` and hides its progress bars and log lines.

    Args:
        what: the data that is to be read, for the message if the package is missing.

    Raises:
        UsageError: the package is not installed.
    """
    datasets: Any = need("datasets", what)
    bars = datasets.are_progress_bars_disabled()
    verbosity = datasets.logging.get_verbosity()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # its errors are raised too, and reworded here
    try:
        yield datasets
    finally:
        datasets.logging.set_verbosity(verbosity)
        if not bars:
            datasets.enable_progress_bars()


def _cause(error: BaseException) -> str:
    """Return the innermost reason in one line: outer ones say only that something failed."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:200] or type(error).__name__
