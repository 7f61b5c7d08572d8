"""Processes as /proc lists them, and signals to those that may end at any time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from patience import HANG_S


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


def below(pid: int) -> list[int]:
    """Return all processes below `pid`, parents before their children."""
    found = sorted(children(pid))
    for one in found:
        found += sorted(children(one) - set(found))
    return found


def send(number: int, pids: Iterable[int]) -> None:
    """Send a signal to each process that is still there: between looking and sending, one may have ended and been reaped."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: Callable[[], bool], timeout_s: float = HANG_S) -> bool:
    """Wait for a condition."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()
