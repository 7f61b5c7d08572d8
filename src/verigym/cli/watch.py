"""`verigym watch`: the live view of a run on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verigym.exit_codes import ExitCode


def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Output folder of a run, a stage, a quickstart or a pipeline.")],
    once: Annotated[bool, typer.Option("--once", help="Print the state once and end, as without a terminal.")] = False,
    every_s: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
) -> int:
    """Show a run while it goes on: rewards by environment, times, alarms, the last samples. Its files are only read.

    The command ends when the run ends, or with Ctrl-C, which does not affect the run.
    """
    from verigym.envs.console import open_console
    from verigym.report.watch.follow import follow

    try:
        follow(run, open_console(), once=once, every_s=every_s)
    except KeyboardInterrupt:
        return ExitCode.OK
    return ExitCode.OK
