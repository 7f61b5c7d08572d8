"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import rich.progress

PLAIN_INTERVAL_S = 10.0
BAR_INTERVAL_S = 0.1


class Progress:
    """Shows how far a job is. Cheap to call for every item."""

    def __init__(self, what: str, *, interval_s: float = PLAIN_INTERVAL_S) -> None:
        self._what = what
        self._interval_s = interval_s
        self._start = self._shown = time.monotonic()
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._what, total=None)
            self._bar.start()
            self._interval_s = BAR_INTERVAL_S
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, fraction: float | None, note: str = "") -> None:
        """Show that `done` items are finished, and which fraction of all that is, if known."""
        now = time.monotonic()
        if now - self._shown < self._interval_s:
            return
        self._shown = now
        text = f"{self._what}: {done:,} done, {done / (now - self._start):,.0f}/s{note}"
        if self._bar is not None and self._task is not None:
            total = None if fraction is None else 1.0
            self._bar.update(self._task, description=text, completed=fraction or 0.0, total=total)
        else:
            share = "" if fraction is None else f" ({fraction:.0%})"
            print(text + share, file=sys.stderr, flush=True)
