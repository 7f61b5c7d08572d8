"""The command line. A command is registered in `COMMANDS`, a group of commands in `GROUPS`.

Commands import what they need when they run, so that `--help` stays quick.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from verigym.cli import (
    adapters,
    bench,
    datasets,
    environments,
    evaluate,
    gpu_check,
    grade,
    lean,
    pipeline,
    play,
    report,
    reward_models,
    sandbox,
    scale,
    serve,
    suites,
    train,
    watch,
)
from verigym.cli.common.stopping import InterruptedWithResults, Stopped
from verigym.exit_codes import ExitCode

DEBUG_VARIABLE = "VERIGYM_DEBUG"
HELP_CHARS = 64
"""Width of the help, at least."""

COMMANDS: Mapping[str, Callable[..., int]] = {
    "score": environments.score,
    "envs": environments.envs,
    "check": environments.check,
    "init": environments.init,
    "adapters": adapters.adapters,
    "play": play.play,
    "grade": grade.grade,
    "serve": serve.serve,
    "validate": datasets.validate,
    "train": train.train,
    "quickstart": train.quickstart,
    "eval": evaluate.evaluate,
    "gpu-check": gpu_check.gpu_check,
    "report": report.report,
    "scale": scale.scale,
    "watch": watch.watch,
    "pairs": reward_models.pairs,
    "reward-model": reward_models.reward_model,
    "step-labels": reward_models.step_labels,
    "prm": reward_models.prm,
}
GROUPS: Mapping[str, typer.Typer] = {
    "bench": bench.app,
    "datasets": datasets.app,
    "suite": suites.app,
    "sandbox": sandbox.app,
    "lean": lean.app,
    "pipeline": pipeline.app,
}

app = typer.Typer(
    name="verigym",
    help="Verifiers and reward environments for language models, with a built-in GRPO trainer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def _show_versions(requested: bool) -> None:
    if not requested:
        return
    from verigym.grade.manifest import versions

    for name, version in sorted(versions().items(), key=lambda pair: pair[0] != "verigym"):
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
    """Take the options that stand before the command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Bad input gives one line on standard error, no traceback."""
    from verigym.cli.common.values import misused
    from verigym.envs.console import is_plain
    from verigym.envs.contract.errors import UsageError

    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _set_up_help()
        # The name also decides the variable by which shells ask for completions, however this was started.
        names = {"prog_name": "verigym", "obj": shlex.join(["verigym", *given])}
        code = app(args=given, standalone_mode=False, color=False if is_plain() else None, **names)
        if code == ExitCode.INTERRUPTED:  # typer has caught the KeyboardInterrupt
            return _interrupted()
        return code if isinstance(code, int) else ExitCode.OK
    except SystemExit as stop:
        return _exited(stop.code)
    except UsageError as error:
        return _failed(error, " ".join(str(error).split()))
    except Stopped as stop:
        return stop.exit_code
    except InterruptedWithResults as stop:
        _complain(str(stop))
        return ExitCode.INTERRUPTED
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        # The reader of the output is gone; nothing may be written at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except Exception as error:
        message = getattr(error, "format_message", None)  # typer's: a mistake in the arguments
        if callable(message) and not message():  # no command given: the help has been shown
            return ExitCode.USAGE
        if callable(message):
            return _failed(error, misused(error))
        if explained := _explained(error):
            return _failed(error, *explained)
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return _failed(error, f"unexpected {text}; set {DEBUG_VARIABLE}=1 for the traceback", ExitCode.FAILED)


def _explained(error: Exception) -> tuple[str, ExitCode] | None:
    """Return what to say of an error of the machine's, and the exit code; None where it is a bug."""
    from verigym.envs.extras import missing

    if isinstance(error, ImportError) and (lack := missing(error)):
        return str(lack), ExitCode.USAGE
    full = _cannot_write(error)
    return (full, ExitCode.FAILED) if full else None


def _cannot_write(error: Exception) -> str:
    """Return what to do where `error`, or one it comes from, says that the file system takes no more; else an empty text."""
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
    cause: BaseException | None = error
    while cause is not None:
        # safetensors raises an error of its own, with the system's in its text.
        number = (
            cause.errno
            if isinstance(cause, OSError)
            else _number_in(cause)
            if "safetensors" in type(cause).__module__
            else None
        )
        if number in numbers:
            where = f"{cause.filename}: " if isinstance(cause, OSError) and cause.filename else ""
            return (
                f"{where}a file cannot be written: {os.strerror(number)}; what was saved before is kept: "
                "make room, then give the same command again"
            )
        cause = cause.__cause__ or cause.__context__
    return ""


def _number_in(error: BaseException) -> int | None:
    found = re.search(r"\(os error (\d+)\)", str(error))
    return int(found[1]) if found else None


def _set_up_help() -> None:
    """Make typer write its help without escape codes where ours have none, and no narrower than its numbers fit.

    By itself it also writes escape codes into pipes of some CI systems, and cuts long words in narrow columns.
    """
    from typer import rich_utils

    from verigym.envs.console import is_plain, open_console

    rich_utils.COLOR_SYSTEM = None if is_plain() else "auto"
    rich_utils.FORCE_TERMINAL = False if is_plain() else None
    rich_utils.MAX_WIDTH = max(HELP_CHARS, open_console().width)


def _exited(code: object) -> int:
    """Return the exit code of a SystemExit, raised by completion or by code of the user's."""
    if isinstance(code, int) or code is None:
        return code or ExitCode.OK
    _complain(str(code))
    return ExitCode.FAILED


def _interrupted() -> int:
    _complain("interrupted; resume by running the same command again")
    return ExitCode.INTERRUPTED


def _failed(error: Exception, message: str, code: ExitCode = ExitCode.USAGE) -> int:
    if os.environ.get(DEBUG_VARIABLE):
        raise error
    # All of torchrun's processes on a machine find the same mistake; the first one reports it.
    if code != ExitCode.USAGE or os.environ.get("LOCAL_RANK", "0") == "0" or "MASTER_ADDR" not in os.environ:
        _complain(message)
    return code


def _complain(message: str, kind: str = "error") -> None:
    from verigym.terminal import complain

    complain(message, kind)
