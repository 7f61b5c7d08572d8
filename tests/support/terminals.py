"""Runs `verigym` as a person does: on a terminal of its own, or with pipes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

from patience import HANG_S

ESCAPE = "\x1b"
_DECIDING = ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "PY_COLORS", "GITHUB_ACTIONS")


def environment(**more: str) -> dict[str, str]:
    """Return our environment without what decides on colours, and with some more."""
    return {**{name: value for name, value in os.environ.items() if name not in _DECIDING}, "OMP_NUM_THREADS": "1", **more}


def on_a_terminal(command: list[str], folder: Path, variables: Mapping[str, str], columns: int = 100) -> tuple[int, str]:
    """Return exit code and all that is shown on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    process = subprocess.Popen(
        command, cwd=folder, env=environment(**variables), stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(timeout=HANG_S), shown.decode(errors="replace")


def verigym(*arguments: str) -> list[str]:
    """Return the command line of a command."""
    return [sys.executable, "-m", "verigym", *arguments]
