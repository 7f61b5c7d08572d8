"""The supervisor's side of one worker process: starts the process, sends it runs, kills it when it does not answer."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from verigym.sandbox.backends import boot
from verigym.sandbox.backends.cgroup import Cgroup, sweep_stale
from verigym.sandbox.backends.local_run import LocalRun
from verigym.sandbox.inside.cell.folders import empty
from verigym.sandbox.job import Job
from verigym.sandbox.spec import SandboxFailure

_BOOT_S = 30.0
_KILL_S = 10.0
_CHUNK = 1 << 16
_CELL_BYTES = 64 << 20  # memory of the cell itself in its cgroup
_CELL_PROCESSES = 4  # the cell and its helpers, which count towards the limit


class StartFailure(SandboxFailure):
    """The worker's process ended before it could report why. The cause may be transient, such as a shortage of memory."""


class Worker:
    """One pre-started, isolated process and the socket to it. The process forks the runs and serves one run at a time.

    Args:
        command: the command line that starts the process. Two descriptor numbers are appended to it as arguments: the
            descriptor from which the process reads the boot message (its code), and that of its socket.
        config: configuration of the process, see `inside.walls.build.build_walls`.
        cgroup: whether to put the process into its own cgroup, where possible.

    Raises:
        SandboxFailure: the process did not start.
    """

    def __init__(self, command: Sequence[str], config: Mapping[str, Any], *, cgroup: bool = True) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        boot_fd, boot_end = os.pipe2(os.O_CLOEXEC)
        self.sock = ours
        self._scratch: str | None = None
        if config["level"] < 3:  # no mounts of its own
            self._scratch = tempfile.mkdtemp(prefix="verigym-run-")
            config = {**config, "scratch": self._scratch}
        self.level = int(config["level"])
        self._uids: tuple[int | None, int] = (None, -1)
        self._lock = threading.Lock()
        self._closed = False
        self._oom_kills = 0
        _sweep(os.getpid())
        self.cgroup = Cgroup.create("cell") if cgroup else None
        self.runs = 0
        self.core = -1
        """Core on which its runs are forked and wait; -1: any."""
        try:
            self.process = subprocess.Popen(
                [*command, str(boot_fd), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Each thread would reserve 64 MiB of address space for an arena: twelve threads fill 512 MiB.
                # And each run would bind the same functions again.
                env={"PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "MALLOC_ARENA_MAX": "1", "LD_BIND_NOW": "1"},
                cwd="/",
                pass_fds=(boot_fd, theirs.fileno()),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            os.close(boot_end)
            self._remove_cgroup()
            if self._scratch is not None:
                os.rmdir(self._scratch)
            raise SandboxFailure(f"cannot start {command[0]}: {error.strerror}", retryable=False) from None
        finally:
            theirs.close()
            os.close(boot_fd)
        try:
            with open(boot_end, "wb") as out:
                self._join_cgroup()
                with contextlib.suppress(BrokenPipeError):  # the handshake says why
                    out.write(boot.message("cell.cell:main", config, same_python=True))
                    out.flush()
            self.ready = self._handshake()
        except BaseException:
            self.close()
            raise

    def _join_cgroup(self) -> None:
        """Move the cell's process into its cgroup before it reads its code and forks; go without one if that fails."""
        if self.cgroup is not None:
            try:
                self.cgroup.add(self.process.pid)
            except OSError:
                self._remove_cgroup()

    def _handshake(self) -> dict[str, Any]:
        poll = select.poll()  # not select: descriptors may be above 1023
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(_BOOT_S * 1000):
            raise SandboxFailure(f"a sandbox worker did not start within {_BOOT_S:.0f} s")
        data = self.sock.recv(_CHUNK)
        if not data:
            raise StartFailure(f"a sandbox worker ended at its start, with exit code {self.process.wait()}")
        ready: dict[str, Any] = json.loads(data)
        if not ready["ready"]:
            raise SandboxFailure(f"a sandbox worker cannot start: {ready['error']}", retryable=False)
        self._uids = ready["uids"]
        return ready

    def out_of_memory(self) -> bool:
        """Return whether the OOM killer has killed a process of this worker since the last call."""
        if self.cgroup is None:
            return False
        before, self._oom_kills = self._oom_kills, self.cgroup.oom_kills()
        return self._oom_kills > before

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def alive(self) -> bool:
        """Whether the worker's process still runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the worker's process; any thread may call this. The thread that serves its run then closes the worker."""
        with self._lock:  # once reaped, the pid may be someone else's
            if not self._closed:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the worker's process and all its children, and remove its cgroup. Further calls do nothing.

        Must not be called while another thread serves the worker's run.
        """
        self.kill()
        with self._lock:
            self.sock.close()
            if self._closed:
                return
            self._closed = True
            self.process.wait()
        if self.level < 3 and self._uids[0] is not None:
            _kill_user(*self._uids)
        self._remove_cgroup()
        if self._scratch is not None:
            empty(self._scratch)
            with contextlib.suppress(OSError):
                os.rmdir(self._scratch)

    def forget(self) -> None:
        """Close the inherited socket in a forked child; the worker's process belongs to the parent."""
        os.close(self.sock.detach())

    def _remove_cgroup(self) -> None:
        if self.cgroup is not None:
            self.cgroup.kill()
            self.cgroup.remove()
            self.cgroup = None

    def start(self, job: Job, release: Callable[[Worker], None]) -> LocalRun:
        """Start the run of `job` and return it.

        Args:
            job: the program to run.
            release: called once, when the run has ended and this worker is free or closed.

        Raises:
            SandboxFailure: the worker's process is gone.
        """
        self.runs += 1
        if self.cgroup is not None:
            memory = (int(job.limits.memory_mb + job.limits.files_mb) << 20) + _CELL_BYTES
            try:
                self.cgroup.set_limits(memory, job.limits.processes + _CELL_PROCESSES)
            except OSError as error:
                self.close()
                release(self)
                raise SandboxFailure(f"cannot limit a sandbox worker: {error.strerror}") from None
        return LocalRun(self, job, release)


@functools.cache
def _sweep(_pid: int) -> None:
    """Remove the control groups that killed supervisors left; once per process."""
    with contextlib.suppress(OSError):
        sweep_stale()


def _kill_user(uid: int | None, killer_uid: int) -> None:
    """Kill what a cell without a pid namespace left: all processes of the uid that only its runs use."""
    code = f"import os; os.setresuid({killer_uid}, {uid}, {killer_uid}); os.kill(-1, 9)"
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-I", "-S", "-c", code], stderr=subprocess.DEVNULL, check=False, timeout=_KILL_S)
