"""How commands end when a signal stops them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):
    """Raised to end a command with its exit code after a signal has stopped a run; the run has already printed a message."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class InterruptedWithResults(Exception):
    """Raised when Ctrl-C stops a command that has already shown its results up to then.

    Args:
        message: the line for standard error.
        document: the results so far, as `--json` prints them.
    """

    def __init__(self, message: str, document: Any) -> None:
        super().__init__(message)
        self.document = document


@contextmanager
def resumable(quiet: bool = False) -> Iterator[None]:
    """Return a context manager that turns a stop by a signal into the command's exit code.

    It is used around a training run, a stage or an evaluation that can be resumed.

    Args:
        quiet: print nothing; set in all of torchrun's processes except the first.

    Raises:
        Stopped: a signal stopped the run; the exception carries the exit code.
    """
    from verigym.trainer.monitoring.progress import Interrupted

    try:
        yield
    except Interrupted as stop:
        if not quiet:
            print(f"{stop}; go on with the same command", file=sys.stderr)
        raise Stopped(stop.exit_code) from None
