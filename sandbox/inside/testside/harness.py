"""Entry point of the test side: runs test code against a candidate in another process and reports the verdict.

The verdict goes to the control channel after the test code has ended. The candidate's process cannot reach that channel.
"""

from __future__ import annotations

import builtins
import os
import sys

from verigym.sandbox.inside import program
from verigym.sandbox.inside.testside.in_process import InProcessCandidate
from verigym.sandbox.inside.testside.namespace import TestNamespace, locate_error
from verigym.sandbox.inside.testside.peer import Peer, TestStopped
from verigym.sandbox.inside.testside.proxies import Proxies
from verigym.sandbox.inside.testside.runners import RUNNERS, TestFault, TestOutcome, compile_test, run_checker
from verigym.sandbox.inside.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

DETAIL_CHARS = 2000


def serve_tests(control_fd: int = 3, peer_fd: int = 4) -> NoReturn:
    """Receive a test, run it against the candidate, send the verdict, and end the process.

    Args:
        control_fd: descriptor of the channel to the supervisor.
        peer_fd: descriptor of the channel to the candidate.
    """
    try:
        job = frames.receive(control_fd)
        program.begin()
        sys.argv = ["test"]
        sys.path.insert(0, os.getcwd())
        verdict = run(job, peer_fd, lambda: frames.send(control_fd, {"stage": "ready"}))
        verdict["detail"] = verdict["detail"][:DETAIL_CHARS]
        frames.send(control_fd, verdict)
        program.flush()
    except BaseException as error:
        os.write(2, f"the test side failed: {type(error).__name__}: {error}"[:DETAIL_CHARS].encode("utf-8", "replace"))
        os._exit(1)
    finally:
        os._exit(0)


def run(job: dict[str, Any], peer_fd: int, ready: Callable[[], None]) -> dict[str, Any]:
    """Run the test `job` against the candidate on `peer_fd` and return the verdict.

    `ready` is called when everything is loaded and only the test remains.
    """
    try:
        code = compile_test(job)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _verdict("compile", detail=f"{type(error).__name__}: {error}")
    shared = job["kind"] == "shared"
    missing = _missing_framework(job.get("form", "assert") if shared else job["kind"])
    if missing:
        return _verdict("setup", detail=missing)
    if job.get("announce", True):
        ready()
    if job["kind"] == "checker":
        return _checked(job, code)
    peer = Peer(peer_fd)
    source: InProcessCandidate | Proxies = InProcessCandidate(job) if shared else Proxies(peer, job)
    world = TestNamespace(job, source)
    peer.is_the_tests = world.is_the_tests
    if isinstance(source, Proxies):
        source.of_the_test = world.name
    try:
        ended = _run(job, code, world, peer, shared)
    except TestFault as fault:
        ended = TestOutcome(False, str(fault), stage="setup")
    except TestStopped as stopped:
        ended = TestOutcome(False, str(stopped))
    except BaseException as error:
        ended = TestOutcome(False, locate_error(error, world))
    if peer.lost:
        return _verdict("candidate", detail=peer.lost, tests=ended.tests)
    if peer.unsupported:
        return _verdict("argument", detail=peer.unsupported, tests=ended.tests)
    if ended.stage == "done" and not peer.touched and not shared:
        message = f"the test ended without asking anything of the candidate. {ended.detail}"
        # Without a name under test this holds for every candidate; otherwise this candidate's definition of the name caused it.
        return _verdict("done" if world.under_test else "setup", detail=message, tests=ended.tests)
    return _verdict(ended.stage, ended.passed, ended.detail, ended.tests)


def _missing_framework(name: str) -> str:
    """Load the framework that the test needs; returns advice if it is not installed, else an empty string."""
    if name == "pytest":
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if name in ("unittest", "pytest"):
        try:
            __import__(name)
        except ImportError:
            return f"{name} is not there: install the package `{name}` for the sandbox's Python"
    return ""


def _run(job: dict[str, Any], code: Any, world: TestNamespace, peer: Peer, shared: bool) -> TestOutcome:
    form = job.get("form", "assert") if shared else job["kind"]
    try:
        if shared:
            world.source.names()  # loads the candidate, for a setup that imports from it
    except BaseException as error:
        return _unloaded(error)
    try:
        if form != "pytest":
            world.set_up()
    except Exception as error:
        if peer.touched or world.missed or shared:
            return TestOutcome(False, f"in setup: {locate_error(error, world)}")
        raise TestFault(f"the setup fails: {locate_error(error, world)}") from None
    touched = peer.touched
    try:
        names = world.source.names()
    except TestStopped:
        raise
    except BaseException as error:
        return _unloaded(error)
    # Names under test that would otherwise mean something else here are bound to the candidate's before the test begins.
    for name in sorted(world.under_test):
        meant_otherwise = name == job.get("entry_point") or hasattr(builtins, name)
        if meant_otherwise and name not in names:
            return TestOutcome(False, f"the program does not define {name}", stage="candidate")
        if meant_otherwise:
            world.namespace[name] = value = world.source.find(name)
            if isinstance(value, type) and issubclass(value, BaseException):  # a local class: no request would be sent
                return TestOutcome(False, f"{name} of the program is an exception", stage="candidate")
    peer.touched = touched  # only requests of the test itself count
    return RUNNERS[form](job, code, world)


def _unloaded(error: BaseException) -> TestOutcome:
    return TestOutcome(False, f"the program does not load: {type(error).__name__}: {error}", stage="candidate")


def _checked(job: dict[str, Any], code: Any) -> dict[str, Any]:
    try:
        ended = run_checker(job, code, TestNamespace(job, None))
    except TestFault as fault:
        return _verdict("setup", detail=str(fault))
    return _verdict("done", ended.passed, ended.detail, 1)


def _verdict(stage: str, passed: bool = False, detail: str = "", tests: int = 0) -> dict[str, Any]:
    return {"stage": stage, "passed": passed, "detail": detail, "tests": tests}
