"""One run of the back end `local`: output comes through pipes, the exit status through the worker's socket."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from verigym.sandbox.event_loop import QUIET_S, Run
from verigym.sandbox.exit_status import run_status
from verigym.sandbox.inside.cell import fd_passing
from verigym.sandbox.job import Job
from verigym.sandbox.spec import RunResult, RunStatus, SandboxFailure

if TYPE_CHECKING:
    from verigym.sandbox.backends.worker import Worker

_CHUNK = 1 << 16
_CHECK_S = 0.1
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_CELL_MB = 64  # as the cell's control group allows it


class LocalRun(Run):
    """One run on a local worker. Its output comes through pipes, its exit status through the worker's socket."""

    def __init__(self, worker: Worker, job: Job, release: Callable[[Worker], None]) -> None:
        self._worker = worker
        self._job = job
        self._release = release
        self._reason: tuple[RunStatus, str] | None = None
        self._killed_at: float | None = None
        self._files: dict[str, bytes] = {}
        self._pipes: dict[int, bytearray] = {}
        self._far_ends: list[int] = []
        """The pipe ends that the run writes to. They stay open here until the run has ended. So a program that closes its
        output early does not end the pipe, which would wake the event loop."""
        self._ended: dict[int, bytearray] = {}
        self._quiet_s = 0.0
        """Seconds, counted from the last call of `readable`, until the pipes must be polled; 0 or less: poll them now."""
        self._started = time.monotonic()
        self._next_check = self._started + _CHECK_S
        self.deadline = self._started + job.limits.wall_s
        self._send()

    def _send(self) -> None:
        job = self._job
        to_close: list[int] = []
        parts: list[str] = []
        fds: list[int] = []

        def give(name: str, fd: int, *, own: bool = True) -> None:
            parts.append(name)
            fds.append(fd)
            if own:
                to_close.append(fd)

        try:
            give("stdin", _read_only(memory_file(job.stdin)) if job.stdin else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            for name in ("stdout", "stderr"):
                out, into = os.pipe2(os.O_CLOEXEC)
                os.set_blocking(out, False)
                self._pipes[out] = bytearray()
                give(name, into, own=False)
                self._far_ends.append(into)
            for channel in job.channels:
                give("channel", channel.fileno(), own=False)
            for path, content in job.files.items():
                give(f"file:{path}", memory_file(content))
            self._stdout, self._stderr = self._pipes
            fd_passing.send(self._worker.sock, json.dumps(job.header(parts, self._worker.core)).encode(), fds)
        except OSError as error:
            self._close_pipes()
            self._fail(f"the sandbox worker is gone ({error.strerror})")
        finally:
            for fd in to_close:
                os.close(fd)
            for channel in job.channels:
                channel.close()

    @property
    def killed_at(self) -> float | None:
        """The monotonic time at which the run was killed; None if it was not."""
        return self._killed_at

    def readable(self) -> Sequence[int]:
        """Return the descriptors to poll: the worker's socket and, from `QUIET_S` seconds after the start, the output pipes.

        Until then, output stays in the pipes' buffers, so the event loop does not wake for it.
        """
        sock = self._worker.sock.fileno()
        self._quiet_s = self._started + QUIET_S - time.monotonic()
        return [sock] if self._quiet_s > 0 else [*self._pipes, sock]

    def on_readable(self, fd: int) -> None:
        """Read what is available from the descriptor `fd`."""
        if fd == self._worker.sock.fileno():
            self._on_message()
        elif fd in self._pipes:
            self._read(fd)

    def _read(self, fd: int) -> bool:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        buffer = self._pipes[fd]
        room = self._job.limits.output_bytes - len(buffer)
        buffer += data[:room]
        if len(data) > room:
            self.kill(RunStatus.OUTPUT, f"the output limit of {self._job.limits.output_kb} KiB")
        return True

    def kill(self, status: RunStatus, message: str) -> None:
        """Ask the worker to kill the run, which then ends with `status` and `message`."""
        if self._killed_at is None and not self.done:
            self._reason = (status, message)
            self._killed_at = time.monotonic()
            self._ask(b'{"op":"kill"}')

    def halt(self) -> None:
        """Ask the worker to stop all processes of the run until `resume`."""
        self._ask(b'{"op":"halt"}')

    def resume(self) -> None:
        """Ask the worker to let the stopped processes of the run continue."""
        self._ask(b'{"op":"resume"}')

    def _ask(self, message: bytes) -> None:
        if not self.done:
            with contextlib.suppress(OSError):  # noticed when it is read
                self._worker.sock.send(message)

    def check_usage(self) -> float | None:
        """Kill the run if it holds more memory than allowed. Only runs without a limit on the address space need this check.

        Returns:
            The seconds until the next check; None if no further check is needed.
        """
        if self._job.address_space or self.done:
            return self._quiet_s if self._quiet_s > 0 else None
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + _CHECK_S
            if self._is_over():
                self.kill(RunStatus.MEMORY, f"the memory limit of {self._job.limits.memory_mb} MiB")
        pause = self._next_check - now
        return min(pause, self._quiet_s) if self._quiet_s > 0 else pause

    def _is_over(self) -> bool:
        """Whether memory exceeds the limit: summed over processes where they may reserve more, else of any one of them."""
        if self._job.reserve_mb is None:
            return any(_written_kb(pid) > self._job.limits.memory_mb * 1024 for pid in _below(self._worker.process.pid))
        if self._worker.cgroup is not None:
            return False
        return self.resident_mb() > self._job.limits.memory_mb + _CELL_MB

    def resident_mb(self) -> float:
        """Return the resident memory of the run's processes and the worker, in MiB. A shared page counts once per process."""
        return sum(map(_resident_kb, _below(self._worker.process.pid))) / 1024

    def destroy(self) -> None:
        """Kill the worker. If the run was killed before, its result gives the reason of that kill, not the worker's end."""
        reason = self._reason or (RunStatus.TIME, "the wall time limit")
        self._worker.close()
        self._close_pipes()
        self.result = self._build(reason[0], reason[1], {})
        self._release(self._worker)

    def _on_message(self) -> None:
        try:
            data, fds = fd_passing.receive(self._worker.sock, _CHUNK, 250)
        except OSError as error:
            data, fds = b"", []
            detail = error.strerror or str(error)
        else:
            detail = "it ended"
        if not data:
            self._worker.close()
            self._close_pipes()
            self._fail(f"a sandbox worker died during a run: {detail}")
            return
        message = json.loads(data.decode())  # of bytes it would first guess the encoding
        for name, fd in zip(message["files"], fds, strict=True):
            with open(fd, "rb") as file:
                file.seek(0)
                self._files[name] = file.read()
        # Every process of the run is dead, so all output is in the pipes, though another fork of ours may hold an end open.
        for fd in list(self._pipes):
            while self._read(fd):
                pass
        self._close_pipes()
        self._conclude(message)

    def _conclude(self, report: Mapping[str, Any]) -> None:
        if report["note"]:
            self._fail(f"the sandbox could not set up a run: {report['note']}")
            return
        out_of_memory = self._worker.out_of_memory()
        stderr = self._ended.get(self._stderr, b"")
        reached = run_status(self._job, report, stderr, out_of_memory=out_of_memory)
        status, message = self._reason or reached
        if status is RunStatus.OK and reached[0] in (RunStatus.TIME, RunStatus.MEMORY):
            status, message = reached  # we ended it as no longer needed, but it had already used too much
        self.result = self._build(status, message, report)
        if not report["clean"]:
            self._worker.close()
        self._release(self._worker)

    def _build(self, status: RunStatus, message: str, report: Mapping[str, Any]) -> RunResult:
        return RunResult(
            status=status,
            stdout=bytes(self._ended.get(self._stdout, b"")),
            stderr=bytes(self._ended.get(self._stderr, b"")),
            exit_code=report.get("exit"),
            signal=report.get("signal"),
            wall_s=time.monotonic() - self._started,
            cpu_s=report.get("cpu_s", 0.0),
            memory_mb=report.get("memory_kb", 0) / 1024,
            files=self._files,
            message=message,
        )

    def _fail(self, message: str) -> None:
        self._worker.close()
        self.failure = SandboxFailure(message)
        self._release(self._worker)

    def _close_pipes(self) -> None:
        self._ended.update(self._pipes)
        # Forget them before closing: after an interruption they must not be closed twice, for the numbers may be reused.
        fds, self._pipes, self._far_ends = [*self._pipes, *self._far_ends], {}, []
        for fd in fds:
            os.close(fd)


def _below(pid: int) -> list[int]:
    pids, todo = [], [pid]
    while todo:
        pid = todo.pop()
        pids.append(pid)
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                    todo += map(int, file.read().split())
    return pids


def _resident_kb(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * (os.sysconf("SC_PAGE_SIZE") // 1024)
    return 0


def _written_kb(pid: int) -> int:
    """Return the KiB of a process's anonymous and shared memory, without mapped files."""
    total_kb = 0
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                total_kb += int(line.split()[1])
    return total_kb


def _read_only(fd: int) -> int:
    """Reopen a memory file read-only: before Linux 6.7 a sealed file that is open for writing cannot be mapped as shared."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(fd)


def memory_file(content: bytes) -> int:
    """Return the descriptor of a sealed file in memory that contains `content`, positioned at the file's start."""
    fd = os.memfd_create("input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        done = os.pwrite(fd, content, 0)
        while done < len(content):
            done += os.pwrite(fd, memoryview(content)[done:], done)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd
