"""`verigym lean`: shows which Lean is found and what is missing, and tests Lean on verigym's catalogue of submissions."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from verigym.cli.common.json_output import Json, Result, json_output
from verigym.exit_codes import ExitCode

app = typer.Typer(no_args_is_help=True, help="Lean: what is found here, and whether it judges rightly.")

_SOUND_SINCE = (4, 34, 0, 10**6)

Option = Annotated[
    list[str] | None, typer.Option("--option", help="An option of the environment lean, NAME=VALUE. May be repeated.")
]


def _options(given: list[str] | None) -> Any:
    from verigym.cli.common.values import pairs
    from verigym.envs import load

    return load("lean", **pairs(given or [], "--option")).options


@app.command()
@json_output
def doctor(option: Option = None, as_json: Json = False) -> Result:
    """Show which Lean, libraries and isolation are used to judge proofs, and what to do about missing parts."""
    from rich.table import Table
    from rich.text import Text

    from verigym.envs.console import print_table
    from verigym.envs.lean.toolchain import INSTALL

    rows = list(_findings(_options(option)))
    table = Table("what", "here", "detail", box=None)
    for name, fine, detail in rows:
        table.add_row(*map(Text, (name, {True: "yes", False: "no", None: "-"}[fine], detail)))
    print_table(table)
    document = [{"name": name, "available": fine, "detail": detail} for name, fine, detail in rows]
    if any(fine is False for _, fine, _ in rows):
        print("Lean and a project with Mathlib, in three commands:")
        for line in INSTALL:
            print(f"  {line}")
        return Result(ExitCode.FAILED, document)
    return Result(ExitCode.OK, document)


def _findings(options: Any) -> Any:
    """Yield (what, whether it is there or None where it need not be, detail)."""
    import importlib.util
    import shutil

    from verigym.envs.contract.errors import EnvironmentFailure
    from verigym.envs.lean.compile import LeanBox
    from verigym.envs.lean.environment import toolchain_of
    from verigym.envs.lean.toolchain import numbers

    yield "elan", (True if shutil.which("elan") else None), shutil.which("elan") or "not on PATH; only needed to install Lean"
    try:
        toolchain = toolchain_of(options)
    except EnvironmentFailure as failure:
        yield "lean", False, failure.message
        return
    yield "lean", True, f"{toolchain.title}, {toolchain.lean}"
    number = numbers(toolchain.version)
    old = number is not None and number < _SOUND_SINCE
    yield "kernel", None, "older than 4.34.0: proofs of False are known, see docs/lean.md" if old else "no known proof of False"
    yield "project", (True if toolchain.lean_path else None), ", ".join(toolchain.lean_path) or "none: headers import core only"
    yield "readable in the sandbox", True, ", ".join(toolchain.readable)
    try:
        box = LeanBox(toolchain, options.sandbox)
        box.check()
        yield f"sandbox {options.sandbox}", box.box.level >= 3, f"level {box.box.level}"
    except EnvironmentFailure as failure:
        yield f"sandbox {options.sandbox}", False, failure.message
    for package in ("lean_interact", "lean_dojo"):
        there = importlib.util.find_spec(package) is not None
        yield package, (True if there else None), "installed" if there else "not installed; only for the back end of its name"


@app.command("self-test")
@json_output
def self_test(
    option: Option = None,
    controls: Annotated[bool, typer.Option("--controls", help="Only the few that also run before a first verdict.")] = False,
    as_json: Json = False,
) -> Result:
    """Check the installed Lean by judging verigym's own good and bad submissions. Exit code 1: an unexpected verdict."""
    from rich.table import Table
    from rich.text import Text

    from verigym.envs.console import print_table
    from verigym.envs.contract.errors import EnvironmentFailure
    from verigym.envs.lean.compile import LeanBox
    from verigym.envs.lean.controls import catalogue, run_case
    from verigym.envs.lean.environment import toolchain_of
    from verigym.envs.lean.judging import Checker
    from verigym.envs.progress import Progress

    options = _options(option)
    try:
        box = LeanBox(toolchain_of(options), options.sandbox, time_factor=options.time_factor)
        checker = Checker(box, options.judge_limits)
        checker.box.check()
    except EnvironmentFailure as failure:
        print(f"error: {failure}", file=sys.stderr)
        return Result(ExitCode.FAILED, {"error": str(failure), "cases": []})
    cases = [case for case in catalogue() if case.control or not controls]
    outcomes = []
    with Progress("judging") as progress:
        for number, case in enumerate(cases):
            outcomes.append(run_case(checker, case))
            progress.of_total(number + 1, len(cases))
    table = Table("case", "what", "expected", "got", "right", "s", box=None)
    for outcome in outcomes:
        right = "yes" if outcome.right else f"NO: {outcome.detail[:200]}"
        case = outcome.case
        cells = (case.id, case.why, case.expected.replace("|", " or "), outcome.got, right, f"{outcome.seconds:.1f}")
        table.add_row(*map(Text, cells))
    print_table(table)
    fine = sum(outcome.right for outcome in outcomes)
    print(f"{fine} of {len(outcomes)} cases right: {checker.title}")
    rows = [
        {
            **{name: getattr(outcome.case, name) for name in ("id", "why", "expected")},
            **{name: getattr(outcome, name) for name in ("got", "right", "detail", "seconds")},
        }
        for outcome in outcomes
    ]
    return Result(ExitCode.OK if fine == len(outcomes) else ExitCode.FAILED, {"checker": checker.title, "cases": rows})
