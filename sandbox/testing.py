"""Runs test code against a program (the candidate). Each has its own sandboxed process, and they exchange plain data.

The test's process reports the verdict on a channel that the candidate cannot reach. The candidate's output, its exit code and
the bytes that it writes to any descriptor have no influence on the verdict.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from verigym.sandbox.arguments import checked_class
from verigym.sandbox.channel import Channel
from verigym.sandbox.event_loop import QUIET_S, Run, poll_runs
from verigym.sandbox.inside.wire import frames
from verigym.sandbox.job import Job
from verigym.sandbox.session import candidate_job
from verigym.sandbox.spec import Limits, Program, RunStatus, SandboxFailure

Kind = Literal["assert", "unittest", "pytest", "checker", "shared"]
_SETUP_S = 20.0  # for the test side to load, before the program's time begins
_QUICKLY_COMPILED = 20_000  # characters
_TO_END_S = 0.05  # for both sides to end after the verdict
_TO_DIE_S = 1.0  # for the test side to end without a verdict
_LARGEST_VERDICT = 1 << 20
_OF_THE_TEST = ("compile", "setup", "argument")
_LIMITS = (RunStatus.TIME, RunStatus.MEMORY, RunStatus.OUTPUT)


@checked_class
@dataclass(frozen=True, slots=True, kw_only=True)
class TestSuite:
    """Trusted test code for one program.

    Raises:
        ValueError, TypeError: the kind or form is unknown, or a field is unknown, missing or of the wrong type.
    """

    __test__ = False  # not a test case of pytest's

    kind: Kind
    code: str
    setup: str = ""
    """Trusted code that runs before the tests: imports, helpers."""
    entry_point: str | None = None
    """For kind `assert`: name of the program's function that is passed to the function `check(candidate)` in `code`."""
    module: str = "solution"
    """Name under which unittest and pytest code imports the program."""
    stdin: str = ""
    stdout: str = ""
    """kind checker: the program's input and its output."""
    form: Literal["assert", "unittest", "pytest"] = "assert"
    """kind shared: the form of `code`."""


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """The result of running a test suite: whether it passed, and details."""

    __test__ = False

    passed: bool
    fault: Literal["candidate", "test"] | None
    """The side at fault if the test did not pass. `test` means that the test code itself is broken; None: it passed."""
    status: RunStatus
    detail: str
    tests: int = 0


_SENT = tuple(field.name for field in fields(TestSuite))


def run_tests(start: Callable[[Job], Run], program: Program, suite: TestSuite, limits: Limits) -> TestVerdict:
    """Run the tests of `suite` against `program` and return the verdict.

    Tests may evaluate what the program says, and so be killed by it. So where their process is killed, they run once more; if
    it is killed again, and not without the program, the program is at fault.

    Args:
        start: starts the run of a job.
        program: the program.
        suite: the tests.
        limits: resource limits that apply to the program's process and to the tests' process.

    Raises:
        SandboxFailure: the sandbox failed.
    """

    def without_program() -> TestVerdict:
        return _run_once(start, replace(program, source=""), replace(suite, stdout=""), limits)

    try:
        try:
            verdict = _run_once(start, program, suite, limits)
        except _Killed:
            verdict = _run_once(start, program, suite, limits)
    except _Killed as killed:
        without_program()  # where this is killed too, it is the sandbox that failed
        return TestVerdict(False, "candidate", RunStatus.RUNTIME, f"{killed}, twice, and not without the program")
    if verdict.fault == "test" and suite.kind == "shared" and program.source:
        # The program shared the test's process and may have forged this report. An empty program cannot.
        if without_program().fault != "test":
            return TestVerdict(False, "candidate", RunStatus.RUNTIME, verdict.detail)
    return verdict


class _Killed(SandboxFailure):
    """The process of the tests was killed, and not for what it used."""


