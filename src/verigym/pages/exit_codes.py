"""The exit codes of the command line, for docs/cli.md."""

from __future__ import annotations

from verigym.exit_codes import ExitCode
from verigym.pages.markdown import table


def blocks() -> tuple[str, ...]:
    """Return the table of exit codes."""
    return (table(("code", "meaning"), ((f"`{code.value}`", code.meaning) for code in ExitCode)),)
