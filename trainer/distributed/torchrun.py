"""Whether torchrun has started this process, and with which rank. Imports no torch, because the command line uses it."""

from __future__ import annotations

import os

LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables that torchrun sets."""


def launched(name: str) -> int | None:
    """Return the integer in the environment variable `name`, which torchrun sets; None if torchrun did not start this process.

    `name` must be one of the names in LAUNCHED whose value is an integer.
    """
    return int(os.environ[name]) if all(os.environ.get(variable) for variable in LAUNCHED) else None


def launched_rank() -> int:
    """Return this process's rank, 0 without torchrun."""
    return launched("RANK") or 0
