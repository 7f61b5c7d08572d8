"""`verigym serve`: verdicts and episodes over HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from verigym.cli.common.options import Cluster, EnvironmentOptions


def serve(
    env: Annotated[
        list[str] | None, typer.Option("--env", help="Environment to serve; `verigym envs` lists them. May be repeated.")
    ] = None,
    option: EnvironmentOptions = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(help="A tool for the episodes of the one --env: calculator, python or module:attribute. May be repeated."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML with all settings, such as environments with options; options given here win.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on, 127.0.0.1 by default. Beyond loopback a token is demanded.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="8642 by default; 0 takes a free one.")] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File with tokens, one a line. By default the variable VERIGYM_TOKEN.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Grading processes.")] = None,
    cluster: Cluster = None,
    timeout_s: Annotated[float | None, typer.Option(min=0.001, help="Wall time of one item or turn, 30 by default.")] = None,
    cache: Annotated[Path | None, typer.Option(help="File that keeps verdicts across restarts.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option(help="A limit, NAME=VALUE, such as batch_items=1000; docs/service.md lists them.")
    ] = None,
) -> int:
    """Serve verdicts and episodes over HTTP until SIGTERM or Ctrl-C; what was accepted before the signal is still answered.

    Exit code: 0 all accepted items were graded, 1 some were not graded in time, 2 a mistake in the call.
    """
    from verigym.cli.common.values import pairs, validated
    from verigym.datasets_cfg.yamlfile import Loc, checked, read_document
    from verigym.envs import UsageError
    from verigym.serve.server import serve as run
    from verigym.serve.settings import ServiceSettings

    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "token_file": None if token_file is None else str(token_file),
        "workers": workers,
        "cluster": cluster,
        "timeout_s": timeout_s,
        "cache": None if cache is None else str(cache),
    }
    given = {name: value for name, value in given.items() if value is not None}
    if (option or tool) and len(env or []) != 1:
        raise UsageError("--option and --tool are about one --env; several with options are named in --config FILE")
    if env:
        own = {"options": pairs(option or [], "--option"), "tools": {name: {} for name in tool or []}}
        given["environments"] = [{"environment": name, **(own if len(env) == 1 else {})} for name in env]
    limits = pairs(limit or [], "--limit")
    if config is None:
        if not env:
            raise UsageError("missing option --env, or --config: what is to be served")
        return run(validated(ServiceSettings, **given, limits=limits))
    document = read_document(config)
    whole = {**document.fields, **given}
    if limits:
        whole["limits"] = {**(document.fields.get("limits") or {}), **limits}
    places: dict[Loc, str] = dict(document.places)
    for name in given:
        places[name,] = "--env" if name == "environments" else f"--{name.replace('_', '-')}"
    for name in limits:
        places["limits", name] = f"--limit {name}"
    return run(checked(ServiceSettings, whole, replace(document, places=places)))
