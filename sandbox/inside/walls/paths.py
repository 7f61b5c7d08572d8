"""Maps paths of the host to the paths at which they appear in the sandbox, at isolation level 3."""

from __future__ import annotations

import sys

_PRIVATE = ("/tmp/", "/var/tmp/", "/dev/shm/")  # each run has its own
_ELSEWHERE = "/host"


def placed(path: str) -> str:
    """Return the path inside the sandbox at which the host's `path` appears.

    Paths below folders that each run has for itself, such as `/tmp`, appear below `/host`. All others are unchanged.
    """
    return _ELSEWHERE + path if path.startswith(_PRIVATE) else path


def follow_python() -> None:
    """Make this process import from the path at which its Python appears in the sandbox (see `placed`).

    This is needed because a run could put its own files at the old path.
    """
    if placed(sys.base_prefix) == sys.base_prefix:
        return
    sys.path[:] = map(placed, sys.path)
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix", "executable", "_base_executable"):
        setattr(sys, name, placed(getattr(sys, name)))
    for module in list(sys.modules.values()):
        if isinstance(folders := getattr(module, "__path__", None), list):
            folders[:] = map(placed, folders)
