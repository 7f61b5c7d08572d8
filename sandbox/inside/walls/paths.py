"""Where paths of the host are behind the walls of level 3."""

from __future__ import annotations

import sys

_PRIVATE = ("/tmp/", "/var/tmp/", "/dev/shm/")  # a run's own
_ELSEWHERE = "/host"


def placed(path: str) -> str:
    """Return where a path of the host is shown: where it was, unless a run has a folder of its own there."""
    return _ELSEWHERE + path if path.startswith(_PRIVATE) else path


def follow_python() -> None:
    """Import from where this Python is shown now: a run could fill the place where it was."""
    if placed(sys.base_prefix) == sys.base_prefix:
        return
    sys.path[:] = map(placed, sys.path)
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix", "executable", "_base_executable"):
        setattr(sys, name, placed(getattr(sys, name)))
    for module in list(sys.modules.values()):
        if isinstance(folders := getattr(module, "__path__", None), list):
            folders[:] = map(placed, folders)
