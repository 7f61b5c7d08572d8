"""`verigym score`, `envs` and `check`: one completion scored, the environments listed, an environment checked."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from verigym.cli.options import EnvironmentOptions, TimeoutS
from verigym.exit_codes import ExitCode

INTERACTIVE = "interactive"
"""How the list marks environments that open sessions."""


def score(
    env: Annotated[str, typer.Option("--env", help="Environment that grades; `verigym envs` lists them.")],
    prompt: Annotated[str, typer.Option(help="What the model was asked.")],
    completion: Annotated[str, typer.Option(help="What it wrote; - reads standard input.")],
    reference: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE of the reference. May be repeated.")] = None,
    option: EnvironmentOptions = None,
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
    return ExitCode.OK if result.scored else ExitCode.FAILED


def envs(
    name: Annotated[str | None, typer.Argument(metavar="[ENV]", help="Show this one's options and reference fields.")] = None,
) -> int:
    """List the environments and where each comes from, or one's options and reference fields.

    Interactive ones open sessions: a model plays episodes of several turns in them.
    """
    from verigym.envs import available
    from verigym.envs.contract.session import opens_sessions
    from verigym.envs.registry import origin

    known = available()
    if name is not None:
        kind = origin(name)
        interactive = ", interactive" if opens_sessions(kind) else ""
        print(f"{name} ({known.get(name, 'yours')}){interactive}\n{(kind.__doc__ or '').strip()}")
        for title, model in (("options", kind.options_type), ("reference", kind.reference_type)):
            for field, info in model.model_fields.items():
                default = "required" if info.is_required() else f"default {info.get_default(call_default_factory=True)!r}"
                print(f"  {title}.{field}: {default}. {info.description or ''}")
        return ExitCode.OK
    width = max(map(len, known))
    for known_name, place in known.items():
        print(f"{known_name:<{width}}  {_kind(known_name):<{len(INTERACTIVE)}}  {place}")
    return ExitCode.OK


def _kind(name: str) -> str:
    """Return whether an environment is interactive; a package's that cannot be imported must not end the list."""
    from verigym.envs.contract.session import opens_sessions
    from verigym.envs.registry import origin

    try:
        return INTERACTIVE if opens_sessions(origin(name)) else ""
    except Exception as error:
        return f"({type(error).__name__}: {error})"


def check(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Name of the environment.")],
    option: EnvironmentOptions = None,
    budget_s: Annotated[
        float, typer.Option(min=0.001, help="Wall time that judging one text may take; killed after twice as long.")
    ] = 10.0,
    total_s: Annotated[float, typer.Option(min=0.001, help="Wall time for the whole check.")] = 300.0,
    memory_mb: Annotated[
        int, typer.Option(min=0, help="Address space of a judging process; 0 for no limit, which CUDA needs.")
    ] = 4096,
) -> int:
    """Check that an environment keeps the contract: gold, empty, echo, garbage and hacks score as it declares.

    Episodes of interactive environments are played, replayed, interleaved and driven by hostile turns.

    Judging runs in processes of its own, within limits: what hangs, crashes or takes too much memory is a FAIL row.
    """
    from verigym.cli.args import pairs
    from verigym.envs.conformance import check_env
    from verigym.envs.registry import load_usable

    environment = load_usable(env, **pairs(option or [], "--option"))
    memory_bytes = memory_mb * 2**20 if memory_mb else None
    report = check_env(environment, budget_s=budget_s, total_s=total_s, memory_bytes=memory_bytes)
    print(report)
    return ExitCode.OK if report.passed else ExitCode.FAILED
