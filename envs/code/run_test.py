"""Runs one test: runs the program and compares its output, or starts a test process that reports the result.

The program gets only the inputs. The expected results stay in this process, or go to a test process that is separate from the
program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from verigym.envs.code import compare, show
from verigym.envs.code.outcome import PASSED, Outcome, broken_test, ended, stopped, wrong
from verigym.envs.code.reference import (
    AssertTest,
    CallTest,
    CheckerTest,
    CodeReference,
    FileTest,
    PytestTest,
    StdioTest,
    Test,
    UnittestTest,
)
from verigym.sandbox import Limits, Program, RunResult, RunStatus, Sandbox, TestSuite, TestVerdict

CodeTest = AssertTest | UnittestTest | PytestTest


@dataclass(frozen=True)
class Bench:
    """What a test needs to run: the sandbox, the built program, the reference and its limits."""

    box: Sandbox
    program: Program
    reference: CodeReference
    limits: Limits

    @classmethod
    def of(cls, box: Sandbox, program: Program, reference: CodeReference) -> Bench:
        """Set up the bench under the reference's limits."""
        return cls(box, program, reference, reference.limits.for_sandbox())

    def run(self, stdin: str, collect: tuple[str, ...] = ()) -> RunResult:
        """Run the program once."""
        return self.box.run(self.program, compare.as_bytes(stdin), self.limits, collect)


def run_one(bench: Bench, number: int, test: Test) -> Outcome:
    """Run `test` and return its outcome.

    Args:
        bench: the sandbox, the built program and the reference.
        number: number of the test, counted from 1, for messages.
        test: the test; call tests are run by `calls.run_calls` instead.

    Raises:
        SandboxFailure: the sandbox failed.
    """
    if isinstance(test, StdioTest):
        result = bench.run(test.stdin)
        return compare.printed(test.stdout, result.stdout, bench.reference.policy) if result.ok else _ended(bench, result)
    if isinstance(test, FileTest):
        return _file(bench, test)
    if isinstance(test, CheckerTest):
        return _checker(bench, number, test)
    if isinstance(test, CallTest):
        raise TypeError("call tests share a session; see calls.py")
    return _code(bench, number, test)


def _ended(bench: Bench, result: RunResult) -> Outcome:
    return ended(result, bench.reference.limits)


def _file(bench: Bench, test: FileTest) -> Outcome:
    path = str(PurePosixPath(test.path))
    result = bench.run(test.stdin, (path,))
    if not result.ok:
        return _ended(bench, result)
    content = result.files.get(path)
    if content is None:
        return wrong(f"wrote no regular file {show.quoted(test.path)}")
    return compare.printed(test.content, content, bench.reference.policy)


def _checker(bench: Bench, number: int, test: CheckerTest) -> Outcome:
    result = bench.run(test.stdin)
    if not result.ok:
        return _ended(bench, result)
    stdout = result.stdout.decode("utf-8", "surrogateescape")
    suite = TestSuite(kind="checker", code=test.code, setup=bench.reference.setup, stdin=test.stdin, stdout=stdout)
    verdict = bench.box.test(bench.program, suite, bench.limits)
    if verdict.passed:
        return PASSED
    if verdict.fault == "test":
        return broken_test(number, verdict.detail)
    if verdict.status in (RunStatus.WRONG, RunStatus.OK, RunStatus.RUNTIME):
        return wrong(f"the checker refuses {show.quoted(result.stdout)}: {show.line(verdict.detail)}".removesuffix(": "))
    # The output made the checker slow or large: the program wrote it.
    said = stopped(verdict.status, bench.reference.limits, verdict.detail)
    return Outcome(False, said.status, f"{said.reason} in the checker, on {show.quoted(result.stdout)}")


def _code(bench: Bench, number: int, test: CodeTest) -> Outcome:
    suite = _suite(bench.reference, test)
    verdict = bench.box.test(bench.program, suite, bench.limits)
    if verdict.passed:
        return PASSED
    if verdict.fault == "test" and not _solution_passes(bench, suite):
        return broken_test(number, verdict.detail)
    return _failed(bench, verdict)


def _failed(bench: Bench, verdict: TestVerdict) -> Outcome:
    if verdict.status in (RunStatus.OK, RunStatus.WRONG):
        return wrong(show.line(verdict.detail) or "wrong")
    return stopped(verdict.status, bench.reference.limits, verdict.detail)


def _suite(reference: CodeReference, test: CodeTest) -> TestSuite:
    shared = reference.policy.trust == "shared"
    return TestSuite(
        kind="shared" if shared else test.type,
        form=test.type,
        code=test.code,
        setup=reference.setup,
        entry_point=test.entry_point if isinstance(test, AssertTest) else None,
        module=test.module if isinstance(test, PytestTest) else "solution",
    )


def _solution_passes(bench: Bench, suite: TestSuite) -> bool:
    """Return whether the known solution passes a test that called itself broken: then the program broke it."""
    solution = bench.reference.solution
    if solution is None or solution == bench.program.source:
        return False
    return bench.box.test(replace(bench.program, source=solution), suite, bench.limits).passed
