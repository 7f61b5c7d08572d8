"""`verigym grade`: grades saved model outputs, and compares gradings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output
from verigym.cli.common.options import Cluster, EnvironmentOptions, TimeoutS, Workers
from verigym.exit_codes import ExitCode

if TYPE_CHECKING:
    from verigym.grade.job import Outcome


@json_output
def grade(
    context: typer.Context,
    input: Annotated[
        str, typer.Argument(metavar="INPUT", help="JSONL, JSON, CSV (also .gz) or Parquet; - for standard input.")
    ],
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            help="Environment that grades; `verigym envs` lists them. By default that of --data.",
            autocompletion=completion.environments,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the scores go, JSONL, one line a completion. By default INPUT.scores.jsonl.")
    ] = None,
    option: EnvironmentOptions = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Data set, NAME or NAME:SPLIT, whose tasks the rows name by an id; it gives prompt and reference.",
            autocompletion=completion.data_sets,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="With --data: column of the task's id, such as task_id; COLUMN=FIELD where the data set's differs."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="With --data: which split; by default the one for evaluation.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="With --data: read local files below this folder, not the hub.")] = None,
    prompt_column: Annotated[
        str | None, typer.Option(help="Text or messages. By default prompt. Paths like a.b work for every column.")
    ] = None,
    completion_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Text, object, messages, or a list; may be repeated. By default completion, or an OpenAI response's choices."
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help="FIELD=COLUMN of the environment's reference; FIELD= for none. By default columns named like its fields."
        ),
    ] = None,
    gold_extract: Annotated[
        str | None, typer.Option(help="Take the gold out of the reference text: hash, boxed, label, final or last.")
    ] = None,
    group_by: Annotated[str | None, typer.Option(help="Column that groups samples. By default the same prompt.")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column that says, by a person or another verifier, what is right: compare with it.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy to the output. May be repeated.")] = None,
    k: Annotated[str | None, typer.Option(help="For pass@k and maj@k, such as 1,4,16.")] = None,
    format: Annotated[str | None, typer.Option(help="jsonl, csv or parquet; told from the name by default.")] = None,
    workers: Workers = None,
    cluster: Cluster = None,
    timeout_s: TimeoutS = 30.0,
    cache: Annotated[Path | None, typer.Option(help="File that keeps verdicts across runs.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "--no-resume", help="Start again instead of going on with OUT.")
    ] = False,
    diff: Annotated[
        Path | None,
        typer.Option(help="Compare with the --out of another run. Without --env and --out, INPUT is such a file itself."),
    ] = None,
    diff_out: Annotated[Path | None, typer.Option(help="Write every change that --diff finds, JSONL.")] = None,
    fail_on_change: Annotated[bool, typer.Option("--fail-on-change", help="Exit code 1 where --diff finds any.")] = False,
    as_json: Json = False,
) -> Result:
    """Grade saved model outputs. The same command resumes a run that was stopped.

    When it resumes, completions without a verdict (the grader failed) are graded again; verdicts are kept.

    Exit code: 0 all scored, 1 some rows were bad or unscored, or `judge` raised, 2 a mistake in the call, 3 no completion got a
    verdict.
    """
    from verigym.cli.common.values import counts, pairs, validated
    from verigym.envs import UsageError
    from verigym.grade.diff import WANTED, check_paths
    from verigym.grade.job import GradeJob, run
    from verigym.grade.out_file import check_name, default_out, remove
    from verigym.grade.reading.columns import Columns
    from verigym.grade.report import show, show_hints
    from verigym.grade.tasks import data_job
    from verigym.terminal import complain

    if diff is None and (diff_out is not None or fail_on_change):
        raise UsageError(f"{'--diff-out' if diff_out is not None else '--fail-on-change'} needs --diff OTHER")
    if diff_out is not None:
        check_name(diff_out, "--diff-out")
    if diff is not None and env is None and out is None and data is None:
        _refuse_grading_options(context)
        code, comparison = _compared(Path(input), diff, diff_out, fail_on_change)
        return Result(code, {"diff": comparison})
    if env is None and data is None:
        if diff is not None:
            raise UsageError(f"missing option --env, or --data, to grade {input}; without --out too, {WANTED}")
        raise UsageError("missing option --env, or --data (see verigym grade --help)")
    if out is None and diff is not None:
        raise UsageError(f"missing option --out: the scores of {input} go there, and are compared with {diff}")
    beside, out = out is None, out or default_out(input)
    asked = {"--split": split, "--data-dir": data_dir, "--id-column": id_column}
    own = {"--prompt-column": prompt_column, "--reference": reference, "--gold-extract": gold_extract}
    joined = data_job(data, id_column, split, data_dir, with_data=asked, without_data=own)
    if diff is not None:
        check_paths(out, diff, diff_out, Path(input))
    columns = validated(
        Columns,
        prompt=prompt_column or "prompt",
        completions=completion_column or [],
        references=pairs(reference or [], "--reference", alone=True),
        gold_extract=gold_extract,
        task=joined.column if joined else None,
        group_by=group_by,
        label=label_column,
        keep=keep or [],
    )
    job = validated(
        GradeJob,
        input=input,
        format=format,
        out=out,
        environment=env,
        options=pairs(option or [], "--option"),
        columns=columns,
        data=joined,
        ks=counts(k, "--k"),
        workers=workers,
        cluster=cluster,
        timeout_s=timeout_s,
        cache=cache,
        overwrite=overwrite,
        command=context.obj or "",
    )
    outcome = run(job)
    document = {**json.loads(outcome.summary_path.read_text(encoding="utf-8")), "first_bad": outcome.first_bad}
    if not outcome.summary.n:
        if beside:  # nobody named a file, and what there is to say is said below
            remove(outcome.bad_path)
            remove(outcome.summary_path)
        where = "--out names a file, beside which all are listed" if beside else f"see {outcome.bad_path}"
        complain(f"all {outcome.bad_rows} rows of {input} are bad; the first, {outcome.first_bad}; {where}")
        return Result(ExitCode.NONE_SCORED, document)
    show(outcome)
    show_hints(outcome)
    failed = _warned(outcome)
    if diff is not None:
        print()
        changed, comparison = _compared(out, diff, diff_out, fail_on_change)
        return Result(max(failed, changed), {**document, "diff": comparison})
    return Result(failed, document)


COMPARING = frozenset(("input", "diff", "diff_out", "fail_on_change", "as_json"))
"""What a comparison of two files of scores uses."""


def _refuse_grading_options(context: typer.Context) -> None:
    """Refuse options that say how to grade where two files of scores are compared.

    Raises:
        UsageError: naming one, and what is missing to grade.
    """
    from verigym.envs import UsageError
    from verigym.grade.diff import WANTED

    given = [
        name
        for name in context.params
        if name not in COMPARING and (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} says how to grade, and nothing is graded here: {WANTED}")


def _warned(outcome: Outcome) -> ExitCode:
    """Say on standard error what was bad, unscored or judged by code that raised, and return the exit code."""
    from verigym.terminal import complain

    if outcome.bad_rows:
        rows = f"{outcome.bad_rows:,} bad row{'' if outcome.bad_rows == 1 else 's'}"
        complain(f"{rows} (the first, {outcome.first_bad}), listed in {outcome.bad_path}", "warning")
    summary, failed = outcome.summary, ExitCode.FAILED if outcome.bad_rows else ExitCode.OK
    ours = summary.unscored - summary.errors.get("gold_invalid", 0)  # a row with an unusable gold is a bad one
    if empty := [name for name in outcome.columns.completions if name not in summary.accuracy_by_column]:
        failed = ExitCode.FAILED
        complain(f"no row has a completion in the column {', '.join(map(repr, empty))}", "warning")
    if summary.judge_exceptions:
        failed = ExitCode.FAILED
        raised = (
            f"judge raised on {summary.judge_exceptions:,} of {summary.n:,} completions, whose scores are not to be trusted"
        )
        complain(f"{raised}: the first cause, {summary.first_exception}", "warning")
    if summary.unscored:
        failed = ExitCode.FAILED if summary.scored else ExitCode.NONE_SCORED
    if ours or not summary.scored:
        of = f"{summary.unscored:,} of {summary.n:,} completions have no" if summary.scored else "no completion has a"
        again = "; the same command tries them again" if ours else ""
        complain(f"{of} verdict{again}: the first cause, {summary.first_error}", "warning" if summary.scored else "error")
    return failed


def _compared(new: Path, old: Path, changes: Path | None, fail_on_change: bool) -> tuple[ExitCode, dict[str, Any]]:
    """Show a comparison; return the exit code, and the comparison as data."""
    from verigym.grade.diff import compare
    from verigym.grade.diff_report import show

    found = compare(new, old, changes)
    show(found, changes)
    return ExitCode.FAILED if fail_on_change and found.differs else ExitCode.OK, found.as_json()
