"""`verigym bench`: compares graders on labelled files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.stopping import InterruptedWithResults
from verigym.exit_codes import ExitCode

app = typer.Typer(no_args_is_help=True, help="Measure graders on labelled files: verdicts, time, disagreements.")


@app.callback()
def _group() -> None:
    """Measure graders on labelled files: verdicts, time, disagreements."""


@app.command()
@json_output
def math(
    input: Annotated[str, typer.Argument(metavar="FILE", help="JSONL, CSV (also .gz) or Parquet; - for standard input.")],
    gold_column: Annotated[str, typer.Option(help="The right answer, or a list of them. Paths like a.b work.")] = "gold",
    answer_column: Annotated[str, typer.Option(help="What is graded.")] = "pred",
    label_column: Annotated[str, typer.Option(help="Whether it is right: true or false.")] = "expected",
    label: Annotated[bool | None, typer.Option("--all-right/--all-wrong", help="One label for all; no column is read.")] = None,
    gold_extract: Annotated[
        str | None, typer.Option(help="Take the gold out of its column's text: hash, boxed, label, final or last.")
    ] = None,
    level_column: Annotated[
        str | None, typer.Option(help="answer, completion or completion_unboxed. [level, where there is one]")
    ] = None,
    level: Annotated[str | None, typer.Option(help="One level for all rows; no column is read.")] = None,
    policy_column: Annotated[str | None, typer.Option(help="Marks matters of taste. [policy, where there is one]")] = None,
    prompt_column: Annotated[str | None, typer.Option(help="The question; without it every case asks nothing.")] = None,
    against: Annotated[
        list[str] | None, typer.Option(help="math-verify, or module:function(gold, answer) -> bool. May be repeated.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="An option of our math environment, NAME=VALUE.")] = None,
    include_policy: Annotated[bool, typer.Option("--include-policy", help="Grade the policy rows too, apart.")] = False,
    isolate: Annotated[bool, typer.Option("--isolate", help="Run callables in processes of their own.")] = False,
    timeout_s: Annotated[float, typer.Option(min=0.001, help="Wall time of one case in another process.")] = 30.0,
    memory_mb: Annotated[int, typer.Option(min=256, help="Address space of another process.")] = 4096,
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many rows only.")] = None,
    format: Annotated[str | None, typer.Option(help="jsonl, csv or parquet; told from the name by default.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the figures as JSON too.")] = None,
    disagreements: Annotated[Path | None, typer.Option(help="Write every disagreement, JSONL.")] = None,
    as_json: Json = False,
) -> Result:
    r"""Compare verigym's math grader with others on a labelled file: false negatives, false positives and time.

    The level of a row says what its answer column holds. An `answer` is graded as \boxed{answer}, a `completion` as it stands.
    A `completion_unboxed` is graded with extract=last and counted in a separate table. Math-Verify runs in a process of its
    own. Exit code: 0 all graded, 1 bad rows or cases on which verigym's grader failed, 2 a mistake in the call.
    """
    from verigym.bench.cases import CaseColumns
    from verigym.bench.job import BenchJob, described, run
    from verigym.bench.report import report_document, show
    from verigym.cli.common.values import pairs, validated
    from verigym.grade.out_file import write_atomically
    from verigym.terminal import printable

    columns = validated(
        CaseColumns,
        gold=gold_column,
        answer=answer_column,
        label=label_column,
        level=level_column,
        policy=policy_column,
        prompt=prompt_column,
        all_level=level,
        all_label=label,
        gold_extract=gold_extract,
    )
    job = validated(
        BenchJob,
        input=input,
        format=format,
        columns=columns,
        options=pairs(option or [], "--option"),
        against=against or [],
        isolate=isolate,
        include_policy=include_policy,
        limit=limit,
        timeout_s=timeout_s,
        memory_mb=memory_mb,
        disagreements=disagreements,
    )
    if out is not None:
        _check_writable(out, input, disagreements)
    outcome = run(job)
    for bad in outcome.first_bad:
        print(f"bad row: {printable(described(bad, input))}", file=sys.stderr)
    if outcome.bad_rows > len(outcome.first_bad):
        print(f"... and {outcome.bad_rows - len(outcome.first_bad):,} more bad rows", file=sys.stderr)
    show(outcome, job)
    document = report_document(outcome, job)
    if out is not None:
        write_atomically(out, document)
    if outcome.interrupted:
        raise InterruptedWithResults(f"interrupted after {outcome.cases:,} cases; the figures are theirs", document)
    return Result(ExitCode.FAILED if outcome.bad_rows or outcome.our_errors else ExitCode.OK, document)


def _check_writable(out: Path, input: str, disagreements: Path | None) -> None:
    """Refuse a place for the report that cannot be written, before anything is graded."""
    from verigym.envs import UsageError
    from verigym.grade.bad_rows import same_file

    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"cannot write --out {out}: {'it is a folder' if out.is_dir() else f'no folder {out.parent}'}")
    if same_file(Path(input), out):
        raise UsageError(f"--out would overwrite the input {input}; choose another")
    if disagreements is not None and same_file(disagreements, out):
        raise UsageError(f"--out and --disagreements are one file, {out}; choose another for one of them")
