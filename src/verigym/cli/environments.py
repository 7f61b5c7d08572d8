"""`verigym score`, `envs`, `check` and `init`: score a completion; list environments, check one, make a package for one."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from verigym.cli.common import completion
from verigym.cli.common.json_output import Json, Result, json_output, plain
from verigym.cli.common.options import EnvironmentOptions, TimeoutS
from verigym.exit_codes import ExitCode

INTERACTIVE = "interactive"
"""How the list marks environments that open sessions."""


@json_output
def score(
    env: Annotated[
        str,
        typer.Option(
            "--env", help="Environment that grades; `verigym envs` lists them.", autocompletion=completion.environments
        ),
    ],
    prompt: Annotated[str, typer.Option(help="What the model was asked.")],
    completion: Annotated[str, typer.Option(help="What it wrote; - reads standard input.")],
    reference: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE of the reference. May be repeated.")] = None,
    option: EnvironmentOptions = None,
    timeout_s: TimeoutS = 30.0,
    as_json: Json = False,
) -> Result:
    """Score one completion and print the whole score as indented JSON; with --json, on one line."""
    from verigym.cli.common.values import pairs
    from verigym.envs import load
    from verigym.envs.grading import Grader
    from verigym.grade.reading.columns import nested

    environment = load(env, **pairs(option or [], "--option"))
    made = environment.prompt(prompt, **nested(pairs(reference or [], "--reference")))
    text = sys.stdin.read() if completion == "-" else completion
    with Grader(environment, workers=1, timeout_s=timeout_s) as grader:
        result = grader.grade([(made, text)])[0]
    if not as_json:
        print(json.dumps(result.model_dump(mode="json"), indent=2))
    return Result(ExitCode.OK if result.scored else ExitCode.FAILED, result)


@json_output
def envs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[ENV]", help="Show this one's options and reference fields.", autocompletion=completion.environments
        ),
    ] = None,
    as_json: Json = False,
) -> Result:
    """List the environments, each with its package. With ENV, show where it comes from, its options and its reference fields.

    Interactive environments open sessions: a model plays episodes of several turns in them.
    """
    from verigym.envs import available

    if name is not None:
        return Result(ExitCode.OK, _show_environment(name))
    known = available()
    entries = [_entry(one, place) for one, place in known.items()]
    width, place_width = max(map(len, known)), max(map(len, known.values()))
    for entry in entries:
        kind = f"({entry['error']})" if entry["error"] else INTERACTIVE if entry["interactive"] else ""
        place = f"{entry['place']:<{place_width}}"
        print(f"{entry['name']:<{width}}  {kind:<{len(INTERACTIVE)}}  {place}  {_package_shown(entry)}".rstrip())
    return Result(ExitCode.OK, entries)


def _entry(name: str, place: str) -> dict[str, Any]:
    """Return an environment's line of the list; a package's that cannot be imported must not end the list."""
    from verigym.envs.contract.session import opens_sessions
    from verigym.envs.registry import origin, package_of

    package = package_of(name)
    entry: dict[str, Any] = {
        "name": name,
        "place": place,
        "package": package and package.name,
        "version": package and package.version,
        "interactive": None,
        "error": None,
    }
    try:
        return {**entry, "interactive": opens_sessions(origin(name))}
    except Exception as error:
        return {**entry, "error": f"{type(error).__name__}: {error}"}


def _package_shown(entry: dict[str, Any]) -> str:
    return f"{entry['package']} {entry['version']}" if entry["package"] else "yours"


def _show_environment(name: str) -> dict[str, Any]:
    """Print one environment's origin and fields, and return the same as data.

    Raises:
        UsageError: there is none of that name.
    """
    from verigym.envs import available
    from verigym.envs.contract.session import opens_sessions
    from verigym.envs.registry import origin, package_of

    kind, package = origin(name), package_of(name)
    place, described = available().get(name), (kind.__doc__ or "").strip()
    interactive, file = opens_sessions(kind), inspect.getsourcefile(kind)
    entry: dict[str, Any] = {
        "name": name,
        "place": place or name,
        "package": package and package.name,
        "version": package and package.version,
        "file": file,
        "interactive": interactive,
        "description": described,
    }
    print(f"{name} ({place or 'yours'}){', interactive' if interactive else ''}\n{described}")
    print(f"  from: {_package_shown(entry)}, {file}")
    for title, model in (("options", kind.options_type), ("reference", kind.reference_type)):
        shown: dict[str, Any] = {}
        for field, info in model.model_fields.items():
            value = None if info.is_required() else info.get_default(call_default_factory=True)
            print(f"  {title}.{field}: {'required' if info.is_required() else f'default {value!r}'}. {info.description or ''}")
            default = {} if info.is_required() else {"default": plain(value)}
            shown[field] = {"required": info.is_required(), **default, "description": info.description or ""}
        entry[title] = shown
    return entry


@json_output
def check(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Name of the environment.", autocompletion=completion.environments)],
    option: EnvironmentOptions = None,
    budget_s: Annotated[
        float, typer.Option(min=0.001, help="Wall time that judging one text may take; killed after twice as long.")
    ] = 10.0,
    total_s: Annotated[float, typer.Option(min=0.001, help="Wall time for the whole check.")] = 300.0,
    memory_mb: Annotated[
        int, typer.Option(min=0, help="Address space of a judging process; 0 for no limit, which CUDA needs.")
    ] = 4096,
    every: Annotated[bool, typer.Option("--all", help="List the checks that passed, too.")] = False,
    as_json: Json = False,
) -> Result:
    """Check that an environment keeps the contract: gold, empty, echo, garbage and hacks must score as it declares.

    These are completions: the gold answer, an empty text, an echo of the prompt, nonsense, and reward hacks. Episodes of
    interactive environments are played, replayed, interleaved and driven by hostile turns.

    Judging runs in separate processes with limits. If it hangs, crashes or takes too much memory, the table has a FAIL row.
    """
    from verigym.cli.common.values import pairs
    from verigym.envs.conformance import check_env
    from verigym.envs.progress import Progress
    from verigym.envs.registry import load_usable

    environment = load_usable(env, **pairs(option or [], "--option"))
    memory_bytes = memory_mb * 2**20 if memory_mb else None
    with Progress("checking") as progress:
        report = check_env(
            environment, budget_s=budget_s, total_s=total_s, memory_bytes=memory_bytes, progress=progress.of_total
        )
    print(report if every else report.brief())
    document = {"grader": report.grader, "passed": report.passed, "rows": report.rows}
    return Result(ExitCode.OK if report.passed else ExitCode.FAILED, document)


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the environment and its package, such as word-ladder.")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where it goes: a new or empty folder, by default ./NAME.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="single: one turn; tools: a model that calls tools; game: episodes with a state; file: no package, but one "
            "file, a pipeline that trains on it, and a script for TRL.",
            autocompletion=completion.package_kinds,
        ),
    ] = "single",
) -> int:
    """Write an environment of your own to start from, which already works: a package with tests, README and CI, or one file."""
    from verigym.envs import UsageError
    from verigym.envs.contract.errors import did_you_mean
    from verigym.scaffold import KINDS, make_package

    chosen = next((one for one in KINDS if one == kind), None)
    if chosen is None:
        raise UsageError(f"no kind of environment is called {kind!r}{did_you_mean(kind, KINDS)}")
    names, place, written = make_package(name, chosen, folder)
    for path in written:
        print(f"wrote {path}")
    steps = [] if place.resolve() == Path.cwd() else [f"cd {shlex.quote(str(place))}"]
    if chosen == "file":
        change = f"{place / names.package}.py: `make` writes the tasks, `judge` gives the verdict"
        steps += [f"verigym check {names.package}:{names.class_name}", "verigym pipeline run train.yaml", "verigym report runs"]
        steps += ["python with_trl.py"]
    else:
        change = f"{place / 'src' / names.package / 'environment.py'}; README.md says how"
        steps += ["pip install --editable '.[dev]'", f"verigym check {names.package}", "pytest"]
    print(f"it works as it is; your own task goes into {change}", "then:", *(f"  {step}" for step in steps), sep="\n")
    return ExitCode.OK
