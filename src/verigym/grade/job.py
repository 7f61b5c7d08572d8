"""One run of `verigym grade`: read, grade, append, sum up."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from verigym.envs import Completion, Environment, Prompt, Score, UsageError
from verigym.envs.errors import did_you_mean
from verigym.envs.grading import Grader
from verigym.envs.registry import load_usable
from verigym.grade.badrows import BadRows, same_file
from verigym.grade.columns import Columns, Item, items
from verigym.grade.outfile import OutFile, complete_lines, fingerprint, remove, sidecar, write_atomically
from verigym.grade.progress import Progress
from verigym.grade.rows import MAX_RECORD_BYTES, STDIN, BadRow, Row, Source, open_source
from verigym.grade.summary import Summary, summarise

FORMAT_VERSION = 1
SAMPLE_ROWS = 32


class GradeJob(BaseModel):
    """Everything one run needs to know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str
    format: str | None = None
    out: Path
    environment: str
    options: Mapping[str, Any] = {}
    columns: Columns = Columns()
    ks: tuple[int, ...] = ()
    workers: int | None = None
    timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    cache: Path | None = None
    overwrite: bool = False
    max_record_bytes: int = Field(default=MAX_RECORD_BYTES, gt=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    summary: Summary
    bad_rows: int
    first_bad: str
    bad_path: Path
    summary_path: Path
    already_done: int
    seconds: float


def run(job: GradeJob) -> Outcome:
    """Grade a file, or go on where an earlier run of the same job was stopped.

    Raises:
        UsageError: a mistake in the call or an input that cannot be read to its end; what was graded before it is kept.
    """
    start = time.monotonic()
    _check_paths(job)
    environment = load_usable(job.environment, **job.options)
    columns = with_references(job.columns, environment)
    with open_source(job.input, job.format, max_record_bytes=job.max_record_bytes) as source:
        source.select([*columns.used(), *columns.optional.values()])
        records = _checked(source, columns)
        bad_path, summary_path = sidecar(job.out, "bad.jsonl"), sidecar(job.out, "summary.json")
        grader = Grader(environment, workers=job.workers, timeout_s=job.timeout_s, cache=job.cache)
        with grader, OutFile(job.out, _settings(job, columns, environment), overwrite=job.overwrite) as out:
            with BadRows(bad_path, source.name) as bad, Progress("grading") as progress:
                remove(summary_path)
                grader.start()  # a worker that cannot start must not make a whole file of unscored lines
                _grade(_Feed(records, columns, environment, out, bad), grader, out, source, progress)
                gold_columns = ", ".join(columns.references.values())
                summary = summarise(_with_bad_golds(complete_lines(job.out), bad, gold_columns), job.ks)
            if not summary.n and not bad.count:
                raise UsageError(f"{source.name} holds no rows: there is nothing to grade")
            seconds = time.monotonic() - start
            outcome = Outcome(summary, bad.count, bad.describe_first(), bad_path, summary_path, out.skipped, seconds)
            write_atomically(summary_path, _summary_json(job, environment, outcome))
    return outcome


def with_references(columns: Columns, environment: Environment) -> Columns:
    """Read each field of the environment's reference for which no column was named from its namesake.

    Fields that need not be given are read where a row has a value. The prompt, completions and the group are none.

    Raises:
        UsageError: the environment's reference has no field of a name that was given.
    """
    kind = getattr(environment, "reference_type", None)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return columns
    for name in columns.references:
        if name not in kind.model_fields:
            hint = did_you_mean(name, kind.model_fields)
            raise UsageError(f"the reference of environment {environment.name!r} has no field {name!r}{hint}")
    taken = {columns.prompt, *columns.completions, columns.group_by}
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    for name, field in kind.model_fields.items():
        namesake = name if field.is_required() or name not in taken else ""
        if column := columns.references.get(name, namesake):
            (required if field.is_required() else optional)[name] = column
    return columns.model_copy(update={"references": required, "optional": optional})


class _Feed:
    """Gives the grader what is not yet graded, and remembers what each coming score is for."""

    def __init__(
        self,
        records: Iterable[Row | BadRow],
        columns: Columns,
        environment: Environment,
        out: OutFile,
        bad: BadRows,
    ) -> None:
        self.waiting: deque[Item] = deque()
        self.stopped: UsageError | None = None
        self.bad = bad
        self._records = records
        self._columns = columns
        self._environment = environment
        self._out = out

    def __iter__(self) -> Iterator[tuple[Prompt, Completion]]:
        try:
            for record in self._records:
                parts: Iterable[Item | BadRow]
                parts = [record] if isinstance(record, BadRow) else items(record, self._columns, self._environment)
                for part in parts:
                    if isinstance(part, BadRow):
                        self.bad.add(part)
                    elif not self._out.already_has(_identity(part)):
                        self.waiting.append(part)
                        yield part.prompt, part.completion
            self._out.check_finished()
        except UsageError as error:  # the input broke off: what was read before it is graded first
            self.stopped = error


def _grade(feed: _Feed, grader: Grader, out: OutFile, source: Source, progress: Progress) -> None:
    done = 0
    for score in grader.stream(feed):
        item = feed.waiting.popleft()
        out.append(_line(item, score))
        done += 1
        progress.update(done, source.fraction(), f", {feed.bad.count:,} bad" if feed.bad.count else "")
    if feed.stopped is not None:
        raise feed.stopped


def _identity(item: Item) -> dict[str, Any]:
    return {
        "row": item.row,
        "sample": item.sample,
        "prompt": item.prompt.key,
        "completion": item.completion.digest[:32],
    }


def _line(item: Item, score: Score) -> dict[str, Any]:
    place = {"line": item.line, "column": item.column, "group": item.group}
    return {**_identity(item), **place, "score": score.model_dump(mode="json"), "columns": dict(item.kept)}


def _with_bad_golds(lines: Iterable[Mapping[str, Any]], bad: BadRows, field: str) -> Iterator[Mapping[str, Any]]:
    """Pass lines on, listing each row whose gold turned out unusable when it was graded."""
    last = None
    for line in lines:
        error = line["score"]["error"]
        if error is not None and error["kind"] == "gold_invalid" and line["row"] != last:
            last = line["row"]
            bad.add(BadRow(line["row"], line["line"], field, error["message"]))
        yield line


def _checked(source: Source, columns: Columns) -> Iterator[Row | BadRow]:
    """Return the source's records, after looking in the first of them for columns that do not exist."""
    records = iter(source)
    head: list[Row | BadRow] = []
    rows: list[Mapping[str, Any]] = []
    broken: UsageError | None = None
    try:
        for record in itertools.islice(records, SAMPLE_ROWS):
            head.append(record)
            if isinstance(record, Row):
                rows.append(record.data)
    except UsageError as error:
        broken = error
    names = source.columns if source.columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    if names:
        columns.check(names, rows, source.name)
    return _chain(head, broken, records)


def _chain(head: Sequence[Row | BadRow], broken: UsageError | None, rest: Iterator[Row | BadRow]) -> Iterator[Row | BadRow]:
    yield from head
    if broken is not None:
        raise broken
    yield from rest


def _check_paths(job: GradeJob) -> None:
    if not job.out.name or job.out.is_dir():
        raise UsageError(f"--out {job.out} is a folder; name a file in it, such as {job.out / 'scores.jsonl'}")
    if job.input == STDIN or not os.path.exists(job.input):
        return
    written = {"--out": job.out}
    written.update({kind: sidecar(job.out, kind) for kind in ("meta.json", "bad.jsonl", "summary.json")})
    for what, path in written.items():
        if same_file(Path(job.input), path):
            raise UsageError(f"{what} would overwrite the input {job.input}; choose another --out")


def _settings(job: GradeJob, columns: Columns, environment: Environment) -> dict[str, Any]:
    """Everything that the lines of the output depend on. A file moved elsewhere is still the same input."""
    return {
        "format_version": FORMAT_VERSION,
        "input": {"size": None} if job.input == STDIN else fingerprint(job.input),
        "format": job.format,
        "grader": environment.grader,
        "timeout_s": job.timeout_s,
        "columns": columns.model_dump(mode="json"),
        "max_record_bytes": job.max_record_bytes,
    }


def _summary_json(job: GradeJob, environment: Environment, outcome: Outcome) -> dict[str, Any]:
    return {
        "input": job.input,
        "out": str(job.out),
        "environment": job.environment,
        "grader": environment.grader,
        **outcome.summary.model_dump(mode="json"),
        "bad_rows": outcome.bad_rows,
        "seconds": outcome.seconds,
    }
