"""How long tests wait for a state that must come: for a process's end, a file, an answer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HANG_S = 1800.0
"""Ends a hang, and nothing else: on a loaded machine any work may take a hundred times as long as on an idle one."""


def wait_for(state: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Wait until `state` is true. The process that is to bring it about may not end before."""
    end = time.monotonic() + HANG_S
    while not state():
        code = None if process is None else process.poll()
        assert code is None or state(), f"the process ended with {code} before it came about"
        assert time.monotonic() < end, f"it did not come about within {HANG_S:g} s"
        time.sleep(0.002)


def stands_still(pid: int) -> bool:
    """Whether SIGSTOP has stopped the process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
