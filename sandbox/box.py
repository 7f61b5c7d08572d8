"""The `Sandbox` base class: runs, builds, calls and tests programs. Back ends define how a worker is started."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from verigym.sandbox import languages
from verigym.sandbox.arguments import checked
from verigym.sandbox.cores import usable_cores
from verigym.sandbox.event_loop import Run, destroy_on_error, poll_runs
from verigym.sandbox.job import Job
from verigym.sandbox.options import SandboxOptions, parse_options
from verigym.sandbox.pool import Pool
from verigym.sandbox.session import Session
from verigym.sandbox.spec import (
    Limits,
    MaybeLimits,
    Program,
    ProgramOrSource,
    RunResult,
    RunStatus,
    SandboxFailure,
    as_program,
    require_below,
)
from verigym.sandbox.testing import TestSuite, TestVerdict, run_tests

_TRIES = 2
_sandboxes: weakref.WeakSet[Sandbox] = weakref.WeakSet()


def _after_fork() -> None:
    for sandbox in list(_sandboxes):
        sandbox._after_fork()


os.register_at_fork(after_in_child=_after_fork)


class _Slot:
    """A slot for one run, held by the thread that entered it. Another thread may release it, as when it closes a session."""

    def __init__(self, pool: Pool[Any], held: threading.local) -> None:
        self._pool, self._held = pool, held
        self.number = -1
        """-1: not held, or held by an enclosing slot of the same thread."""

    def __enter__(self) -> None:
        if held_slot(self._held) < 0:
            self.number = self._pool.enter()
            self._held.slot = self

    def __exit__(self, *_: object) -> None:
        number, self.number = self.number, -1
        if number >= 0:
            self._pool.leave(number)


def held_slot(held: threading.local) -> int:
    """Return the number of the slot that this thread holds; -1 if it holds none. Slots limit the number of concurrent runs.

    Args:
        held: the thread-local record of the slot.
    """
    slot: _Slot | None = getattr(held, "slot", None)
    return -1 if slot is None else slot.number


def _sent(stdin: str) -> bytes:
    try:
        return stdin.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"Sandbox.run: stdin: character {error.start} is half of a surrogate pair, which UTF-8 has no bytes for; give bytes"
        ) from None


class Sandbox(ABC):
    """Runs untrusted programs. Thread-safe; its workers start when first needed and end with the process.

    Args:
        options: fields of the back end's `options_type`, by name.

    Raises:
        ValueError: an option is unknown or its value invalid.
    """

    name: str
    options_type: type[SandboxOptions]

    def __init__(self, **options: Any) -> None:
        self.options = parse_options(self.options_type, self.name, options)
        self._slots = self.options.workers or usable_cores()
        self._open()
        _sandboxes.add(self)

    def _after_fork(self) -> None:
        """In a forked child: leave the workers to the parent and start with none."""
        self._pool.forget()
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._held = threading.local()
        self._pool: Pool[Any] = Pool(self._make, self._slots)

    @abstractmethod
    def _make(self) -> Any:
        """Start a worker: `start(job, release) -> Run`, `alive`, `closed`, `close()`, `forget()`, `runs`, `core`, `level`."""

    def find_tool(self, language: languages.Language) -> str:
        """Return the path of the compiler or interpreter of `language`, as programs in the sandbox see it.

        Raises:
            SandboxFailure: the tool is not installed; the message says what to install.
        """
        return languages.tool(language)

    def start(self, job: Job) -> Run:
        """Start the run of `job` on an idle or new worker. Used within this package; users call `run` or `test`.

        The caller must hold a slot, that is, the right to one of the concurrent runs (see `slot`).

        Raises:
            SandboxFailure: no worker could be started.
        """
        worker = self._pool.take(self._pool.core(held_slot(self._held)))
        try:
            started: Run = worker.start(job, self._pool.give)
        except BaseException:  # interrupted, perhaps after the run had begun
            worker.close()
            self._pool.give(worker)
            raise
        return started

    def slot(self) -> _Slot:
        """Return a context manager that holds one of the slots for concurrent runs, waiting for a free one.

        A thread that already holds a slot, for instance inside a session, does not wait for another.
        """
        return _Slot(self._pool, self._held)

    @checked
    def run(
        self, program: ProgramOrSource, stdin: bytes | str = b"", limits: MaybeLimits = None, collect: Sequence[str] = ()
    ) -> RunResult:
        """Run `program` with the given standard input and return its result.

        A program in a compiled language is compiled first. To run it many times, `build` it once.

        Args:
            program: the program; a string is the source of a Python program.
            stdin: its complete standard input; a string is sent as UTF-8.
            limits: its resource limits.
            collect: relative paths in the work directory. Those that are regular files no larger than the output limit are
                returned in `RunResult.files`.

        Raises:
            SandboxFailure: the sandbox failed, and failed again when the run was repeated; or a compiler or interpreter is
                missing. Never raised because of what the program does.
            TypeError, ValueError: an argument is wrong.
        """
        program = as_program(program)
        for path in collect:
            require_below(path, f"Sandbox.run: collect: {path!r}")
        stdin = _sent(stdin) if isinstance(stdin, str) else stdin
        limits = limits or Limits()
        language = languages.language(program.language)
        if language.compile is not None and language.binary not in program.files:
            built, result = self.build(program)
            if built is None:
                return result
            program = built
        return self.execute(languages.job(program, stdin, limits, tuple(collect), self.find_tool))

    @checked
    def build(self, program: ProgramOrSource) -> tuple[Program | None, RunResult]:
        """Compile `program` in the sandbox, once for all runs. A program in an interpreted language is returned unchanged.

        The compiler has its own limits, `Language.build_limits`.

        Returns:
            The program with its executable in `files`, or None if it did not compile; and the result of the compiler's run,
            with status COMPILE if the program did not compile.

        Raises:
            SandboxFailure: the sandbox failed, or the compiler is missing; the message says what to install.
        """
        program = as_program(program)
        job = languages.build_job(program, self.find_tool)
        if job is None:
            return program, RunResult(status=RunStatus.OK)
        return languages.built(program, self.execute(job))

    def execute(self, job: Job) -> RunResult:
        """Run `job`, which may be any command available in the sandbox, with its own files and environment.

        Raises:
            SandboxFailure: the sandbox failed, and failed again when the run was repeated; or the command does not exist.
        """
        with self.slot():
            for attempt in range(_TRIES):
                try:
                    with destroy_on_error() as runs:
                        runs.append(self.start(job))
                        poll_runs(runs)
                    return runs[0].outcome()
                except SandboxFailure as error:
                    # A run has no effect outside itself, so one more try on another worker is safe.
                    if not error.retryable or attempt == _TRIES - 1:
                        raise
        raise AssertionError("unreachable")

    @checked
    @contextlib.contextmanager
    def session(self, program: ProgramOrSource, limits: MaybeLimits = None) -> Iterator[Session]:
        """Context manager that loads a Python program so that its functions can be called.

        Example: `with box.session(program) as s: s.call("f", [3])`.

        Raises:
            SandboxFailure: the sandbox failed.
        """
        program = as_program(program)
        with self.slot():
            session = Session(self.start, program, limits or Limits())
            try:
                yield session
            finally:
                session.close()

    @checked
    def test(self, program: ProgramOrSource, suite: TestSuite, limits: MaybeLimits = None) -> TestVerdict:
        """Run the tests of `suite` against a Python program and return the verdict.

        Tests and program run in separate processes, except for a suite of kind `shared`.

        Raises:
            SandboxFailure: the sandbox failed, and failed again when the tests were repeated.
        """
        program = as_program(program)
        with self.slot():
            for attempt in range(_TRIES):
                try:
                    return run_tests(self.start, program, suite, limits or Limits())
                except SandboxFailure as error:
                    if not error.retryable or attempt == _TRIES - 1:
                        raise
        raise AssertionError("unreachable")

    def check(self) -> None:
        """Check that the back end works on this machine, by starting a worker if none is idle.

        Raises:
            SandboxFailure: the back end cannot work on this machine; the message says what to do.
        """
        with self.slot():
            self._pool.give(self._pool.take())

    @property
    def level(self) -> int:
        """The isolation level. 3: own namespaces; 2: seccomp, and a separate uid or Landlock; 1: resource limits only."""
        return int(self.describe()["level"])

    def describe(self) -> dict[str, Any]:
        """Return a dictionary with the isolation level and, for each missing layer of isolation, why it is missing."""
        with self.slot():
            worker = self._pool.take()
            description = dict(worker.ready)
            self._pool.give(worker)
        return description

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return os.getpid() == self._pid and self._pool.closed

    def close(self) -> None:
        """End all workers. The sandbox cannot be used afterwards."""
        if os.getpid() == self._pid:
            self._pool.close()
