"""The output file of `verigym grade`: it survives a kill at any byte, and is continued only with the same settings.

Lines are appended whole and in order, so after a kill the file is a prefix of the final file, plus perhaps a partial line. The
file `OUT.meta.json` beside it, the sidecar, records the settings. Its list `runs` has the command and the versions of each run,
with the number of the first line that the run wrote. When a run is resumed, the input is read again, and each line of the
output is compared with its item of the input. Lines without a verdict are graded again and replaced (see `retries`).
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from verigym.envs import UsageError
from verigym.grade.lines import json_line
from verigym.grade.manifest import differences
from verigym.grade.reading.records import sample_place
from verigym.grade.retries import Journal, count, merge, to_retry

OTHER_FORMATS = frozenset(
    ".gz .bz2 .xz .zst .zip .tar .tgz .parquet .pq .arrow .feather .orc .csv .tsv .xlsx .yaml .yml .pkl .db .sqlite".split()
)
BLOCK_BYTES = 2**16
START_AGAIN = "pass --overwrite to start again, or another --out"
ID_FIELDS = ("row", "sample_index", "prompt", "completion")


def sidecar(out: Path, kind: str) -> Path:
    """Return the path of the file `OUT.kind` beside the output file `out`."""
    return out.with_name(f"{out.name}.{kind}")


def default_out(source: str) -> Path:
    """Return the default path for the scores of the input `source`.

    Raises:
        UsageError: `source` is a folder, or `-`, standard input, from which no name can be derived.
    """
    if source == "-":
        raise UsageError("missing option --out: standard input has no name to call the scores by")
    path = Path(source.removesuffix(".gz"))
    if path.is_dir():
        raise UsageError(f"{source}: is a directory; give one file")
    return path.with_name(f"{path.stem}.scores.jsonl")


def check_name(path: Path, flag: str) -> None:
    """Check that the suffix of `path` does not belong to a format other than JSON Lines, the only one that is written.

    Raises:
        UsageError: the suffix belongs to another format; the message names the option `flag`.
    """
    if path.suffix.lower() in OTHER_FORMATS:
        raise UsageError(
            f"{flag} {path}: what is written is JSON Lines, uncompressed, so that a run can go on where it stopped; "
            f"name it {path.name.split('.')[0] or 'scores'}.jsonl and convert it when the run has ended"
        )


def write_atomically(path: Path, value: Any) -> None:
    """Write `value` to `path` as JSON in one atomic step: readers see the old content or the complete new content."""
    partial = sidecar(path, "partial")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace")
    os.replace(partial, path)


@dataclass(frozen=True, slots=True)
class EarlierLine:
    """A line that an earlier run wrote."""

    number: int
    """From 1."""
    line: Mapping[str, Any]

    @property
    def again(self) -> bool:
        """True if the line's completion is to be graded again."""
        return to_retry(self.line["score"])


