"""Outcome of one test, with its reason for people."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from verigym.envs.code import show
from verigym.envs.code.reference import CodeLimits
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.sandbox import RunResult, RunStatus, SandboxFailure

LIMITS = (RunStatus.TIME, RunStatus.MEMORY, RunStatus.OUTPUT)

_FOLDERS = re.compile(r"(?:/[\w.+-]+)+/(?=[\w.+-])")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one test: the program passed or failed, or the test could not be judged because sandbox or test is broken."""

    passed: bool
    status: RunStatus = RunStatus.OK
    reason: str = ""
    failure: EnvironmentFailure | None = None

    @property
    def limit(self) -> bool:
        """Whether the program ran into a limit."""
        return self.status in LIMITS


PASSED = Outcome(True)


def wrong(reason: str) -> Outcome:
    """Return the outcome of a wrong answer."""
    return Outcome(False, RunStatus.WRONG, reason)


def ended(result: RunResult, limits: CodeLimits) -> Outcome:
    """Return the outcome of a run that did not end well."""
    return Outcome(False, result.status, _how(result.status, limits) or _died(result))


def stopped(status: RunStatus, limits: CodeLimits, detail: str) -> Outcome:
    """Return the outcome of a test whose process ended with `status`; `detail` is a sentence that says how it ended."""
    return Outcome(False, status, _how(status, limits) or show.line(detail) or status.value)


def failure_of(error: SandboxFailure) -> EnvironmentFailure:
    """Return `error` as an EnvironmentFailure, which is retryable if `error` is.

    If it is not retryable, its kind is `unavailable`: a person has to change something on the machine first.
    """
    return EnvironmentFailure("backend" if error.retryable else "unavailable", error.message, retryable=error.retryable)


def ours(error: SandboxFailure) -> Outcome:
    """Return the outcome of a test in which the sandbox failed with `error`: the program neither passed nor failed."""
    return Outcome(False, RunStatus.INFRA, error.message, failure_of(error))


def broken_test(number: int, detail: str) -> Outcome:
    """Return the outcome of a broken test."""
    message = f"test {number} is broken: {show.line(detail)}"
    return Outcome(False, RunStatus.INFRA, message, EnvironmentFailure("gold_invalid", message))


def compile_error(result: RunResult, limits: CodeLimits) -> Outcome:
    """Return the outcome of a program that was not built."""
    text = result.message or result.stderr.decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "")
    said = f"does not compile: {show.line(_FOLDERS.sub('', first[:1000]))}"
    limit = _how(result.status, limits)
    return Outcome(False, result.status, f"{limit} while compiling" if limit else said)


def _how(status: RunStatus, limits: CodeLimits) -> str:
    """Return the limit that was met, or nothing."""
    if status is RunStatus.TIME:
        cpu = "" if limits.cpu_s == limits.wall_s else f" ({limits.cpu_s:g} s of CPU time)"
        return f"time limit {limits.wall_s:g} s{cpu}"
    if status is RunStatus.MEMORY:
        return f"memory limit {limits.memory_mb} MB"
    if status is RunStatus.OUTPUT:
        return f"output limit {limits.output_kb} KB"
    return ""


def _died(result: RunResult) -> str:
    said = show.last_line(result.stderr)
    if result.status is RunStatus.PROTOCOL:
        return "wrote on the answer channel what is no answer"
    if result.signal is not None:
        try:
            name = signal.Signals(result.signal).name
        except ValueError:
            name = f"signal {result.signal}"
        how = f"was ended by {name}"
    elif result.exit_code is not None:
        how = f"ended with exit code {result.exit_code}"
    else:
        how = "ended early"
    return f"{how}: {said}" if said else how
