"""Whether torchrun has started this process, and as which of several. Imports no torch: the command line asks, too."""

from __future__ import annotations

import os

LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun sets."""


def launched(name: str) -> int | None:
    """Return what torchrun has set as `name`, one of the numbers in LAUNCHED; None without torchrun."""
    return int(os.environ[name]) if all(os.environ.get(one) for one in LAUNCHED) else None


def launched_rank() -> int:
    """Return this process's rank as torchrun has set it, 0 without torchrun."""
    return launched("RANK") or 0
