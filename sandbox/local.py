"""The default back end: warm cells behind walls of our own making. No daemon, no tool, nothing but the kernel."""

from __future__ import annotations

import logging
import os
import stat
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import PurePath
from typing import Any

from verigym.sandbox import boot
from verigym.sandbox.box import Sandbox
from verigym.sandbox.inside.places import placed
from verigym.sandbox.spec import SandboxFailure
from verigym.sandbox.worker import Worker

_log = logging.getLogger(__name__)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache")


@cache
def interpreter() -> str:
    """Return the real interpreter: through a virtual environment's link, and not a version manager's shim."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def visible(packages: bool = True, more: Sequence[str] = ()) -> list[str]:
    """Return the read-only part of the host that programs see: the system's programs and libraries, this Python, and `more`."""
    paths = [path for path in _SYSTEM if os.path.exists(path)]
    python = [sys.base_prefix, os.path.dirname(os.path.dirname(interpreter()))]
    for path in [*python, *(site_packages() if packages else ()), *more]:
        real = os.path.realpath(path)
        if not any(real == known or real.startswith(known + "/") for known in paths):
            paths.append(real)
    return paths


def site_packages() -> list[str]:
    """Return where this Python's installed packages are, so that programs can import them (numpy, pytest)."""
    found = (os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib"))
    return list(dict.fromkeys(path for path in found if os.path.isdir(path)))


def present(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths with links followed.

    Raises:
        ValueError: one is not there.
    """
    for path in paths:
        if not os.path.exists(path):
            raise ValueError(f"read_only: there is no {path}")
    return tuple(map(os.path.realpath, paths))


def _closed_to_others(path: str) -> str | None:
    """Return the first folder on the way that other users may not enter; as root we would not notice."""
    if os.geteuid() == 0:
        for parent in reversed(PurePath(path).parents):
            if not os.stat(parent).st_mode & stat.S_IXOTH:
                return str(parent)
    return None


class LocalSandbox(Sandbox):
    """Runs programs in warm cells.

    Args:
        workers: runs at one time; by default one a usable core.
        level: 3 (namespaces), 2 (own uid or Landlock, and seccomp) or 1 (limits only); by default the best that works here.
        packages: whether programs may import what is installed beside this Python.
        allow_unsafe: accept level 1.
        read_only: more files and folders of the host that programs may read; below `/tmp` they are seen as `placed` says.
    """

    name = "local"

    def __init__(
        self,
        *,
        workers: int | None = None,
        level: int | None = None,
        packages: bool = True,
        allow_unsafe: bool = False,
        read_only: Sequence[str] = (),
    ) -> None:
        if level not in (None, 1, 2, 3):
            raise ValueError(f"level={level!r}: expected 1, 2 or 3")
        super().__init__(workers=workers)
        self._read_only = present(read_only)
        self._packages = packages
        self._allow_unsafe = allow_unsafe
        self._level = level
        self._reasons: dict[str, str] = {}

    def _make(self) -> Worker:
        wanted = [self._level] if self._level else [3, 2, 1]
        last: SandboxFailure | None = None
        for level in wanted:
            if level == 1 and not self._allow_unsafe:
                why = "; ".join(f"level {k}: {v}" for k, v in self._reasons.items())
                raise SandboxFailure(
                    f"this machine gives no isolation that would hold ({why or 'level 1 was asked for'}); "
                    "see `verigym sandbox doctor`. Programs you trust can be run with allow_unsafe=True",
                    retryable=False,
                )
            try:
                if level == 2 and (closed := _closed_to_others(interpreter())):
                    raise SandboxFailure(
                        f"runs get a uid of their own, which may not enter {closed}, where Python is", retryable=False
                    )
                worker = Worker([interpreter(), *boot.FLAGS, "-c", boot.PROGRAM], self._config(level))
            except SandboxFailure as error:
                self._reasons[str(level)] = error.message
                last = error
                if error.retryable:
                    break
                continue
            if level < 3:
                _log.warning(
                    "the sandbox works at level %d of 3: %s", level, "; ".join(self._reasons.values()) or "as asked for"
                )
            self._level = level
            return worker
        raise last or SandboxFailure("no level was tried", retryable=False)

    def _config(self, level: int) -> dict[str, Any]:
        path = site_packages() if self._packages else []
        if level == 3:
            path = list(map(placed, path))
        return {"level": level, "visible": visible(self._packages, self._read_only), "path": path}
