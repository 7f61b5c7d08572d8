"""The command line. Commands import what they need when they run, so that `--help` stays quick."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from verigym import (
    benching,
    dataset_commands,
    evaluating,
    leaning,
    pipelines,
    reward_training,
    sandboxing,
    suite_commands,
    training,
)

app = typer.Typer(
    name="verigym",
    help="Verifiers and reward environments for language models, with a built-in GRPO trainer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FINE, SOME_FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
DEBUG_VARIABLE = "VERIGYM_DEBUG"

Env = Annotated[str, typer.Option("--env", help="Environment that grades; `verigym envs` lists them.")]
Options = Annotated[
    list[str] | None, typer.Option("--option", help="An option of the environment, NAME=VALUE. May be repeated.")
]
Workers = Annotated[int | None, typer.Option(min=0, help="Grading processes; 0 grades in this process, without limits.")]
TimeoutS = Annotated[float, typer.Option(min=0.001, help="Wall time that one completion may take.")]


@app.command()
def grade(
    context: typer.Context,
    input: Annotated[
        str, typer.Argument(metavar="INPUT", help="JSONL, JSON, CSV (also .gz) or Parquet; - for standard input.")
    ],
    env: Annotated[
        str | None,
        typer.Option("--env", help="Environment that grades; `verigym envs` lists them. [that of --data]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where the scores go, JSONL, one line a completion. [INPUT.scores.jsonl]")
    ] = None,
    option: Options = None,
    data: Annotated[
        str | None,
        typer.Option(help="Data set whose tasks the rows name by an id: prompt and reference are its own."),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="With --data: column of the task's id, such as task_id; COLUMN=FIELD where the data set's differs."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="With --data: which split. [the one for evaluation]")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="With --data: read local files below this folder, not the hub.")] = None,
    prompt_column: Annotated[
        str | None, typer.Option(help="Text or messages. Paths like a.b work for every column. [prompt]")
    ] = None,
    completion_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Text, object with text, messages, or a list. May be repeated. [completion; or an OpenAI response's choices]"
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
    keep: Annotated[list[str] | None, typer.Option(help="Column to copy to the output. May be repeated.")] = None,
    k: Annotated[str | None, typer.Option(help="For pass@k and maj@k, such as 1,4,16.")] = None,
    format: Annotated[str | None, typer.Option(help="jsonl, csv or parquet; told from the name by default.")] = None,
    workers: Workers = None,
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
) -> int:
    """Grade saved model outputs. A run that was stopped goes on when the same command is given again.

    Exit code: 0 all scored, 1 some rows bad or unscored, 2 a mistake in the call.
    """
    from verigym.cliargs import counts, pairs, validated
    from verigym.envs import UsageError
    from verigym.grade.columns import Columns
    from verigym.grade.diff import check_paths
    from verigym.grade.job import GradeJob, run
    from verigym.grade.outfile import default_out
    from verigym.grade.report import show, show_hints
    from verigym.grade.tasks import data_job

    if diff is None and (diff_out is not None or fail_on_change):
        raise UsageError(f"{'--diff-out' if diff_out is not None else '--fail-on-change'} needs --diff OTHER")
    if diff is not None and env is None and out is None:
        return _compared(Path(input), diff, diff_out, fail_on_change)
    if env is None and data is None:
        raise UsageError("missing option --env, or --data (see verigym grade --help)")
    if out is None and diff is not None:
        raise UsageError("missing option --out: with --diff, name the file that is compared with it")
    out = out or default_out(input)
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
        timeout_s=timeout_s,
        cache=cache,
        overwrite=overwrite,
        command=context.obj or "",
    )
    outcome = run(job)
    if not outcome.summary.n:
        _complain(f"all {outcome.bad_rows} rows of {input} are bad; the first, {outcome.first_bad}; see {outcome.bad_path}")
        return SOME_FAILED
    show(outcome)
    show_hints(outcome)
    if outcome.bad_rows or outcome.summary.unscored:
        first = f" (the first, {outcome.first_bad})" if outcome.bad_rows else ""
        bad = f"{outcome.bad_rows} bad row{'' if outcome.bad_rows == 1 else 's'}{first}"
        unscored = outcome.summary.unscored
        again = " (to try those again: --overwrite, and --cache to keep the others)" if unscored else ""
        _complain(f"{bad}, {unscored} unscored{again}", "warning")
    failed = SOME_FAILED if outcome.bad_rows or outcome.summary.unscored else FINE
    if diff is not None:
        print()
        failed = max(failed, _compared(out, diff, diff_out, fail_on_change))
    return failed


def _compared(new: Path, old: Path, changes: Path | None, fail_on_change: bool) -> int:
    from verigym.grade.diff import compare
    from verigym.grade.diffreport import show

    found = compare(new, old, changes)
    show(found, changes)
    return SOME_FAILED if fail_on_change and found.differs else FINE


@app.command()
def score(
    env: Env,
    prompt: Annotated[str, typer.Option(help="What the model was asked.")],
    completion: Annotated[str, typer.Option(help="What it wrote; - reads standard input.")],
    reference: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE of the reference. May be repeated.")] = None,
    option: Options = None,
    timeout_s: TimeoutS = 30.0,
) -> int:
    """Score one completion and print the whole score as JSON."""
    from verigym.cliargs import pairs
    from verigym.envs import load
    from verigym.envs.grading import Grader
    from verigym.grade.columns import nested

    environment = load(env, **pairs(option or [], "--option"))
    made = environment.prompt(prompt, **nested(pairs(reference or [], "--reference")))
    text = sys.stdin.read() if completion == "-" else completion
    with Grader(environment, workers=1, timeout_s=timeout_s) as grader:
        result = grader.grade([(made, text)])[0]
    print(json.dumps(result.model_dump(mode="json"), indent=2))
    return FINE if result.scored else SOME_FAILED


@app.command()
def envs(
    name: Annotated[str | None, typer.Argument(metavar="[ENV]", help="Show this one's options and reference fields.")] = None,
) -> int:
    """List the environments and where each comes from, or one's options and reference fields."""
    from verigym.envs import available
    from verigym.envs.registry import origin

    known = available()
    if name is not None:
        found = origin(name)
        print(f"{name} ({known.get(name, 'yours')})\n{(found.__doc__ or '').strip()}")
        for title, model in (("options", found.options_type), ("reference", found.reference_type)):
            for field, info in model.model_fields.items():
                default = "required" if info.is_required() else f"default {info.get_default(call_default_factory=True)!r}"
                print(f"  {title}.{field}: {default}. {info.description or ''}")
        return FINE
    width = max(map(len, known))
    for known_name, place in known.items():
        print(f"{known_name:<{width}}  {place}")
    return FINE


