"""Runs the forms of tests: plain assertions, unittest, pytest, and checkers of output."""

from __future__ import annotations

import ast
import contextlib
import os
import sys

from verigym.sandbox.inside.candidate import prelude_names
from verigym.sandbox.inside.testside import usage
from verigym.sandbox.inside.testside.namespace import TEST, TestNamespace, locate_error
from verigym.sandbox.inside.testside.peer import CandidateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any


class TestFault(Exception):
    """The test itself is wrong, regardless of the candidate."""


class TestOutcome:
    """The result of running a test: whether it passed, and details."""

    __slots__ = ("detail", "passed", "stage", "tests")

    def __init__(self, passed: bool, detail: str = "", tests: int = 0, stage: str = "done") -> None:
        self.passed = passed
        self.detail = detail
        self.tests = tests
        self.stage = stage


def compile_test(job: dict[str, Any]) -> CodeType:
    """Compile the setup and the test of `job`, and return the code of the test.

    Raises:
        SyntaxError: the test is not valid Python. Other errors of the compiler propagate too.
    """
    if job.get("setup"):
        compile(job["setup"], "<setup>", "exec", dont_inherit=True)
    return compile(job["code"], TEST, "exec", dont_inherit=True)


def run_assert(job: dict[str, Any], code: CodeType, world: TestNamespace) -> TestOutcome:
    """Run the assertions of `code` from top to bottom.

    If `code` defines a function `check` without calling it, call `check` at the end with the candidate's entry point.

    Args:
        job: the description of the test.
        code: the compiled code of the test.
        world: the module in which the code runs.
    """
    try:
        exec(code, world.namespace)  # noqa: S102
        # Only a function defined as `check` counts: a value of that name may be a callable that the program returned.
        is_defined = "check" in world.bound and any(usage.defines(text, "check") for text in world.texts.values())
        check = world.namespace.get("check") if is_defined else None
        if callable(check) and not _calls(job["code"], "check"):
            if not job.get("entry_point"):
                raise TestFault("the test defines check() and neither calls it nor names an entry_point to call it with")
            check(world.source.find(job["entry_point"]))
    except SystemExit as left:
        return TestOutcome(left.code in (None, 0), f"the test calls exit({left.code!r})", 1)
    except (Exception, CandidateError) as error:
        if isinstance(error, TestFault):
            raise
        return TestOutcome(False, locate_error(error, world), 1)
    return TestOutcome(True, "", 1)


def _calls(code: str, name: str) -> bool:
    """Return whether the code calls a function at top level."""
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                return True
    return False


def run_unittest(job: dict[str, Any], code: CodeType, world: TestNamespace) -> TestOutcome:
    """Run all unittest cases that `code` defines, in order, in the module `world`."""
    import unittest

    try:
        exec(code, world.namespace)  # noqa: S102
    except SystemExit:  # an unguarded `unittest.main()`, which finds no tests in `__main__`
        pass
    except Exception as error:
        return TestOutcome(False, locate_error(error, world))
    cases = [
        value
        for value in world.namespace.values()
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == world.name
    ]
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)
    if not suite.countTestCases():
        return _no_tests("the test defines no test cases", job, world)
    succeeded = 0

    class Result(unittest.TestResult):
        def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
            nonlocal succeeded
            succeeded += 1

    result = Result()
    suite.run(result)
    bad = [(str(case), text) for case, text in (*result.failures, *result.errors)]
    bad += [(str(case), "unexpected success") for case in result.unexpectedSuccesses]
    passed = not bad and result.wasSuccessful() and succeeded > 0
    detail = "; ".join(f"{case}: {text.strip().splitlines()[-1] if text.strip() else 'failed'}" for case, text in bad[:5])
    return TestOutcome(passed, detail or ("" if passed else "no test succeeded"), result.testsRun)


def _no_tests(message: str, job: dict[str, Any], world: TestNamespace) -> TestOutcome:
    """Return the outcome of a test file in which no tests were found.

    Raises:
        TestFault: there are none for any program, because no branch or loop of the text depends on its answers.
    """
    peer = getattr(world.source, "peer", None)
    if (peer is None or peer.touched) and usage.has_branches(job["code"]):
        return TestOutcome(False, message)
    raise TestFault(message)


