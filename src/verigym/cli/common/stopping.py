"""How commands end when a signal stops them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):
    """A signal has stopped a run, which has said so itself."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class InterruptedWithResults(Exception):
    """Ctrl-C has stopped a command that has shown the results it had; the message is printed.

    Args:
        message: for standard error.
        document: those results, as `--json` prints them.
    """

    def __init__(self, message: str, document: Any) -> None:
        super().__init__(message)
        self.document = document


@contextmanager
def resumable(quiet: bool = False) -> Iterator[None]:
    """Within this context a stopped training run, stage or evaluation ends the command with its exit code.

    Args:
        quiet: prints nothing, in all of torchrun's processes but the first.

    Raises:
        Stopped: by the signal that the exit code names.
    """
    from verigym.trainer.monitoring.progress import Interrupted

    try:
        yield
    except Interrupted as stop:
        if not quiet:
            print(f"{stop}; go on with the same command", file=sys.stderr)
        raise Stopped(stop.exit_code) from None
