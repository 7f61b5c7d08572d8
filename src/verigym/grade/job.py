"""`run`: one run of `verigym grade`, which reads and grades completions, writes the scores, and summarises them."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from verigym.envs import Completion, Environment, Prompt, Score, UsageError
from verigym.envs.code.packages import NO_NUMPY, importable, lacks_numpy
from verigym.envs.contract.errors import did_you_mean
from verigym.envs.grading import Grader
from verigym.envs.own_code import own_code
from verigym.envs.progress import Progress
from verigym.envs.registry import load_usable
from verigym.grade.agreement import Agreement, Disagreements
from verigym.grade.bad_rows import BadRows, same_file
from verigym.grade.hints import Hint, hints
from verigym.grade.manifest import FORMAT_VERSION, fingerprint, options_of, versions
from verigym.grade.out_file import OutFile, check_name, complete_lines, remove, sidecar, write_atomically
from verigym.grade.reading.columns import Columns, Item, items
from verigym.grade.reading.head import InputHead, read_head
from verigym.grade.reading.opening import open_source
from verigym.grade.reading.records import MAX_RECORD_BYTES, STDIN, BadRow, InputRow, Source
from verigym.grade.specimens import Specimens
from verigym.grade.summary import Summary, summarise
from verigym.grade.tasks import DataJob, Joined, Tasks, check_usable, completion_columns, reading_options
from verigym.terminal import complain

_NODES_EVERY = 500
"""Completions between two looks at the rates of a cluster's nodes."""
SIDECARS = ("meta.json", "bad.jsonl", "disagreements.jsonl", "summary.json", "retried.jsonl", "partial")


class GradeJob(BaseModel):
    """The settings of a grading run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str
    format: str | None = None
    out: Path
    environment: str | None = None
    """Name of the environment; None for the data set's own."""
    options: Mapping[str, Any] = {}
    columns: Columns = Columns()
    data: DataJob | None = None
    """The data set of the tasks that the rows refer to by id; None if the rows themselves hold prompt and reference."""
    ks: tuple[int, ...] = ()
    workers: int | None = None
    cluster: str | None = None
    """As the Grader takes it."""
    timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    cache: Path | None = None
    overwrite: bool = False
    max_record_bytes: int = Field(default=MAX_RECORD_BYTES, gt=0)
    command: str = ""
    """The command line, written down beside the scores."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a grading run."""

    summary: Summary
    bad_rows: int
    first_bad: str
    bad_path: Path
    summary_path: Path
    agreement: Agreement | None
    """How the verdicts agree with the labels of the input; None if no column of labels was named."""
    disagreements_path: Path
    already_done: int
    """Completions that keep the verdict of an earlier run."""
    retried: int
    """Completions that had none and were graded again."""
    seconds: float
    columns: Columns
    """The columns, with defaults filled in."""
    chosen_options: Mapping[str, Any]
    """Environment options that the user did not give and that were chosen to fit the form of the samples."""
    other_versions: str
    """Differences between the package versions with which earlier lines were made and the present versions; empty if there are
    none."""
    joined: Joined | None
    hints: tuple[Hint, ...]
    nodes: tuple[Any, ...] = ()
    """What each node of the cluster graded (`cluster.engine.NodeFigures`); empty without a cluster."""


@dataclass(frozen=True, slots=True)
class _Setup:
    """The environment, its options, and the tasks that samples name."""

    environment: Environment
    name: str
    """Name that the environment is loaded by."""
    options: Mapping[str, Any]
    """Options that it was loaded with."""
    chosen: Mapping[str, Any]
    tasks: Tasks | None


