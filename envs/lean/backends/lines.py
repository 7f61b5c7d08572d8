"""Client of an untrusted program in the sandbox. The program answers with JSON documents, each ended by a blank line."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from typing import Any

from verigym.sandbox import Sandbox
from verigym.sandbox.event_loop import Run, destroy_on_error, poll_runs
from verigym.sandbox.job import Job
from verigym.sandbox.spec import RunStatus

_CHUNK = 1 << 16
_END = b"\n\n"
# Standard input and output become the channel; standard error stays a pipe that is drained and capped.
_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@" <&3 >&3 3<&-')


class LineClientError(Exception):
    """The program gave no valid answer and was ended. The message says what the program did."""


class LineClient:
    """A running program that answers with JSON documents, each ended by a blank line.

    It runs in the sandbox, and only one thread may use it.

    Args:
        box: sandbox that starts the program. The program takes no slot of it, so the caller must limit the number of programs.
        job: the program to start, in mode exec.
        reply_bytes: maximum size of a reply.

    Raises:
        SandboxFailure: the program could not be started.
    """

    def __init__(self, box: Sandbox, job: Job, reply_bytes: int) -> None:
        self._sock, program_end = socket.socketpair()
        self._sock.setblocking(False)
        self._buffer = bytearray()
        self._most = reply_bytes
        self._over = False
        try:
            self._run: Run = box.start(_on_channel(job, program_end))
        except BaseException:
            self._sock.close()
            program_end.close()
            raise

    def ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send `request` and return the reply, a JSON object.

        Args:
            request: the JSON object to send.
            timeout_s: seconds until the whole reply must have arrived.

        Raises:
            LineClientError: the program was too slow, wrote too much or no JSON object, or ended.
        """
        if not self._run.done:
            self._read()  # what has come since the last reply
        if self._buffer or self._run.done:
            raise self._end("it spoke unasked, or has ended")
        self._run.deadline = time.monotonic() + timeout_s
        with destroy_on_error(self._run):
            self._send(json.dumps(request).encode() + _END)
            poll_runs([self._run], watch={self._sock.fileno(): self._read}, until=self._settled)
        if self._over:
            raise self._end(f"more than {self._most} bytes in one reply")
        reply, end, rest = bytes(self._buffer.lstrip(b"\n")).partition(_END)
        if not end:
            raise self._end("it ended, or closed its output, before the reply was whole")
        # What follows a whole reply is not for the next request: the one that wrote it might be forging that.
        self._buffer = bytearray(rest.lstrip(b"\n"))
        try:
            answer = json.loads(reply)
        except (ValueError, RecursionError):
            raise self._end("the reply is no JSON") from None
        if not isinstance(answer, dict) or self._buffer:
            raise self._end("the reply is no JSON object, or not the only one")
        return answer

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)

        def more() -> None:
            nonlocal rest
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                pass
            except OSError:
                rest = rest[len(rest) :]

        fd = self._sock.fileno()
        poll_runs([self._run], watch={fd: self._read}, write={fd: more}, until=lambda: not rest or self._over)

    def _settled(self) -> bool:
        return self._over or self._ended or _END in self._buffer.lstrip(b"\n")

    _ended = False

    def _read(self) -> None:
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._ended = not data
        self._buffer += data
        self._over = len(self._buffer) > self._most

    def _end(self, why: str) -> LineClientError:
        self.close()
        result = self._run.result
        detail = f" ({result.status}: {result.message})" if result is not None and result.message else ""
        return LineClientError(f"{why}{detail}")

    @property
    def resident_mb(self) -> float:
        """Return the memory in MiB that the program's processes hold now, or 0 if it cannot be measured."""
        measure = getattr(self._run, "resident_mb", None)
        return float(measure()) if measure is not None and not self._run.done else 0.0

    @property
    def alive(self) -> bool:
        """Whether it can take another request."""
        return not self._run.done and not self._ended

    def close(self) -> None:
        """End it and all that it has started. Idempotent."""
        if not self._run.done:
            self._run.kill(RunStatus.OK, "")
            poll_runs([self._run])
        self._sock.close()


def _on_channel(job: Job, program_end: socket.socket) -> Job:
    argv: Sequence[str] = (*_SHELL, *job.argv)
    fields = {name: getattr(job, name) for name in job.__dataclass_fields__}
    return Job(**{**fields, "argv": tuple(argv), "channels": (program_end,)})
