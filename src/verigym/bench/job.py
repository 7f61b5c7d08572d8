"""One run of `verigym bench math`: every grader on every case, in the order of the file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field

from verigym.bench.cases import Case, CaseColumns, make_case
from verigym.bench.graders import InProcess, Ours
from verigym.bench.isolated import IsolatedGrader
from verigym.bench.isolated_worker import MATH_VERIFY
from verigym.bench.verdicts import CaseGrader, Tally, Verdict
from verigym.envs import UsageError
from verigym.envs.progress import Progress
from verigym.grade.bad_rows import same_file
from verigym.grade.lines import json_line
from verigym.grade.reading.opening import open_source
from verigym.grade.reading.records import STDIN, BadRow, InputRow, Source, place

SAMPLE_ROWS = 32
KEPT = 50
"""Maximum number of disagreements, and of bad rows, that are kept to be printed. The file of disagreements has no limit."""


class BenchJob(BaseModel):
    """The settings of one benchmark run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str
    format: str | None = None
    columns: CaseColumns = CaseColumns()
    options: Mapping[str, Any] = {}
    """Of our environment."""
    against: tuple[str, ...] = ()
    """`math-verify`, or callables as `module:function`."""
    isolate: bool = False
    """Whether callables too run in processes of their own."""
    include_policy: bool = False
    limit: int | None = Field(default=None, ge=1)
    timeout_s: float = Field(default=30.0, gt=0, allow_inf_nan=False)
    """Wall time of one case in another process."""
    memory_mb: int = Field(default=4096, ge=256)
    """Address space of another process."""
    disagreements: Path | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A case on which the verdict of at least one grader differs from the label."""

    case: Case
    verdicts: Mapping[str, Verdict]

    def as_json(self) -> dict[str, Any]:
        """Return the disagreement as a dictionary for one JSON line of the file of disagreements."""
        case = self.case
        return {
            "row": case.row,
            "line": case.line,
            "group": case.group,
            "gold": case.golds[0] if len(case.golds) == 1 else list(case.golds),
            "answer": case.answer,
            "expected": case.expected,
            "verdicts": {name: verdict._asdict() for name, verdict in self.verdicts.items()},
        }


@dataclass(slots=True)
class Outcome:
    """The results of a run; after an interrupt, the results up to that point."""

    graders: list[str]
    groups: dict[str, dict[str, Tally]] = field(default_factory=dict)
    disagreements: int = 0
    first_disagreements: list[Disagreement] = field(default_factory=list)
    policy_rows_left_out: int = 0
    bad_rows: int = 0
    first_bad: list[BadRow] = field(default_factory=list)
    interrupted: bool = False

    @property
    def cases(self) -> int:
        """Number of cases that every grader has graded."""
        return sum(tallies[self.graders[0]].rows for tallies in self.groups.values())

    @property
    def our_errors(self) -> int:
        """Number of cases for which verigym's own grader has no verdict."""
        return sum(tallies[self.graders[0]].errors for tallies in self.groups.values())

    def add(self, case: Case, verdicts: Mapping[str, Verdict]) -> Disagreement | None:
        """Add one case to the counts; return a Disagreement if a verdict differs from the label, else None."""
        tallies = self.groups.setdefault(case.group, {name: Tally() for name in self.graders})
        for name, verdict in verdicts.items():
            tallies[name].add(case, verdict)
        if all(verdict.accepted == case.expected and verdict.kind != "error" for verdict in verdicts.values()):
            return None
        self.disagreements += 1
        found = Disagreement(case, dict(verdicts))
        if len(self.first_disagreements) < KEPT:
            self.first_disagreements.append(found)
        return found


def run(job: BenchJob) -> Outcome:
    """Run the graders over the input file and return the results. Ctrl-C ends the run early; the results so far are returned.

    Raises:
        UsageError: the settings are wrong, a grader cannot be loaded, or the input cannot be read.
    """
    if job.disagreements is not None and job.input != STDIN and same_file(Path(job.input), job.disagreements):
        raise UsageError(f"--disagreements would overwrite the input {job.input}; choose another")
    with ExitStack() as stack:
        source = stack.enter_context(open_source(job.input, job.format))
        columns, records = _opened(source, job)
        graders = _graders(job)
        for grader in graders:
            stack.callback(grader.close)
            grader.start()
        listing = None if job.disagreements is None else stack.enter_context(_open(job.disagreements))
        outcome = Outcome([grader.name for grader in graders])
        progress = stack.enter_context(Progress("grading"))
        try:
            for case in _cases(records, columns, job, outcome):
                found = outcome.add(case, {grader.name: grader.grade(case) for grader in graders})
                if found is not None and listing is not None:
                    listing.write(json_line(found.as_json()))
                progress.update(outcome.cases, source.fraction(), f", {outcome.disagreements:,} disagreements")
        except KeyboardInterrupt:
            outcome.interrupted = True
    if not outcome.groups and not outcome.bad_rows and not outcome.interrupted:
        left_out = f"; {outcome.policy_rows_left_out} policy rows are left out, see --include-policy"
        raise UsageError(f"{source.name} holds no cases{left_out if outcome.policy_rows_left_out else ''}")
    return outcome


def _graders(job: BenchJob) -> list[CaseGrader]:
    graders: list[CaseGrader] = [Ours(job.options)]
    for target in job.against:
        if target == MATH_VERIFY or job.isolate:
            graders.append(IsolatedGrader(target, timeout_s=job.timeout_s, memory_mb=job.memory_mb))
        else:
            graders.append(InProcess(target))
    if len(set(job.against)) < len(job.against):
        raise UsageError("--against: the same grader is given twice")
    return graders


def _opened(source: Source, job: BenchJob) -> tuple[CaseColumns, Iterator[InputRow | BadRow]]:
    """Return the columns, settled by a look at the first records, and all the records."""
    records = iter(source)
    head = list(itertools.islice(records, SAMPLE_ROWS))
    rows = [record.data for record in head if isinstance(record, InputRow)]
    names = source.columns if source.columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    columns = job.columns.settled(names, rows, source.name) if names else job.columns
    return columns, itertools.chain(head, records)


def _cases(records: Iterator[InputRow | BadRow], columns: CaseColumns, job: BenchJob, outcome: Outcome) -> Iterator[Case]:
    for record in itertools.islice(records, job.limit):
        part = record if isinstance(record, BadRow) else make_case(record, columns)
        if isinstance(part, BadRow):
            outcome.bad_rows += 1
            if len(outcome.first_bad) < KEPT:
                outcome.first_bad.append(part)
        elif part.policy and not job.include_policy:
            outcome.policy_rows_left_out += 1
        else:
            yield part


def _open(path: Path) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def described(bad: BadRow, source: str) -> str:
    """Return a message about the row `bad` of `source`: file, row, field and reason."""
    field = f", field {bad.field!r}" if bad.field else ""
    return f"{source}, {place(bad.number, bad.line)}{field}: {bad.reason}"


def ordered(groups: Sequence[str]) -> list[str]:
    """Return `groups` in the order in which the tables are printed."""
    order = ("answers", "unboxed, extract=last", "policy", "policy, unboxed")
    return sorted(groups, key=order.index)