def run(job: GradeJob) -> Outcome:
    """Grade a file, or continue an interrupted run of the same job; return the results.

    Raises:
        UsageError: the settings are wrong, or the input cannot be read to its end. Results that were already written are kept.
    """
    start = time.monotonic()
    _check_paths(job)
    environment, columns = None, job.columns
    if job.data is None:
        environment = load_usable(job.environment or "", **job.options)
        columns = with_references(columns, environment)
    with open_source(job.input, job.format, max_record_bytes=job.max_record_bytes) as source:
        head = read_head(source, columns, completion_columns(job.data))
        setup = _setup(job, head, environment)
        columns, environment = head.columns, setup.environment
        bad_path, summary_path = sidecar(job.out, "bad.jsonl"), sidecar(job.out, "summary.json")
        disagreements_path = sidecar(job.out, "disagreements.jsonl")
        settings, made_by = _settings(job, columns, setup), {"command": job.command, "input": job.input, "versions": versions()}
        if (importable_packages := importable(environment)) is not None:
            made_by["programs_import"] = importable_packages
        grader = Grader(environment, workers=job.workers, timeout_s=job.timeout_s, cache=job.cache, cluster=job.cluster)
        with grader, OutFile(job.out, settings, made_by, overwrite=job.overwrite) as out:
            with BadRows(bad_path, source.name) as bad, Progress("grading") as progress:
                remove(summary_path)
                remove(disagreements_path)
                if lacks_numpy(environment):
                    complain(NO_NUMPY, "warning")
                if out.unscored:
                    again = f"{out.unscored:,} of {out.lines:,} lines of {job.out} have no verdict and are graded again"
                    complain(again, "note")
                grader.start()  # a worker that cannot start must not make a whole file of unscored lines
                ungraded = _UngradedItems(head.records, columns, setup, out, bad)
                _grade(ungraded, grader, out, source, progress)
                out.settle()
                gold_columns = ", ".join(columns.references.values())
                lines = _with_bad_golds(complete_lines(job.out), bad, gold_columns)
                labelled = None if columns.label is None else Disagreements(disagreements_path, columns.label)
                summary = summarise(lines if labelled is None else labelled.watch(lines), job.ks)
            if not summary.n and not bad.count:
                raise UsageError(f"{source.name} holds no rows: there is nothing to grade")
        outcome = Outcome(
            summary=summary,
            bad_rows=bad.count,
            first_bad=bad.describe_first(),
            bad_path=bad_path,
            summary_path=summary_path,
            agreement=labelled.agreement() if labelled else None,
            disagreements_path=disagreements_path,
            already_done=out.kept,
            retried=out.retried,
            seconds=time.monotonic() - start,
            columns=columns,
            chosen_options=setup.chosen,
            other_versions=out.other_versions,
            joined=setup.tasks.joined() if setup.tasks else None,
            hints=tuple(_hints(job, setup, summary, ungraded.specimens)),
            nodes=tuple(grader.nodes),
        )
        write_atomically(summary_path, _summary_json(job, settings, made_by, outcome))
    return outcome


def with_references(columns: Columns, environment: Environment) -> Columns:
    """Add to `columns` the column of each field of the environment's reference, and return the result.

    A field that `columns` does not mention is read from the column of the same name, except that a field with a default value
    is not read from the column of prompts, completions or groups. A field with a default value may be missing in a row.

    Raises:
        UsageError: `columns` names a field that the environment's reference does not have.
    """
    kind = getattr(environment, "reference_type", None)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return columns
    for name in columns.references:
        if name not in kind.model_fields:
            hint = did_you_mean(name, kind.model_fields)
            raise UsageError(f"the reference of environment {environment.name!r} has no field {name!r}{hint}")
    taken = {columns.prompt, *(columns.completions or completion_columns(None)), columns.group_by}
    required: dict[str, str] = {}
    optional: dict[str, str] = {}
    for name, field in kind.model_fields.items():
        namesake = name if field.is_required() or name not in taken else ""
        if column := columns.references.get(name, namesake):
            (required if field.is_required() else optional)[name] = column
    return columns.model_copy(update={"references": required, "optional": optional})


def _setup(job: GradeJob, head: InputHead, environment: Environment | None) -> _Setup:
    if environment is not None:
        return _Setup(environment, job.environment or "", job.options, {}, None)
    assert job.data is not None
    usual = reading_options(job.data, job.environment, head.columns.completions[0], head.texts())
    chosen = {} if usual.keys() & job.options.keys() else usual
    tasks = Tasks(job.data, job.environment, {**chosen, **job.options})
    check_usable(tasks.environment)
    return _Setup(tasks.environment, job.environment or tasks.environment.name, tasks.options, chosen, tasks)


class _UngradedItems:
    """Yields what is not yet graded, and remembers which item each coming score belongs to."""

    def __init__(
        self, records: Iterable[InputRow | BadRow], columns: Columns, setup: _Setup, out: OutFile, bad: BadRows
    ) -> None:
        self.waiting: deque[tuple[Item, int | None]] = deque()
        """Completions whose scores are pending, each with the number of the line that it replaces, if any."""
        self.stopped: UsageError | None = None
        self._read = 0
        """Completions that have been read, those of an earlier run among them."""
        self.bad = bad
        self.specimens = Specimens()
        self._records = records
        self.columns = columns
        self._setup = setup
        self._out = out

    def __iter__(self) -> Iterator[tuple[Prompt, Completion]]:
        try:
            for record in self._records:
                for part in self._parts(record):
                    if isinstance(part, BadRow):
                        self.bad.add(part)
                        continue
                    self._read += 1
                    earlier = self._out.earlier(_identity(part))
                    if earlier is not None and not earlier.again:
                        self.specimens.see(part, earlier.line["score"])
                        continue
                    self.waiting.append((part, earlier.number if earlier is not None else None))
                    yield part.prompt, part.completion
            self._out.check_finished()
        except UsageError as error:  # the input cannot be read further: what came before is graded first
            self.stopped = error

    def graded(self, read: float | None) -> float | None:
        """Return the share of the input that is graded: much is read before its turn comes, small files as a whole.

        Args:
            read: the share that has been read; None if unknown.
        """
        return None if read is None or not self._read else read * (1 - len(self.waiting) / self._read)

    def _parts(self, record: InputRow | BadRow) -> Iterable[Item | BadRow]:
        if isinstance(record, BadRow):
            return [record]
        return items(record, self.columns, self._setup.environment, self._setup.tasks)


