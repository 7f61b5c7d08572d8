"""One run in a container. One stream to the container carries the run's input, output and files, and the data of its channels.

A channel is a socket between the supervisor and the program.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from verigym.sandbox.backends.container_stream import StreamGone
from verigym.sandbox.event_loop import Run
from verigym.sandbox.exit_status import run_status
from verigym.sandbox.inside.cell.relay import (
    ACK,
    BODY,
    CHANNEL,
    CHANNEL_CREDIT,
    CREDIT,
    CREDITED,
    DONE,
    FILE,
    KILL,
    ON_CREDIT,
    PAYLOAD,
    RUN,
    SHUT,
    STDERR,
    STDOUT,
)
from verigym.sandbox.job import Job
from verigym.sandbox.spec import RunResult, RunStatus, SandboxFailure

if TYPE_CHECKING:
    from verigym.sandbox.backends.container_worker import ContainerWorker


class _Pump:
    """Our side of one channel: copies bytes between the program, over the stream, and a local socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.credit = CHANNEL_CREDIT
        self.pending = bytearray()
        self.reading = True  # from the socket
        self.shut = False  # the program has closed its end for writing
        sock.setblocking(False)

    @property
    def events(self) -> int:
        return (select.EPOLLIN if self.reading and self.credit > 0 else 0) | (select.EPOLLOUT if self.pending else 0)


