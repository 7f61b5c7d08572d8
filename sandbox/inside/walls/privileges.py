"""Drops the privileges of a run's process, or of the process that forks it. Irreversible."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
from collections.abc import Mapping
from typing import Any

from verigym.sandbox.inside.walls import landlock, seccomp
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.build import Walls

OPEN_FILES = 256
RUN_OOM_SCORE = b"1000"
"""Value of oom_score_adj for runs. With it, the OOM killer picks them before the process that forks them."""
_SIGNALS = 1024  # pending signals and timers, counted per user


def drop_privileges(walls: Walls) -> None:
    """Switch to the uid of runs and drop every privilege, for this process and its future children.

    Args:
        walls: the isolation of runs.

    Raises:
        OSError: a privilege could not be dropped; the caller must not continue.
    """
    if walls.uid is not None:
        os.setgroups([])
        os.setresgid(walls.uid, walls.uid, walls.uid)
        os.setresuid(walls.uid, walls.uid, walls.uid)
    sys_.drop_capabilities(bounding=False)  # the bounding set is empty
    if walls.filter is not None:
        seccomp.install(walls.filter)


def apply_landlock(walls: Walls) -> None:
    """Apply the Landlock ruleset of `walls` to this process and its future children.

    Raises:
        OSError: Landlock is available but fails.
    """
    if walls.landlock_fd is not None:
        landlock.restrict(walls.landlock_fd)
        os.close(walls.landlock_fd)


def expose_to_user_and_oom() -> None:
    """Make this process the OOM killer's first choice, and make its /proc directory accessible to its own user."""
    # Otherwise /proc/self would belong to root, and /dev/stdin could not be opened.
    sys_.prctl(sys_.PR_SET_DUMPABLE, 1)
    with contextlib.suppress(OSError):
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, RUN_OOM_SCORE)
        os.close(fd)


def process_limit(walls: Walls, wanted: int) -> int:
    """Return the value for RLIMIT_NPROC with which a run may have `wanted` processes.

    The kernel counts all tasks of the user in this user namespace, including the sandbox's own, so these are added.
    """
    if walls.uid is not None or walls.level >= 3:
        return wanted + walls.ours
    count = 0
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit() and os.stat(f"/proc/{entry}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry}/task"))
    return wanted + count


def resource_limits(walls: Walls, limits: Mapping[str, Any]) -> list[tuple[int, tuple[int, int]]]:
    """Return the arguments of the `setrlimit` calls for a run with these `limits`, capped at the limits of this process."""
    cpu = int(limits["cpu_s"])
    values = {
        # One second above the limit, for the kernel counts in ticks and signals early; the measured use decides. SIGXCPU tells
        # the reason; SIGKILL, a second later, cannot be ignored.
        resource.RLIMIT_CPU: (cpu + 1, cpu + 2),
        resource.RLIMIT_NPROC: (process_limit(walls, limits["processes"]),) * 2,
        resource.RLIMIT_FSIZE: (limits["file_bytes"],) * 2,
        resource.RLIMIT_NOFILE: (OPEN_FILES,) * 2,
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
        resource.RLIMIT_SIGPENDING: (_SIGNALS,) * 2,
        resource.RLIMIT_MEMLOCK: (1 << 16,) * 2,
        (resource.RLIMIT_AS if limits["address_space"] else resource.RLIMIT_DATA): (limits["memory_bytes"],) * 2,
    }
    if limits.get("stack_bytes"):
        hard = _hard_limit(resource.RLIMIT_STACK)
        values[resource.RLIMIT_STACK] = (hard if limits["stack_bytes"] < 0 else limits["stack_bytes"], hard)
    allowed = []
    for kind, (soft, hard) in values.items():
        most = _hard_limit(kind)
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most) if soft >= 0 else most, min(hard, most) if hard >= 0 else most
        allowed.append((kind, (soft, hard)))
    return allowed


@functools.cache
def _hard_limit(kind: int) -> int:
    """The hard limit of this process, which does not change."""
    return resource.getrlimit(kind)[1]
