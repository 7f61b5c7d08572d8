"""Console output for people: whether escape codes may be written, and tables that are never cut on a narrow console.

The functions import the package rich when called, so that importing an environment does not load rich.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FOLDED_CHARS = 12
"""On a narrow console, table columns with rich's setting `overflow="fold"` break words longer than this many characters."""


def is_plain() -> bool:
    """Return whether escape codes are forbidden: `NO_COLOR` is set and not empty, or `TERM` is dumb or unknown."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "").lower() in ("dumb", "unknown")


def open_console(stderr: bool = False, *, quiet: bool = False, width: int | None = None) -> Console:
    """Return a console on standard output or standard error.

    It writes escape codes on a terminal, or if `FORCE_COLOR` is set, but never if `is_plain()`.

    Args:
        stderr: whether to write to standard error.
        quiet: whether to write nothing.
        width: characters per line; by default the terminal's width, the environment variable `COLUMNS`, or 80.
    """
    from rich.console import Console

    plain = is_plain()
    return Console(
        stderr=stderr,
        quiet=quiet,
        width=width,
        highlight=False,
        force_terminal=False if plain else None,
        color_system=None if plain else "auto",
    )


def print_table(table: Table) -> None:
    """Print `table` on standard output. No word is cut: if words do not fit, lines become wider than the terminal.

    Args:
        table: the table. Columns with `overflow="fold"` are an exception: they may break words longer than `FOLDED_CHARS`.
    """
    from rich.measure import Measurement

    console = open_console()
    for column in table.columns:
        words = [Measurement.get(console, console.options, cell).minimum for cell in (column.header, *column.cells)]
        column.min_width = min(max(words), FOLDED_CHARS) if column.overflow == "fold" else max(words)
    # Padding and lines of the frame come on top: four characters a column at most.
    least = sum(column.min_width + 4 for column in table.columns if column.min_width) + 4
    if Measurement.get(console, console.options.update(max_width=least), table).maximum > console.width:
        console = open_console(width=max(least, console.width))
    console.print(table)
