"""Restrictions that a process applies to itself: resource limits, no new privileges, no network, death with its parent.

This module uses the standard library only. Kernels, containers and privileges differ, so `confine` applies the restrictions
that this machine allows. It returns their names, and does not raise if others fail. Restrictions cannot be undone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000

try:
    # Loaded at import: a freshly forked process should not search for libraries.
    _libc: ctypes.CDLL | None = ctypes.CDLL(None, use_errno=True)
except OSError:
    _libc = None


def confine(
    *,
    memory_bytes: int | None = None,
    cpu_s: int | None = None,
    file_bytes: int | None = None,
    processes: int | None = None,
    network: bool = True,
    die_with_parent: bool = False,
    hardened: bool = True,
) -> tuple[str, ...]:
    """Confine the calling process and its future children. A limit that is None is not set.

    Args:
        memory_bytes: limit on the address space.
        cpu_s: whole seconds of CPU time, after which the kernel kills the process.
        file_bytes: limit on the size of written files; 0 forbids writing files (pipes still work).
        processes: limit on the user's processes; without effect for root.
        network: False moves the process into a network namespace without interfaces. The process must be single-threaded then.
        die_with_parent: send SIGKILL to this process when the *thread* that started it ends.
        hardened: set no_new_privs and make the process not dumpable. Pass False for a process that must itself make
            namespaces or containers.

    Returns:
        The names of the restrictions that took effect.
    """
    layers: list[tuple[str, Callable[[], bool]]] = [
        ("core", lambda: _limit(resource.RLIMIT_CORE, 0)),
    ]
    if hardened:
        layers.append(("no_new_privs", lambda: _prctl(_PR_SET_NO_NEW_PRIVS, 1)))
        layers.append(("not_dumpable", lambda: _prctl(_PR_SET_DUMPABLE, 0)))
    if die_with_parent:
        layers.append(("die_with_parent", lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)))
    if not network:
        layers.append(("no_network", _leave_network))
    for name, kind, value in (
        ("files", resource.RLIMIT_FSIZE, file_bytes),
        ("cpu", resource.RLIMIT_CPU, cpu_s),
        ("processes", resource.RLIMIT_NPROC, processes),
        ("memory", resource.RLIMIT_AS, memory_bytes),
    ):
        if value is not None:
            layers.append((name, lambda kind=kind, value=value: _limit(kind, value)))  # type: ignore[misc]
    return tuple(name for name, apply in layers if apply())


def _limit(kind: int, value: int) -> bool:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value))
        return True
    return False


def _prctl(option: int, value: int) -> bool:
    if _libc is None or not hasattr(_libc, "prctl"):
        return False
    zero = ctypes.c_ulong(0)
    return bool(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) == 0)


def _leave_network() -> bool:
    if _libc is None or not hasattr(_libc, "unshare"):
        return False
    # Root may make a network namespace directly; other users need a user namespace around it, if the kernel allows that.
    return any(_libc.unshare(flags) == 0 for flags in (_CLONE_NEWNET, _CLONE_NEWUSER | _CLONE_NEWNET))


def parent_is(pid: int) -> bool:
    """Return whether the process `pid` is still the parent of this one.

    Call this function after `confine(die_with_parent=True)`, because the parent may have died before that call took effect.
    """
    return os.getppid() == pid
