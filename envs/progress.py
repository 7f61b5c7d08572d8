"""Progress of a long job on standard error, with its rate and the time left.

On a terminal that accepts escape codes, it is a bar. Elsewhere it is a plain line at intervals, the first after one interval,
so that a quick job prints nothing.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from verigym.envs.console import is_plain, open_console

if TYPE_CHECKING:
    import rich.progress
    from rich.console import Console

PLAIN_INTERVAL_S = 10.0
"""Seconds between plain lines, at least."""
BAR_INTERVAL_S = 0.1


class Progress:
    """Shows the progress of a job. It is cheap enough to update after every item.

    Args:
        what: noun for the job, such as `grading`.
        interval_s: seconds between two plain lines.
    """

    def __init__(self, what: str, *, interval_s: float = PLAIN_INTERVAL_S) -> None:
        self._what = what
        self._interval_s = interval_s
        self._start = self._shown = time.monotonic()
        self._first: tuple[float, float] | None = None
        """Time and fraction at the first call that gives a fraction. The time left is estimated from the progress since then,
        because the fraction may include work that an earlier run has done."""
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def __enter__(self) -> Self:
        self._bar = open_bar(self._what)
        if self._bar is not None:
            self._task = self._bar.add_task("", total=None)
            self._bar.start()
            self._interval_s = BAR_INTERVAL_S
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, fraction: float | None, note: str = "") -> None:
        """Show that `done` items are finished in this run. `fraction` is the finished share of the whole job, if known."""
        now = time.monotonic()
        if self._first is None and fraction is not None:
            self._first = now, fraction
        if now - self._shown < self._interval_s:
            return
        self._shown = now
        left = "" if fraction is None else self._left(now, fraction)
        figures = f"{done:,} done, {rate(done, now - self._start)}{note}{left}"
        if self._bar is not None and self._task is not None:
            total = None if fraction is None else 1.0
            self._bar.update(self._task, description=figures, completed=fraction or 0.0, total=total)
        else:
            share = "" if fraction is None else f" ({fraction:.0%})"
            print(f"{self._what}: {figures}{share}", file=sys.stderr, flush=True)

    def of_total(self, done: int, total: int) -> None:
        """Show that `done` of `total` items are finished."""
        self.update(done, min(1.0, done / total) if total else None)

    def _left(self, now: float, fraction: float) -> str:
        begun, before = self._first or (now, fraction)
        if fraction <= before or fraction >= 1:
            return ""
        return f", {duration((now - begun) * (1 - fraction) / (fraction - before))} left"


def open_bar(title: str, console: Console | None = None, *, transient: bool = True) -> rich.progress.Progress | None:
    """Return a progress bar with a title, a description and the elapsed time, or None if progress is shown as plain lines.

    Args:
        title: title of the work.
        console: console to write to, by default standard error.
        transient: whether the bar disappears when it stops.
    """
    console = open_console(stderr=True) if console is None else console
    if is_plain() or not console.is_terminal:
        return None
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    # The title may be the user's text: neither markup nor a format.
    shown = title.replace("{", "{{").replace("}", "}}")
    columns = (TextColumn(shown, markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("{task.description}", markup=False), console=console, transient=transient)


def rate(done: float, seconds: float) -> str:
    """Return the speed in words: items per second, or seconds per item if an item takes longer than a second."""
    if done <= 0 or seconds <= 0:
        return "0/s"
    each = done / seconds
    return f"{each:,.0f}/s" if each >= 10 else f"{each:.1f}/s" if each >= 1 else f"{1 / each:,.1f} s each"


def duration(seconds: float) -> str:
    """Return `seconds` in words, such as `40 s`, `12 min` or `3 h 05 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
