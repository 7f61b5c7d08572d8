"""Counting processes, for tests that nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def children(parent: int) -> set[int]:
    """Processes whose parent is that one, zombies included; multiprocessing's own resource tracker is not ours to count."""
    found = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and b"resource_tracker" not in command:
            found.add(int(folder.name))
    return found


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    """Wait for a condition."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
