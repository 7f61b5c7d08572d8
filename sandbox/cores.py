"""How many cores this process may use: its affinity, and the CPU quota of its control groups (versions 1 and 2)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables that give numerical libraries their number of threads; by default, one per core of the machine."""


def usable_cores() -> int:
    """Return how many cores this process may use, at least 1.

    A quota of 1.5 cores counts as 1: with two threads, each would often wait for the other to be let on again.
    """
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota() -> float | None:
    """Return the smallest CPU quota, in cores, of this process's control group and those above it; None without a quota."""
    try:
        groups = group_directories("cpu", read_file("/proc/self/cgroup"), read_file("/proc/self/mountinfo"))
    except OSError:
        return None
    quotas = [quota for group in groups if (quota := _quota_of(group)) is not None]
    return min(quotas, default=None)


def _quota_of(group: str) -> float | None:
    with contextlib.suppress(OSError, ValueError):  # version 2: "50000 100000", or "max 100000"
        quota, period = read_file(f"{group}/cpu.max").split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):  # version 1; -1 is no quota
        quota_us = int(read_file(f"{group}/cpu.cfs_quota_us"))
        return quota_us / int(read_file(f"{group}/cpu.cfs_period_us")) if quota_us > 0 else None
    return None


def group_directories(controller: str, memberships: str, mounts: str) -> list[str]:
    """Return the directories of the groups with `controller` that this process is in: its own and all above it that it sees.

    Args:
        controller: a name such as `cpu`.
        memberships: the text of /proc/self/cgroup.
        mounts: the text of /proc/self/mountinfo.
    """
    found: list[str] = []
    for number, names, path in (line.split(":", 2) for line in memberships.splitlines()):
        if number == "0":
            own = below_mount(mounts, path, lambda kind, _: kind == "cgroup2")
        elif controller in names.split(","):
            own = below_mount(mounts, path, lambda kind, options: kind == "cgroup" and controller in options)
        else:
            continue
        if own is not None:
            found += [own, *map(str, Path(own).parents)]
    return found


def below_mount(mounts: str, path: str, wanted: Callable[[str, list[str]], bool]) -> str | None:
    """Return the directory of the group `path` in the first mount that holds it and that `wanted` accepts (type, options)."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        inside = os.path.relpath(path, _unescaped(root))
        if wanted(kind, options.split(",")) and not inside.startswith(".."):
            return os.path.normpath(f"{_unescaped(mount_point)}/{inside}")
    return None


def _unescaped(path: str) -> str:
    """Return a path of mountinfo, in which spaces and the like are octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def read_file(path: str) -> str:
    """Return the text of a kernel file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
