"""Exit codes of the command line; docs/cli.md has them as a table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of commands. A run stopped by a signal ends with 128 plus the signal's number, as in shells."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NONE_SCORED = 3
    INTERRUPTED = 130
    TERMINATED = 143

    @property
    def meaning(self) -> str:
        """Return the code's meaning, for the documentation."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "done, and the result is a failure: bad or unscored rows, a `judge` that raised in `grade` or `eval`, a "
    "failed check, a gold below the maximum, a program that did not end well; an `eval` whose endpoint no longer answers; or "
    "an unexpected error, whose traceback `VERIGYM_DEBUG=1` shows",
    ExitCode.USAGE: "a mistake in the call, in a file or in the settings, or a missing package: one line on standard error",
    ExitCode.NONE_SCORED: "no completion got a verdict: `grade`, in the whole file; `eval`, in at least one source",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C",
    ExitCode.TERMINATED: "training, a stage or an evaluation was stopped by SIGTERM or SIGUSR1",
}
