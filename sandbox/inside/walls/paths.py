"""Maps paths of the host to their place behind the walls of level 3."""

from __future__ import annotations

import sys

_PRIVATE = ("/tmp/", "/var/tmp/", "/dev/shm/")  # each run has its own
_ELSEWHERE = "/host"


def placed(path: str) -> str:
    """Return the path inside the sandbox at which the host's `path` appears.

    It is unchanged, unless each run has its own folder at that place.
    """
    return _ELSEWHERE + path if path.startswith(_PRIVATE) else path


def follow_python() -> None:
    """Make this process import from the place where its Python appears now, since a run could put files in the old place."""
    if placed(sys.base_prefix) == sys.base_prefix:
        return
    sys.path[:] = map(placed, sys.path)
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix", "executable", "_base_executable"):
        setattr(sys, name, placed(getattr(sys, name)))
    for module in list(sys.modules.values()):
        if isinstance(folders := getattr(module, "__path__", None), list):
            folders[:] = map(placed, folders)
