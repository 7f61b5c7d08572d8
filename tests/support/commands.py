"""All commands of the command line, as typer has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from verigym import cli

Path = tuple[str, ...]


def commands() -> dict[Path, Any]:
    """Return each command by the words that name it, such as ("datasets", "list")."""
    return dict(_leaves(typer.main.get_command(cli.app), ()))


def _leaves(command: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, inner in below.items():
        yield from _leaves(inner, (*path, name))


def flags(command: Any) -> set[str]:
    """Return the options of a command, such as `--json`."""
    return {flag for one in command.params for flag in one.opts if flag.startswith("--")}