def _grade(ungraded: _UngradedItems, grader: Grader, out: OutFile, source: Source, progress: Progress) -> None:
    done, nodes = 0, ""
    for score in grader.stream(ungraded):
        item, replaced = ungraded.waiting.popleft()
        line = _line(item, ungraded.columns, score)
        if replaced is None:
            out.append(line)
        else:
            out.replace(replaced, line)
        ungraded.specimens.see(item, line["score"])
        done += 1
        if done % _NODES_EVERY == 1:
            nodes = "".join(f"; {one.name} {one.rate:,.0f}/s" for one in grader.nodes)
        bad = f", {ungraded.bad.count:,} bad" if ungraded.bad.count else ""
        progress.update(done, ungraded.graded(source.fraction()), bad + nodes)
    if ungraded.stopped is not None:
        raise ungraded.stopped


def _identity(item: Item) -> dict[str, Any]:
    return {
        "row": item.row,
        "line": item.line,
        "sample_index": item.sample_index,
        "prompt": item.prompt.key,
        "completion": item.completion.digest[:32],
    }


def _line(item: Item, columns: Columns, score: Score) -> dict[str, Any]:
    place = {"column": item.column, "group": item.group, "gold": item.gold}
    task = {} if item.task is None else {"task": item.task}
    label = {} if columns.label is None else {"label": item.label}
    return {**_identity(item), **place, **task, **label, "score": score.model_dump(mode="json"), "columns": dict(item.kept)}


def _with_bad_golds(lines: Iterable[Mapping[str, Any]], bad: BadRows, field: str) -> Iterator[Mapping[str, Any]]:
    """Yield the lines, and list each row whose gold proved unusable when it was graded."""
    last = None
    for line in lines:
        error = line["score"]["error"]
        if error is not None and error["kind"] == "gold_invalid" and line["row"] != last:
            last = line["row"]
            bad.add(BadRow(line["row"], line["line"], field, error["message"]))
        yield line


def _hints(job: GradeJob, setup: _Setup, summary: Summary, seen: Specimens) -> list[Hint]:
    extracted = job.columns.gold_extract
    return hints(summary, seen, setup.environment, gold_extract=extracted, workers=job.workers)


def _check_paths(job: GradeJob) -> None:
    if not job.out.name or job.out.is_dir():
        raise UsageError(f"--out {job.out} is a folder; name a file in it, such as {job.out / 'scores.jsonl'}")
    if job.out.exists() and not job.out.is_file():
        raise UsageError(f"--out {job.out} is no regular file, which a run could go on with; name another")
    check_name(job.out, "--out")
    if job.cache is not None and same_file(job.cache, job.out):
        raise UsageError(f"--cache and --out are both {job.out}; name two files")
    if job.input == STDIN or not os.path.exists(job.input):
        return
    written = {"--out": job.out}
    written.update({kind: sidecar(job.out, kind) for kind in SIDECARS})
    for what, path in written.items():
        if same_file(Path(job.input), path):
            raise UsageError(f"{what} would overwrite the input {job.input}; choose another --out")


def _settings(job: GradeJob, columns: Columns, setup: _Setup) -> dict[str, Any]:
    """Return everything that the lines of the output depend on. A file that has moved is still the same input."""
    return {
        "format_version": FORMAT_VERSION,
        "input": {"size": None, "sha256": None} if job.input == STDIN else fingerprint(job.input),
        "format": job.format,
        "data": setup.tasks.described() if setup.tasks else None,
        "environment": setup.name,
        "options": options_of(setup.environment, setup.options),
        "grader": setup.environment.grader,
        **({"code": code} if (code := own_code([setup.environment])) else {}),
        "timeout_s": job.timeout_s,
        "columns": columns.model_dump(mode="json"),
        "max_record_bytes": job.max_record_bytes,
    }


def _summary_json(job: GradeJob, settings: Mapping[str, Any], made_by: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    return {
        "input": job.input,
        "input_sha256": settings["input"]["sha256"],
        "out": str(job.out),
        "command": made_by["command"],
        **{name: made_by[name] for name in ("versions", "programs_import") if name in made_by},
        **{name: settings[name] for name in ("data", "environment", "options", "grader")},
        **outcome.summary.model_dump(mode="json"),
        "agreement": outcome.agreement.model_dump(mode="json") if outcome.agreement else None,
        "bad_rows": outcome.bad_rows,
        "joined": outcome.joined.model_dump(mode="json") if outcome.joined else None,
        "hints": [hint.model_dump(mode="json") for hint in outcome.hints],
        "seconds": outcome.seconds,
    }
