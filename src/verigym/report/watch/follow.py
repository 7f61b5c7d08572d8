"""Shows a run on the terminal until the run is finished or Ctrl-C is pressed. Without a terminal, shows it once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live

from verigym.report.watch.state import RunWatcher, State, find_run
from verigym.report.watch.view import screen


def follow(
    folder: Path, console: Console, *, once: bool = False, every_s: float = 2.0, sleep: Callable[[float], None] = time.sleep
) -> State:
    """Show a run in the terminal until it has finished; return its last state.

    Args:
        folder: the folder of a run, a pipeline or a quickstart. Of a pipeline or quickstart, the newest stage is shown.
        console: where to print; if it is no terminal, the state is printed only once.
        once: print the state only once, even on a terminal.
        every_s: seconds between two updates.
        sleep: called to wait between updates.

    Raises:
        UsageError: there is no such folder.
    """
    watcher = RunWatcher(find_run(folder))
    unicode = "utf" in (console.encoding or "").lower()
    state = watcher.read()
    if once or not console.is_terminal:
        console.print(screen(state, console.width, unicode))
        return state
    # The alternate screen would take the last state away with it. What does not fit is cut at the bottom.
    with Live(screen(state, console.width, unicode), console=console, auto_refresh=False, vertical_overflow="ellipsis") as live:
        while not state.finished:
            sleep(every_s)
            run = find_run(folder)
            if run != watcher.folder:  # the next stage has begun
                watcher = RunWatcher(run)
            state = watcher.read()
            live.update(screen(state, console.width, unicode), refresh=True)
    return state