class ContainerRun(Run):
    """One run in a container.

    The event loop (`poll_runs`) watches a single descriptor: an epoll object, which covers the stream to the container and the
    sockets of the run's channels.
    """

    def __init__(self, worker: ContainerWorker, job: Job, release: Callable[[ContainerWorker], None]) -> None:
        self._worker = worker
        self._stream = worker.stream
        self._job = job
        self._release = release
        self._reason: tuple[RunStatus, str] | None = None
        self._killed_at: float | None = None
        self._report: dict[str, Any] | None = None
        self._output = {STDOUT: bytearray(), STDERR: bytearray()}
        self._files: dict[int, io.FileIO] = {}  # memory files: a growing buffer would need twice the memory
        self._owed = 0  # credit to give back
        self._pumps = {sock.fileno(): _Pump(sock) for sock in job.channels}
        self._order = list(self._pumps.values())
        self._armed: dict[int, int] = {}
        self._epoll = select.epoll()
        self._started = time.monotonic()
        self.deadline = self._started + job.limits.wall_s
        try:
            self._send_job()
        except StreamGone as error:
            self._gone(str(error))
        else:
            self._arm()

    def _send_job(self) -> None:
        job = self._job
        parts = {"stdin": job.stdin, **{f"file:{path}": content for path, content in job.files.items()}}
        header = job.header([])
        header["parts"] = [(name, len(content)) for name, content in parts.items()]
        header["channels"] = len(job.channels)
        text = json.dumps(header).encode()
        frames = [(RUN, memoryview(ACK.pack(len(text))))]
        for content in (text, *parts.values()):
            view = memoryview(content)
            frames += [(PAYLOAD, view[start : start + BODY]) for start in range(0, len(view), BODY)]
        self._stream.send_all(frames)

    @property
    def killed_at(self) -> float | None:
        """The monotonic time at which the run was killed; None if it was not."""
        return self._killed_at

    def readable(self) -> Sequence[int]:
        """Return the descriptor to watch, in a list."""
        return [self._epoll.fileno()]

    def on_readable(self, fd: int) -> None:
        """Handle the events of all ready descriptors. `fd` is ignored: it is always the epoll object that covers them all."""
        try:
            for ready, _events in self._epoll.poll(0):
                if self.done:
                    return
                if ready == self._stream.fileno():
                    self._stream.flush()
                    self._on_frames()
                else:
                    self._serve(self._pumps[ready])
            if not self.done:
                self._return_credit()
                self._arm()
        except StreamGone as error:
            self._gone(str(error))

    def _arm(self) -> None:
        """Poll each descriptor for what can be done now, and not at all if that is nothing: a hang-up would wake us forever."""
        wanted = {self._stream.fileno(): self._stream.events} | {fd: pump.events for fd, pump in self._pumps.items()}
        for fd, events in wanted.items():
            before = self._armed.get(fd, 0)
            if events == before:
                continue
            if not events:
                self._epoll.unregister(fd)
            elif before:
                self._epoll.modify(fd, events)
            else:
                self._epoll.register(fd, events)
            self._armed[fd] = events

    def _on_frames(self) -> None:
        for kind, body in self._stream.receive():
            if kind in ON_CREDIT:
                self._owed += 1 if kind == CHANNEL else len(body)  # credit for its data is returned when it has been passed on
            if kind in self._output:
                self._keep_output(kind, body)
            elif kind == CHANNEL:
                self._order[body[0]].pending += body[1:]
                self._flush(self._order[body[0]])
            elif kind == SHUT:
                self._order[body[0]].shut = True
                self._flush(self._order[body[0]])
            elif kind == CREDITED:
                self._order[body[0]].credit += ACK.unpack_from(body, 1)[0]
            elif kind == FILE:
                self._keep_file(body[0], body[1:])
            elif kind == DONE:
                self._report = json.loads(bytes(body))
                self._conclude()
                return

    def _keep_output(self, kind: int, body: memoryview) -> None:
        buffer = self._output[kind]
        room = self._job.limits.output_bytes - len(buffer)
        buffer += body[: max(0, room)]
        if len(body) > room:
            self.kill(RunStatus.OUTPUT, f"the output limit of {self._job.limits.output_kb} KiB")

    def _keep_file(self, index: int, data: memoryview) -> None:
        if index not in self._files:
            self._files[index] = io.FileIO(os.memfd_create("collected", os.MFD_CLOEXEC), "r+")
        self._files[index].write(data)

    def _file(self, index: int) -> bytes:
        file = self._files.get(index)
        if file is None:
            return b""
        file.seek(0)
        return file.read()

    def _return_credit(self) -> None:
        # In large pieces: the cell only stops when its whole credit is used up.
        if self._owed >= CREDIT // 4:
            self._stream.send(CREDITED, ACK.pack(self._owed))
            self._owed = 0

    def _serve(self, pump: _Pump) -> None:
        self._flush(pump)
        if not pump.reading or pump.credit <= 0:
            return
        try:
            data = pump.sock.recv(min(pump.credit, BODY - 1))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        index = bytes([self._order.index(pump)])
        pump.credit -= len(data)
        pump.reading = bool(data)
        self._stream.send(CHANNEL if data else SHUT, index + data)

    def _flush(self, pump: _Pump) -> None:
        if pump.pending:
            sent = len(pump.pending)
            if self._killed_at is None:  # after a kill nobody reads it, and the cell may need the credit
                try:
                    sent = pump.sock.send(pump.pending)
                except BlockingIOError:
                    sent = 0
                except OSError:  # the reader is gone
                    pass
            del pump.pending[:sent]
            self._owed += sent
        if pump.shut and not pump.pending:
            with contextlib.suppress(OSError):
                pump.sock.shutdown(socket.SHUT_WR)
        if self._report is not None:
            self._conclude()

    def kill(self, status: RunStatus, message: str) -> None:
        """Ask the container to kill the run, which then ends with `status` and `message`."""
        if self._killed_at is not None or self.done:
            return
        self._reason = (status, message)
        self._killed_at = time.monotonic()
        for pump in self._order:
            self._flush(pump)
        if self.done:
            return
        with contextlib.suppress(StreamGone):  # noticed when it is read
            self._stream.send(KILL)
            self._return_credit()
            self._arm()

    def halt(self) -> None:
        """Do nothing. Other back ends stop an idle run so that it uses no CPU; a container has its own CPUs (option `cpus`)."""

    def resume(self) -> None:
        """Do nothing, since `halt` stops nothing."""

    def destroy(self) -> None:
        """Remove the container. If the run was killed before, its result gives the reason of that kill, not the removal."""
        self._worker.discard()
        self._finish(*(self._reason or (RunStatus.TIME, "the wall time limit")), {})

    def _gone(self, detail: str) -> None:
        if self._reason is not None:
            self.destroy()
            return
        out_of_memory, why = self._worker.exit_reason(detail)
        self._worker.discard()
        if out_of_memory:
            self._finish(RunStatus.MEMORY, f"the memory limit of {self._job.limits.memory_mb} MiB", {})
        else:
            self._fail(why)

    def _conclude(self) -> None:
        """End the run once everything it wrote to its channels has been passed on."""
        report = self._report
        if report is None or self.done or any(pump.pending for pump in self._order):
            return
        if not report.get("clean"):
            self._worker.discard()
        if "broken" in report:
            broken = RunStatus.RUNTIME, f"it damaged the container that it ran in ({report['broken']})"
            self._finish(*(self._reason or broken), {})
        elif report["note"]:
            self._fail(self._worker.explain(self._job, report["note"]), retryable=False)
        else:
            status = self._reason or run_status(self._job, report, self._output[STDERR], out_of_memory=report["oom"])
            self._finish(*status, report)

    def _finish(self, status: RunStatus, message: str, report: Mapping[str, Any]) -> None:
        names = report.get("files", [])
        self.result = RunResult(
            status=status,
            stdout=bytes(self._output[STDOUT]),
            stderr=bytes(self._output[STDERR]),
            exit_code=report.get("exit"),
            signal=report.get("signal"),
            wall_s=time.monotonic() - self._started,
            cpu_s=report.get("cpu_s", 0.0),
            memory_mb=report.get("memory_kb", 0) / 1024,
            files={name: self._file(index) for index, name in enumerate(names)},
            message=message,
        )
        self._release_resources()

    def _fail(self, message: str, *, retryable: bool = True) -> None:
        self.failure = SandboxFailure(message, retryable=retryable)
        self._release_resources()

    def _release_resources(self) -> None:
        self._epoll.close()
        for file in self._files.values():
            file.close()
        for pump in self._order:
            pump.sock.close()
        self._release(self._worker)
