"""Reader of Parquet, by small record batches."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from verigym.envs import UsageError
from verigym.envs.extras import need
from verigym.grade.reading.records import BadRow, InputRow

BATCH_ROWS = 128


class ParquetSource:
    """Rows of a Parquet file."""

    def __init__(self, name: str, raw: io.BufferedReader) -> None:
        pyarrow: Any = need("pyarrow", f"Parquet ({name})")
        parquet: Any = need("pyarrow.parquet", f"Parquet ({name})")
        self.name = name
        self._read = 0
        self._errors = (pyarrow.ArrowException, OSError)
        try:
            self._file = parquet.ParquetFile(raw)
        except self._errors as error:
            raise UsageError(f"{name} is not a readable Parquet file: {_one_line(error)}") from None
        self.columns: list[str] = self._file.schema_arrow.names
        twice = next((column for column in self.columns if self.columns.count(column) > 1), None)
        if twice is not None:
            raise UsageError(f"{name}: column {twice!r} occurs twice")
        if not self._file.metadata.num_rows:
            raise UsageError(f"{name} is empty: there is nothing to grade")
        self._wanted: list[str] | None = None

    def select(self, paths: Sequence[str]) -> None:
        """Read only these columns. If a column name contains a dot, which Arrow takes for nesting, all columns are read."""
        if not any("." in column for column in self.columns):
            self._wanted = [c for c in self.columns if any(path == c or path.startswith(f"{c}.") for path in paths)]

    def fraction(self) -> float | None:
        """Return the fraction of the rows read so far, from 0 to 1."""
        return self._read / int(self._file.metadata.num_rows)

    def __iter__(self) -> Iterator[InputRow | BadRow]:
        batches = self._file.iter_batches(batch_size=BATCH_ROWS, columns=self._wanted)
        while True:
            try:
                batch = next(batches, None)
            except self._errors as error:
                raise UsageError(f"{self.name}, after row {self._read}: damaged: {_one_line(error)}") from None
            if batch is None:
                return
            for data in _values(batch):
                self._read += 1
                if isinstance(data, dict):
                    yield InputRow(self._read, None, data)
                else:
                    yield BadRow(self._read, None, "", data)


def _values(batch: Any) -> Iterator[dict[str, Any] | str]:
    """Yield each row as a dictionary, or the reason why it has none."""
    try:
        yield from batch.to_pylist()
    except ValueError:  # one value that is not UTF-8 spoils the batch: find it
        for index in range(batch.num_rows):
            try:
                yield from batch.slice(index, 1).to_pylist()
            except ValueError as error:
                yield _one_line(error)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