class Recorder:
    """A pytest plugin that counts passed and failed tests."""

    def __init__(self) -> None:
        self.passed = 0
        self.ran = 0
        self.bad: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count `report`, the result of one phase of a test."""
        if report.when == "call":
            self.ran += 1
            self.passed += report.passed and not hasattr(report, "wasxfail")
        if report.failed:
            self.bad.append(f"{report.nodeid.rpartition('::')[2]}: {_last_line(report)}")

    def pytest_collectreport(self, report: Any) -> None:
        """Record an error in `report`, the result of collecting tests."""
        if report.failed:
            self.bad.append(f"collection: {_last_line(report)}")


def _last_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash is not None else report.longrepr).strip()
    return (text.splitlines() or ["failed"])[0 if crash is not None else -1][:300]


def run_pytest(job: dict[str, Any], code: CodeType, world: TestNamespace) -> TestOutcome:
    """Run `code` in the module `world` as a file of pytest tests."""
    import builtins

    import pytest

    text = "\n\n".join(part for part in (job.get("setup"), job["code"]) if part)
    with open("test_solution.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(text)
    world.texts[os.path.abspath("test_solution.py")] = text
    sys.modules.pop("test_solution", None)
    touched = getattr(world.source, "peer", None) and world.source.peer.touched  # type: ignore[union-attr]
    for name in world.under_test & set(world.source.names()):
        setattr(builtins, name, world.source.find(name))  # pytest imports the test as a separate module
    for name in prelude_names.used(code) & prelude_names.PLACES.keys() - world.under_test - world.bound - vars(builtins).keys():
        with contextlib.suppress(LookupError):
            setattr(builtins, name, prelude_names.find(name))
    if touched is not None:
        world.source.peer.touched = touched  # type: ignore[union-attr]
    plugins = [
        part
        for word, name in (("asyncio", "pytest_asyncio.plugin"), ("mocker", "pytest_mock"))
        if word in job["code"] and _importable(name)
        for part in ("-p", name)
    ]
    sys.dont_write_bytecode = True
    recorder = Recorder()
    options = "-q --noconftest --capture=sys -p no:cacheprovider -p no:faulthandler -c /dev/null --rootdir .".split()
    status = int(pytest.main([*options, *plugins, "test_solution.py"], plugins=[recorder]))
    if status == 5 and not recorder.bad:
        return _no_tests("the test defines no tests", job, world)
    passed = status == 0 and not recorder.bad and recorder.passed > 0
    detail = "; ".join(recorder.bad[:5]) or ("" if passed else f"no test passed (pytest's status {status})")
    return TestOutcome(passed, detail, recorder.ran)


def _importable(name: str) -> bool:
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def run_checker(job: dict[str, Any], code: CodeType, world: TestNamespace) -> TestOutcome:
    """Run the function `check(stdin, stdout)`, which `code` defines in the module `world`, on the candidate's output.

    Raises:
        TestFault: `code` does not define `check`, is broken regardless of the output, or returns what is no verdict.
    """
    try:
        world.set_up()
        world.execute(code)
        check = world.namespace["check"]
    except BaseException as error:
        raise TestFault(f"the checker fails before it checks: {locate_error(error, world)}") from None
    try:
        answer = check(job.get("stdin") or "", job.get("stdout") or "")
    except BaseException as error:
        if _is_checkers_fault(error, world):
            raise TestFault(f"the checker cannot work: {locate_error(error, world)}") from None
        return TestOutcome(False, locate_error(error, world), 1)
    message = ""
    if type(answer) is tuple and len(answer) == 2:
        answer, message = answer[0], str(answer[1])
    if type(answer).__module__ == "numpy" and getattr(answer, "shape", None) == ():
        answer = answer.item()
    passed = answer is True or (type(answer) is int and answer == 1)
    if not passed and not _is_false(answer):
        raise TestFault(f"check() returned a {type(answer).__name__}; return True or False, or (True or False, a message)")
    if answer is None and not usage.returns_a_value(job["code"], "check"):
        raise TestFault("check() returns nothing; return True or False")
    return TestOutcome(passed, message, 1)


def _is_false(answer: object) -> bool:
    try:
        return not answer
    except Exception:  # an array of several items is neither
        return False


def _is_checkers_fault(error: BaseException, world: TestNamespace) -> bool:
    """Return whether the checker itself is broken: wrong parameters, or missing names and imports that every output reaches."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None and world.is_the_authors(trace.tb_frame.f_code):
        text = world.texts[trace.tb_frame.f_code.co_filename]
        if type(error) is NameError:  # a name that the text binds somewhere may be bound for other outputs
            missing = not any(usage.binds(one, error.name) for one in world.texts.values())
        else:
            missing = type(error) in (ImportError, ModuleNotFoundError) and usage.imports(text, trace.tb_lineno)
        return missing and usage.is_always_reached(text, trace.tb_lineno)
    return type(error) is TypeError and error.__traceback__ is trace


RUNNERS: dict[str, Callable[[dict[str, Any], CodeType, TestNamespace], TestOutcome]] = {
    "assert": run_assert,
    "unittest": run_unittest,
    "pytest": run_pytest,
}
