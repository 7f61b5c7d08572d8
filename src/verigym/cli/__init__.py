"""The command line. Commands import what they need when they run, so that `--help` stays quick."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from verigym.cli import bench as benching
from verigym.cli import datasets as dataset_commands
from verigym.cli import evaluate as evaluating
from verigym.cli import grade as grading
from verigym.cli import lean as leaning
from verigym.cli import pipeline as pipelines
from verigym.cli import reward_models as reward_training
from verigym.cli import sandbox as sandboxing
from verigym.cli import suites as suite_commands
from verigym.cli import train as training

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


def _show_versions(wanted: bool) -> None:
    if not wanted:
        return
    from verigym.grade.manifest import versions

    for name, version in sorted(versions().items(), key=lambda found: found[0] != "verigym"):
        print(name, version)
    raise typer.Exit


@app.callback()
def whole(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_versions,
            is_eager=True,
            help="Print the versions that verdicts may depend on, and exit.",
        ),
    ] = False,
) -> None:
    """Take what stands before the command."""


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
    from verigym.cli.args import pairs
    from verigym.envs import load
    from verigym.envs.grading import Grader
    from verigym.grade.reading.columns import nested

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
    budget_s: Annotated[
        float, typer.Option(min=0.001, help="Wall time that judging one text may take; killed after twice as long.")
    ] = 10.0,
    total_s: Annotated[float, typer.Option(min=0.001, help="Wall time for the whole check.")] = 300.0,
    memory_mb: Annotated[
        int, typer.Option(min=0, help="Address space of a judging process; 0 for no limit, which CUDA needs.")
    ] = 4096,
) -> int:
    """Check that an environment keeps the contract: gold, empty, echo, garbage and hacks score as it declares.

    Judging runs in processes of its own, within limits: what hangs, crashes or takes too much memory is a FAIL row.
    """
    from verigym.cli.args import pairs
    from verigym.envs.conformance import check_env
    from verigym.envs.registry import load_usable

    environment = load_usable(env, **pairs(option or [], "--option"))
    memory_bytes = memory_mb * 2**20 if memory_mb else None
    report = check_env(environment, budget_s=budget_s, total_s=total_s, memory_bytes=memory_bytes)
    print(report)
    return FINE if report.passed else SOME_FAILED


app.command()(grading.grade)
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
    from verigym.cli.args import misused
    from verigym.envs.contract.errors import UsageError
    from verigym.envs.extras import missing

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
            return _failed(error, misused(error))
        if isinstance(error, ImportError) and (lack := missing(error)):
            return _failed(error, str(lack))
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
    from verigym.terminal import complain

    complain(message, kind)


if __name__ == "__main__":
    sys.exit(main())
