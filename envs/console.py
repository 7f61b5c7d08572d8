"""Consoles for people: whether escape codes may be written, and tables that lose no number on a narrow one.

rich is imported by the functions: an environment that is only imported must not pay for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def is_plain() -> bool:
    """Whether no escape code may be written, terminal or not: `NO_COLOR` is set and not empty, or `TERM` is dumb or unknown."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def open_console(stderr: bool = False, *, quiet: bool = False) -> Console:
    """Return a console on standard output or standard error.

    It writes escape codes on a terminal, or where `FORCE_COLOR` is set, and never where `is_plain`.
    """
    from rich.console import Console

    if is_plain():
        return Console(stderr=stderr, quiet=quiet, highlight=False, force_terminal=False, color_system=None)
    return Console(stderr=stderr, quiet=quiet, highlight=False)


def print_table(table: Table, console: Console | None = None) -> None:
    """Print a table that cuts no word: on a console that is too narrow for its longest words, lines are longer than that.

    Args:
        table: columns whose words may wrap have the overflow `fold`.
        console: standard output by default.
    """
    from rich.measure import Measurement

    console = open_console() if console is None else console
    least = Measurement.get(console, console.options.update(max_width=10_000), table).minimum
    console.print(table, width=max(console.width, least), crop=False, no_wrap=False, overflow="fold", soft_wrap=False)
