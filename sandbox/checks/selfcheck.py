"""`sandbox self-check`: runs the panel of attacks against an open sandbox on this machine."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from verigym.sandbox.box import Sandbox
from verigym.sandbox.checks.panel import PROBES, Probe
from verigym.sandbox.session import Answer
from verigym.sandbox.spec import Limits, Program, RunStatus, SandboxFailure
from verigym.sandbox.testing import TestSuite

LIMITS = Limits(wall_s=1.0, cpu_s=1.0, memory_mb=256, processes=32, output_kb=512, files_mb=16, inodes=512)
# For probes that end by themselves or by another limit: the wall clock must not end them on a busy machine.
_PATIENT_LIMITS = replace(LIMITS, wall_s=20.0, cpu_s=5.0)
_LATE_S = 5.0
"""Tolerance beyond a probe's time limit, for busy machines; a run that nothing stops exceeds any tolerance."""
_DOUBLES = ((3, 6), (-4, -8), (10, 20))
_ASSERTS = "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(-4) == -8\n"
_UNITTEST = """import unittest
class TestF(unittest.TestCase):
    def test_f(self):
        self.assertEqual(f(3), 6)
        self.assertEqual(f(-4), -8)
"""
_NEXT = Probe("the next program", "print(2 * int(input()))\n", "accepted")


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of one probe."""

    name: str
    group: str
    expected: str
    got: str
    """The observed result: accepted, rejected, no leak, leak, the status of the run, infra (the sandbox failed), or missing
    (the language is not installed)."""
    passed: bool
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all probes of a self-check."""

    results: tuple[ProbeResult, ...]

    @property
    def passed(self) -> bool:
        """Whether every probe had its expected result."""
        return all(result.passed for result in self.results)


def self_check(
    box: Sandbox, *, probes: Sequence[Probe] = PROBES, parallel: int = 2, progress: Callable[[int, int], None] | None = None
) -> Report:
    """Run the probe programs against the sandbox `box` and return a report; takes about half a minute.

    Args:
        box: an open sandbox of any back end.
        probes: the probes to run; by default all.
        parallel: number of concurrent probes. It must not exceed the number of workers: probes that wait for a worker exceed
            their time.
        progress: called with the number of finished probes and the total.

    Raises:
        SandboxFailure: the back end cannot work on this machine at all.
    """
    box.check()

    results = []
    with _bait() as bait, ThreadPoolExecutor(parallel, thread_name_prefix="self-check") as pool:
        for result in pool.map(lambda probe: _result(box, probe, bait), probes):
            results.append(result)
            if progress is not None:
                progress(len(results), len(probes))
    return Report(tuple(results))


@contextlib.contextmanager
def _bait() -> Iterator[tuple[str, ...]]:
    """Listen on a port and write a world-readable file on the host. Yields the port, the path, and verigym's own folder."""
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.NamedTemporaryFile("w", prefix="verigym-canary-") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write("canary")
        file.flush()
        yield str(server.getsockname()[1]), file.name, str(Path(__file__).resolve().parents[2])


def _result(box: Sandbox, probe: Probe, bait: tuple[str, ...]) -> ProbeResult:
    start = time.monotonic()
    seconds = 0.0
    try:
        got, detail = _try(box, probe, bait)
        seconds = time.monotonic() - start
        after, _ = _try(box, _NEXT, bait)
        if after != "accepted":
            got, detail = "infra", f"the next program was {after}"
    except SandboxFailure as error:
        got, detail = ("infra", error.message) if error.retryable or probe.language == "python" else ("missing", error.message)
    limit = _limits(probe).wall_s * (2 if probe.expected == "no leak" else 1)
    if seconds > limit + _LATE_S:
        got, detail = "late", f"took {seconds:.1f} s under a limit of {limit:g} s"
    passed = got in _fitting(probe)
    return ProbeResult(
        probe.name, probe.group, probe.expected, got, passed, "" if passed and got != "missing" else detail, seconds
    )


def _limits(probe: Probe) -> Limits:
    """Return the limits of a probe: generous unless it tests the time limit."""
    return LIMITS if probe.expected in ("time", "rejected") else _PATIENT_LIMITS


def _fitting(probe: Probe) -> tuple[str, ...]:
    if probe.expected == "rejected":
        return ("rejected", "time", "memory", "output", "runtime", "protocol")
    return (probe.expected, "missing") if probe.language != "python" else (probe.expected,)


def _try(box: Sandbox, probe: Probe, bait: tuple[str, ...]) -> tuple[str, str]:
    """Run a probe. Returns its result and a detail."""
    limits = _limits(probe)
    program = Program(source=probe.source, language=probe.language, args=bait if probe.expected == "no leak" else ())
    if probe.expected == "no leak":
        return _escape(box, program, limits)
    if probe.form == "call":
        return _calls(box, program, limits)
    if probe.form in ("assert", "unittest"):
        suite = (
            TestSuite(kind="assert", code=_ASSERTS, entry_point="f")
            if probe.form == "assert"
            else TestSuite(kind="unittest", code=_UNITTEST)
        )
        verdict = box.test(program, suite, limits)
        return ("accepted" if verdict.passed else _status(verdict.status)), verdict.detail
    return _prints(box, program, limits, to_file=probe.form == "file")


def _prints(box: Sandbox, program: Program, limits: Limits, *, to_file: bool) -> tuple[str, str]:
    for given, wanted in _DOUBLES:
        result = box.run(program, b"%d\n" % given, limits, ("output.txt",) if to_file else ())
        if not result.ok:
            return _status(result.status), result.message
        out = result.files.get("output.txt", b"") if to_file else result.stdout
        if out.strip() != b"%d" % wanted:
            return "rejected", f"wrote {out[:80]!r}"
    return "accepted", ""


def _calls(box: Sandbox, program: Program, limits: Limits) -> tuple[str, str]:
    with box.session(program, limits) as session:
        for given, wanted in _DOUBLES:
            answer = session.call("f", [given], {})
            if not isinstance(answer, Answer):
                result = getattr(answer, "result", None)
                return (_status(result.status) if result is not None else "rejected"), str(answer)[:200]
            if type(answer.value) is not int or answer.value != wanted:
                return "rejected", f"answered {str(answer.value)[:80]}"
    return "accepted", ""


def _escape(box: Sandbox, program: Program, limits: Limits) -> tuple[str, str]:
    for _ in range(2):  # the second run finds what the first has left
        result = box.run(program, b"", limits)
        leaks = [line for line in result.stdout.decode("utf-8", "replace").splitlines() if "LEAK" in line]
        if leaks:
            return "leak", "; ".join(leaks)[:300]
        if not result.ok:
            return _status(result.status), f"{result.message} {result.stderr[-200:].decode('utf-8', 'replace')}"
    return "no leak", ""


def _status(status: RunStatus) -> str:
    return "rejected" if status in (RunStatus.OK, RunStatus.WRONG) else status.value