@app.command()
def check(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Name of the environment.")],
    option: Options = None,
) -> int:
    """Check that an environment keeps the contract: gold, empty, echo, garbage and hacks score as it declares."""
    from verigym.cliargs import pairs
    from verigym.envs.conformance import check_env
    from verigym.envs.registry import load_usable

    report = check_env(load_usable(env, **pairs(option or [], "--option")))
    print(report)
    return FINE if report.passed else SOME_FAILED


app.command()(dataset_commands.validate)
app.command()(training.train)
app.command()(training.quickstart)
app.command("eval")(evaluating.evaluate)
app.command()(reward_training.pairs)
app.command("reward-model")(reward_training.reward_model)
app.command("step-labels")(reward_training.step_labels)
app.command()(reward_training.prm)
app.add_typer(benching.app, name="bench")
app.add_typer(dataset_commands.app, name="datasets")
app.add_typer(suite_commands.app, name="suite")
app.add_typer(sandboxing.app, name="sandbox")
app.add_typer(leaning.app, name="lean")
app.add_typer(pipelines.app, name="pipeline")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: bad input is one line on standard error, never a traceback."""
    from verigym.envs.errors import UsageError

    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = app(args=given, standalone_mode=False, obj=shlex.join(["verigym", *given]))
        if code == INTERRUPTED:  # typer has caught the KeyboardInterrupt
            return _interrupted()
        return code if isinstance(code, int) else FINE
    except UsageError as error:
        return _failed(error, " ".join(str(error).split()))
    except benching.Interrupted as stop:
        _complain(str(stop))
        return INTERRUPTED
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        # The reader of our output has gone; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SOME_FAILED
    except Exception as error:
        message = getattr(error, "format_message", None)  # a mistake in the arguments, found by typer
        if callable(message) and not message():  # no command given: the help has been shown
            return USAGE
        if callable(message):
            return _failed(error, f"{' '.join(str(message()).split())} (see verigym --help)")
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return _failed(error, f"unexpected {text}; set {DEBUG_VARIABLE}=1 for the traceback", SOME_FAILED)


def _interrupted() -> int:
    _complain("interrupted; resume by running the same command again")
    return INTERRUPTED


def _failed(error: Exception, message: str, code: int = USAGE) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    # Of torchrun's processes on a machine, which all find the same mistake, the first tells of it.
    if code != USAGE or os.environ.get("LOCAL_RANK", "0") == "0" or "MASTER_ADDR" not in os.environ:
        _complain(message)
    return code


def _complain(message: str, kind: str = "error") -> None:
    from verigym.cliargs import printable

    print(f"{kind}: {printable(message)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