class OutFile:
    """The output file of a grading, open for appending. If it is still empty when it is closed, it and its sidecar are deleted.

    Raises:
        UsageError: the file cannot be written, another process is writing it, or it was made with other settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], run: Mapping[str, Any], *, overwrite: bool) -> None:
        self.path = path
        self.kept = 0
        """Lines of earlier runs that stay."""
        self.retried = 0
        """Lines of earlier runs that this one has replaced."""
        self.other_versions = ""
        """Differences between the package versions with which earlier lines were made and the present versions; empty if there
        are none."""
        self._settings = settings
        self._run: Mapping[str, Any] | None = run
        self._runs: list[dict[str, Any]] = []
        self._journal = Journal(sidecar(path, "retried.jsonl"))
        with _writing(path):
            self._stream: BinaryIO = open(path, "ab")
        try:
            self._lock(self._stream)
            if not _leads_to(path, self._stream):
                raise _being_written(path)  # it has replaced the file since we opened it
            self._prepare(overwrite)
        except BaseException:
            self._stream.close()
            raise
        self.lines, self.unscored = count(path) if stat.S_ISREG(os.fstat(self._stream.fileno()).st_mode) else (0, 0)
        """Lines in the file, and those of them that are graded again."""
        self._position = 0
        self._old = self._old_lines()
        self._next: dict[str, Any] | None = next(self._old, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._old.close()
        self.settle()
        status = os.fstat(self._stream.fileno())
        if stat.S_ISREG(status.st_mode) and not status.st_size and not self.path.is_symlink():
            remove(sidecar(self.path, "meta.json"))  # while the lock is held
            remove(self.path)
        self._stream.close()

    def earlier(self, identity: Mapping[str, Any]) -> EarlierLine | None:
        """Return the next line that an earlier run wrote, or None after the last line.

        The line must belong to the item that `identity` describes.

        Raises:
            UsageError: the next line is of another item, so the file belongs to another input.
        """
        line = self._next
        if line is None:
            return None
        old = {name: line.get(name) for name in ID_FIELDS}
        if old != {name: identity[name] for name in ID_FIELDS}:
            there, here = sample_place(line), sample_place(identity)
            what = f"the input has something else at {here}" if there == here else f"the input goes on with {here}, not {there}"
            raise UsageError(f"{self.path}, line {self._position + 1}: {what}: it has changed; {START_AGAIN}")
        self._position += 1
        self._next = next(self._old, None)
        earlier = EarlierLine(self._position, line)
        self.kept += not earlier.again
        return earlier

    def check_finished(self) -> None:
        """Raise UsageError if the file has lines beyond the end of the input."""
        if self._next is not None:
            raise UsageError(f"{self.path} holds more than the input gives: the input has changed; {START_AGAIN}")

    def append(self, value: Mapping[str, Any]) -> None:
        """Write `value` as one line and flush it, so that the line survives a kill of this process."""
        self._record()
        with _writing(self.path):
            self._stream.write(json_line(value))
            self._stream.flush()

    def replace(self, number: int, value: Mapping[str, Any]) -> None:
        """Store `value` as the replacement of line `number`, until `settle` puts it into the file.

        The replacement survives a kill of this process.
        """
        self._record()
        with _writing(self._journal.path):
            self._journal.add(number, value)
        self.retried += 1

    def settle(self) -> None:
        """Put all replacement lines into the file at once: after a kill it holds either all of them or none."""
        self._journal.close()
        if not self._journal.path.exists():
            return
        target = Path(os.path.realpath(self.path))  # a link stays one
        partial = sidecar(target, "partial")
        with _writing(partial):
            new = open(partial, "w+b")
            try:
                self._lock(new)  # whoever opens the file from now on meets a lock, as before
                merged = merge(self.path, self._journal, new)
                os.replace(partial, target)
            except BaseException:
                new.close()
                remove(partial)
                raise
        self._stream.close()
        self._stream = new
        if self._runs:
            self._runs[-1]["retried"] = self._runs[-1].get("retried", 0) + merged
            self._write_meta()
        remove(self._journal.path)

    def _lock(self, stream: BinaryIO) -> None:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _being_written(self.path) from None
        except OSError:  # a file system without locks
            return

    def _prepare(self, overwrite: bool) -> None:
        if overwrite or not os.fstat(self._stream.fileno()).st_size:
            self._stream.truncate(0)
            remove(self._journal.path)
        meta = sidecar(self.path, "meta.json")
        if os.fstat(self._stream.fileno()).st_size:
            self._check_same(meta)  # before a byte is dropped: the file may be somebody else's
            _drop_partial_line(self._stream, self.path)
            self.settle()
        if not os.fstat(self._stream.fileno()).st_size:
            self._runs = []
            self._write_meta()

    def _check_same(self, meta: Path) -> None:
        try:
            old = json.loads(meta.read_text(encoding="utf-8"))
            self._runs = list(old.pop("runs", []))
        except (OSError, ValueError, TypeError, AttributeError):
            reason = f"exists and has no readable {meta.name}, so it cannot be continued"
            raise UsageError(f"{self.path} {reason}; {START_AGAIN}") from None
        changes = differences(old, json.loads(json.dumps(self._settings)))
        if changes:
            raise UsageError(f"{self.path} was made {self._source()}with other settings: {'; '.join(changes)}; {START_AGAIN}")
        if self._runs and self._run is not None:
            kinds = [name for name in ("versions", "programs_import") if name in self._runs[-1] and name in self._run]
            differing = [words for name in kinds for words in differences(self._runs[-1][name], self._run[name])]
            self.other_versions = "; ".join(dict.fromkeys(differing))

    def _source(self) -> str:
        """Return the input that the lines came from, where its name has changed."""
        old = self._runs[-1].get("input") if self._runs else None
        return f"from {old} " if old and self._run is not None and old != self._run["input"] else ""

    def _record(self) -> None:
        """Record that this run makes the lines that follow, where it differs from the one before."""
        run, self._run = self._run, None
        if run is None:
            return
        if not self._runs or any(self._runs[-1].get(name) != value for name, value in run.items()):
            self._runs.append({"first_line": self.lines + 1, **run})
            self._write_meta()

    def _write_meta(self) -> None:
        meta = sidecar(self.path, "meta.json")
        with _writing(meta):
            write_atomically(meta, {**self._settings, "runs": self._runs})

    def _old_lines(self) -> Generator[dict[str, Any], None, None]:
        return complete_lines(self.path, os.fstat(self._stream.fileno()).st_size)


def _being_written(path: Path) -> UsageError:
    return UsageError(f"{path} is being written by another verigym grade")


def _leads_to(path: Path, stream: BinaryIO) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(stream.fileno()))
    return False


def complete_lines(path: Path, size: int | None = None) -> Generator[dict[str, Any], None, None]:
    """Yield the lines of an output file, up to `size` bytes if that is given.

    Raises:
        UsageError: a line was not written by verigym.
    """
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, 1):
            if size is not None and stream.tell() > size:
                return
            try:
                value = json.loads(line)
                if not (isinstance(value, dict) and isinstance(value["score"], dict)):
                    raise ValueError
            except (ValueError, KeyError, RecursionError):
                raise UsageError(f"{path}, line {number}: not a line of verigym grade; {START_AGAIN}") from None
            yield value


def _drop_partial_line(stream: BinaryIO, path: Path) -> None:
    size = keep = os.fstat(stream.fileno()).st_size
    with open(path, "rb") as reader:
        while keep > 0:
            start = max(0, keep - BLOCK_BYTES)
            reader.seek(start)
            newline = reader.read(keep - start).rfind(b"\n")
            if newline >= 0:
                keep = start + newline + 1
                break
            keep = start
    if keep < size:
        stream.truncate(keep)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}") from None
    except IsADirectoryError:
        raise UsageError(f"cannot write {path}: it is a directory") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def remove(path: Path) -> None:
    """Delete a file if it is there."""
    with suppress(FileNotFoundError):
        path.unlink()