def _run_once(start: Callable[[Job], Run], program: Program, suite: TestSuite, limits: Limits) -> TestVerdict:
    ours, control_inside = socket.socketpair()
    control = Channel(ours, _LARGEST_VERDICT)
    peer_candidate, peer_tests = socket.socketpair()
    sockets = [ours, control_inside, peer_candidate, peer_tests]
    runs: list[Run] = []
    try:
        job = None if suite.kind in ("checker", "shared") else candidate_job(program, limits, peer_candidate)
        # The same limits for both sides: workers serve as either, and changing a worker's limits takes time.
        of_both = job.limits if job else limits
        tests = start(Job(mode="tests", limits=of_both, channels=(control_inside, peer_tests), address_space=False))
        runs.append(tests)
        candidate: Run | None = None
        if job is None:
            peer_candidate.close()
        else:
            candidate = start(job)
            runs.append(candidate)
        message = {name: getattr(suite, name) for name in _SENT}
        message["announce"] = _takes_time(suite)
        message["candidate"] = program.source if suite.kind == "shared" else ""
        message["prelude"] = program.prelude != "none"
        try:
            report = _await_verdict(control, message, runs, limits)
        except frames.FrameError as error:  # the output for a checker
            return TestVerdict(False, "candidate", RunStatus.OUTPUT, f"the output is too large to be checked: {error}")
        # The test side ends now, which closes the candidate's channel and ends it too: cheaper than killing both.
        for run in runs:
            run.deadline, run.timeout_reason = time.monotonic() + _TO_END_S, (RunStatus.OK, "")
        if report is None:  # only its exit status can explain why
            tests.deadline = time.monotonic() + _TO_DIE_S
            tests.timeout_reason = (RunStatus.RUNTIME, "its channel ended before it did")
            poll_runs([tests])
        else:
            poll_runs(runs)
    finally:
        for run in runs:
            run.kill(RunStatus.OK, "")
        poll_runs(runs)
        for sock in sockets:
            sock.close()
    return _verdict(report, tests, candidate, limits, is_shared=suite.kind == "shared")


def _await_verdict(control: Channel, suite: dict[str, Any], runs: list[Run], limits: Limits) -> dict[str, Any] | None:
    """Send the suite and wait for the report. If loading takes time, the runs' clock starts when the test side is ready."""
    for run in runs:
        run.deadline = time.monotonic() + limits.wall_s + (_SETUP_S if suite["announce"] else 0.0)
    control.send(suite, runs)
    tests = runs[0]
    # A quick test is over before its verdict is polled: one event to wait for instead of two.
    not_before = 0.0 if suite["announce"] else time.monotonic() + QUIET_S
    message = control.receive(runs, lambda: tests.done, not_before=not_before)
    if message is not None and message.get("stage") == "ready":
        for run in runs:
            run.deadline = time.monotonic() + limits.wall_s
        message = control.receive(runs, lambda: tests.done)
    return message


def _takes_time(suite: TestSuite) -> bool:
    """Return whether the test side may need noticeable time to load before the test can begin."""
    text = suite.code + suite.setup
    return suite.kind != "assert" or len(text) > _QUICKLY_COMPILED or "import" in text


def _verdict(
    report: Mapping[str, Any] | None, tests: Run, candidate: Run | None, limits: Limits, *, is_shared: bool
) -> TestVerdict:
    tested = tests.outcome()
    # In a shared process, the program may have killed it.
    if not is_shared and report is None and tested.signal == signal.SIGKILL and tested.status is RunStatus.RUNTIME:
        raise _Killed("the process of the tests was killed, and not for what it used")
    ended = candidate.outcome() if candidate is not None else None
    for result in (ended, tested):
        if result is not None and result.status in _LIMITS:
            return TestVerdict(False, "candidate", result.status, result.message)
    if report is None:
        return TestVerdict(False, "candidate", RunStatus.RUNTIME, f"the tests did not end: {tested.message or 'no verdict'}")
    stage, passed = report.get("stage"), report.get("passed") is True
    detail, number = str(report.get("detail", "")), report.get("tests")
    count = number if isinstance(number, int) else 0
    if stage in _OF_THE_TEST:
        return TestVerdict(False, "test", RunStatus.RUNTIME, f"{stage}: {detail}", count)
    if stage == "done" and passed:
        return TestVerdict(True, None, RunStatus.OK, detail, count)
    if ended is not None and stage == "candidate" and ended.status not in (RunStatus.OK,):
        return TestVerdict(False, "candidate", ended.status, detail or ended.message, count)
    if detail.startswith("MemoryError"):
        return TestVerdict(False, "candidate", RunStatus.MEMORY, f"the memory limit of {limits.memory_mb} MiB", count)
    status = RunStatus.WRONG if stage == "done" else RunStatus.PROTOCOL
    return TestVerdict(False, "candidate", status, detail, count)
