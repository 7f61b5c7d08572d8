"""Runs a grader in a separate process with limits. A process that takes too long is killed; a lost process is started anew."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

from verigym.bench.cases import Case
from verigym.bench.isolated_worker import LENGTH, MATH_VERIFY, MAX_FRAME, MAX_REPLY
from verigym.bench.verdicts import KINDS, Verdict
from verigym.envs import UsageError
from verigym.envs.extras import install

START_S = 120.0


class _TooLate(Exception):
    """No answer within the time limit."""


class _LostProcess(Exception):
    """The process has ended or talks nonsense."""


class IsolatedGrader:
    """Grader of a benchmark that runs Math-Verify, or a callable, in a process of its own.

    That process measures the time of the grading alone; sending texts to it and back does not count.

    Args:
        target: `math-verify` or `module:function`.
        timeout_s: wall time in seconds for one case.
        memory_mb: limit on the address space of the process.
    """

    def __init__(self, target: str, *, timeout_s: float = 30.0, memory_mb: int = 4096) -> None:
        self.name = target
        self._target = target
        self._timeout_s = timeout_s
        self._memory_mb = memory_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._requests = 0

    def start(self) -> None:
        """Start the process and wait until its grader is loaded.

        Raises:
            UsageError: the grader cannot be loaded.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "verigym.bench.isolated_worker", self._target, str(self._memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Nothing of our environment, which may hold keys; a callable may live in the folder we are in.
            env={"PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, sys.path))},
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)
        try:
            hello = self._receive(time.monotonic() + START_S)
        except (_TooLate, _LostProcess) as error:
            self.close()
            raise UsageError(f"--against {self._target!r}: its process did not start: {error}") from None
        except BaseException:
            self.close()
            raise
        if "ready" not in hello:
            self.close()
            hint = f"; {install('math_verify')}" if self._target == MATH_VERIFY else ""
            raise UsageError(f"--against {self._target!r} cannot be loaded: {str(hello.get('failed'))[:300]}{hint}")
        self.name = str(hello["ready"])[:80]

    def grade(self, case: Case) -> Verdict:
        """Return the verdict on `case`: `limit` if the process was killed for taking too long, `error` if it died."""
        if self._process is None or self._process.poll() is not None:
            try:
                self.start()
            except UsageError as error:
                return Verdict("error", f"its process cannot be started again: {error}", 0.0)
        self._requests += 1
        texts = {"golds": case.golds, "answer": case.answer, "completion": case.completion}
        data = json.dumps({"number": self._requests, **texts}).encode()
        if len(data) > MAX_FRAME:
            return Verdict("limit", f"longer than {MAX_FRAME >> 20} MiB", 0.0)
        start = time.perf_counter()
        deadline = time.monotonic() + self._timeout_s
        try:
            self._send(data, deadline)
            reply = self._receive(deadline)
        except _TooLate:
            self.close()
            return Verdict("limit", f"killed after {self._timeout_s:g} s", time.perf_counter() - start)
        except _LostProcess as lost:
            self.close()
            return Verdict("error", f"its process is lost: {lost}", time.perf_counter() - start)
        except BaseException:
            self.close()  # interrupted between request and reply, so the next reply would be stale
            raise
        waited = time.perf_counter() - start
        verdict = _checked(reply, self._requests, waited)
        if verdict is None:
            self.close()  # a process that was taken over may send more
            return Verdict("error", "its reply is not what was agreed", waited)
        return verdict

    def close(self) -> None:
        """End the process and its child processes."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.wait()

    def _send(self, data: bytes, deadline: float) -> None:
        assert self._process and self._process.stdin
        fd = self._process.stdin.fileno()
        left = memoryview(LENGTH.pack(len(data)) + data)
        while left:
            self._wait(fd, select.POLLOUT, deadline)
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise _LostProcess(error.strerror or str(error)) from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        (size,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if size > MAX_REPLY:
            raise _LostProcess("its reply is too long")
        try:
            value = json.loads(self._read(size, deadline))
        except (ValueError, RecursionError):
            raise _LostProcess("its reply is no JSON") from None
        if not isinstance(value, dict):
            raise _LostProcess("its reply is not what was agreed")
        return value

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process and self._process.stdout
        fd = self._process.stdout.fileno()
        data = b""
        while len(data) < size:
            self._wait(fd, select.POLLIN, deadline)
            try:
                chunk = os.read(fd, size - len(data))
            except BlockingIOError:
                continue
            if not chunk:
                raise _LostProcess(f"it has ended{self._how()}")
            data += chunk
        return data

    def _how(self) -> str:
        assert self._process
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(1)
            return f" by signal {-code}" if code < 0 else f" with exit code {code}"
        return ""

    @staticmethod
    def _wait(fd: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise _TooLate("no answer in time")


def _checked(reply: dict[str, Any], number: int, waited: float) -> Verdict | None:
    """Return the reply as a verdict, None where it does not fit: the process reads untrusted text, so its word is checked."""
    kind, reason, seconds = reply.get("kind"), reply.get("reason"), reply.get("seconds")
    if reply.get("number") != number or not isinstance(reason, str) or not isinstance(seconds, float):
        return None
    if not (math.isfinite(seconds) and 0 <= seconds <= waited):
        return None
    return next((Verdict(known, reason, seconds) for known in KINDS if kind == known), None)
