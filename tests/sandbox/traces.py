"""What a sandbox may leave on this machine: counted before and after."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from verigym.sandbox.inside.walls.privileges import OPEN_FILES


def processes(supervisor: int) -> set[str]:
    """Pids of the cells of a supervisor and of what runs in them: by control group, or where there is none by parent."""
    parents: dict[str, str] = {}
    found = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            if state in "ZX":
                continue
            parents[folder.name] = parent
            if _group(supervisor) in (folder / "cgroup").read_text():
                found.add(folder.name)
        except OSError:
            continue
    below = {str(supervisor)}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    cells = {pid for pid in below if _is_cell(pid)}
    return (found | cells) - waiting(parents)


def waiting(parents: Mapping[Any, Any]) -> set[Any]:
    """Of the processes, those that are kept for the next run, one of each cell: a child that has not got a run's limits yet."""
    kept = [pid for pid, parent in parents.items() if _is_cell(pid) and _is_cell(parent)]
    return set({parents[pid]: pid for pid in kept if not _is_limited(pid) and not _is_zygote(pid)}.values())


def _is_zygote(pid: int | str) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in lines)


def _is_limited(pid: int | str) -> bool:
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return False
    return any(line.split()[:4] == ["Max", "open", "files", str(OPEN_FILES)] for line in lines)


def _is_cell(pid: int | str) -> bool:
    try:
        return b"MemoryFinder" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _group(supervisor: int) -> str:
    return f"-{supervisor}-"


def mounts() -> set[str]:
    """This process's mounts. The tests' containers have a mount namespace of their own."""
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def cgroups(supervisor: int) -> set[str]:
    """Control groups of a supervisor."""
    return {path for path in glob.glob("/sys/fs/cgroup/**/verigym-*", recursive=True) if _group(supervisor) in path}


class Traces:
    """A snapshot of what belongs to one supervisor, by default this process; `left()` says what is there now that was not."""

    def __init__(self, supervisor: int | None = None) -> None:
        self.supervisor = supervisor or os.getpid()
        self.before = self._now()

    def _now(self) -> dict[str, set[str]]:
        return {"processes": processes(self.supervisor), "mounts": mounts(), "cgroups": cgroups(self.supervisor)}

    def left(self, but: Collection[str] = (), within_s: float = 120.0) -> dict[str, set[str]]:
        """Return what is new and of no kind in `but`, after waiting for the dying, however long they take."""
        deadline = time.monotonic() + within_s
        while True:
            left = {kind: new for kind, found in self._now().items() if kind not in but and (new := found - self.before[kind])}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)
