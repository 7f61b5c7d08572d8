"""Forks the processes of runs from this very process, waits for their ends, and kills what they leave.

Two classes do this for a cell: `Forker` here, and `zygote.Zygote`, which has it done by another process.
"""

from __future__ import annotations

import _socket
import contextlib
import os
import resource
import signal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from verigym.sandbox.inside.cell import prefork
from verigym.sandbox.inside.cell.folders import empty
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.build import Walls
from verigym.sandbox.inside.walls.privileges import apply_landlock, drop_privileges, expose_to_user_and_oom


class ForkFailed(OSError):
    """There is no process to tell anything, and none to wait for."""


class RunEnd(NamedTuple):
    """How the first process of a run ended, and what the run has used."""

    status: int
    """As `wait` gives it."""
    cpu_us: int
    """CPU time of all its processes that were waited for, microseconds."""
    memory_kb: int
    """Largest resident size of its first process."""
    clean: bool = True
    """Whether nothing of it is left in the kernel."""
    core: int = -1
    """Where the next will be forked, if that has changed."""

    def report(self) -> dict[str, Any]:
        """The same as the supervisor reads it."""
        code = os.waitstatus_to_exitcode(self.status)
        return {
            "exit": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "cpu_s": self.cpu_us / 1e6,
            "memory_kb": self.memory_kb,
            "core": self.core,
        }


NEVER_STARTED = RunEnd(prefork.SETUP_FAILED << 8, 0, 0)


class RunStarter(Protocol):
    """What a cell has its runs started by, one at a time."""

    walls: Walls

    def fork_ahead(self) -> None:
        """See to it that a process waits for the next run, if that is not so by itself."""

    def start(self, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
        """Tell the waiting process what to become.

        Raises:
            NotForked: there is none.
            OSError: the process is gone; it still is to be finished.
        """

    def set_core(self, number: int) -> None:
        """Fork on that core from now on; -1: leave it as it is."""

    @property
    def watcher(self) -> int:
        """A descriptor that can be read when the first process of the run has ended; not the caller's to close."""

    @property
    def lifeline(self) -> int:
        """A descriptor that hangs up when no more runs can be started; -1 where that ends the cell too."""

    def kill(self) -> None:
        """Kill the run."""

    def finish(self) -> RunEnd:
        """Wait for the run's first process, and see to it that no other is left."""

    def shut_down(self) -> None:
        """The cell is about to end: take along what would not end with it."""


class Forker:
    """Starts runs as children of this process, which keeps its privileges: each child gives them up.

    Args:
        walls: what they are confined by.
        become: what a child does when it is told to.
        first: what it does before anything else.
    """

    def __init__(self, walls: Walls, become: prefork.Become, first: Callable[[], None] | None = None) -> None:
        self.walls = walls
        self._become = become
        self._first = first
        self._sock: _socket.socket | None = None
        self._watcher: int | None = None
        self._used = 0
        self.pid = 0
        """The process that waits, or that runs."""

    def _confine(self) -> None:
        if self._first is not None:
            self._first()
        drop_privileges(self.walls)
        expose_to_user_and_oom()
        if not self.walls.owns_all:  # else it ends with its namespace
            sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        apply_landlock(self.walls)

    def fork_ahead(self) -> None:
        """Fork the process of the next run, unless one waits."""
        if self._sock is None:
            self._sock, self.pid = fork(self._become, self._confine)

    def start(self, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
        """Tell it what to become; see `RunStarter`."""
        try:
            self.fork_ahead()
        except OSError as error:
            raise ForkFailed(error.errno, f"no process can be made: {error.strerror}") from None
        sock, self._sock = self._sock, None
        if sock is None:
            raise ForkFailed
        self._used = used()
        try:
            prefork.send_spec(sock, spec, fds, note_fd)
        finally:
            sock.close()

    def set_core(self, number: int) -> None:
        """It keeps to no core."""

    @property
    def watcher(self) -> int:
        """Its pidfd."""
        if self._watcher is None:
            self._watcher = os.pidfd_open(self.pid)
        return self._watcher

    @property
    def lifeline(self) -> int:
        """None is needed."""
        return -1

    def kill(self) -> None:
        """Kill every process of the run."""
        kill_all(self.walls)

    def finish(self) -> RunEnd:
        """Wait for its first process, kill and reap all others."""
        ending = end(self.walls, self.pid, self._used)
        if self._watcher is not None:
            os.close(self._watcher)
            self._watcher = None
        collect_sockets()
        return ending

    def shut_down(self) -> None:
        """Where it does not all end with this process: kill it, and remove its files."""
        if not self.walls.owns_all:
            reap(self.walls)
            scratch = os.path.dirname(self.walls.run_dir)
            empty(scratch)
            with contextlib.suppress(OSError):
                os.rmdir(scratch)


def fork(become: prefork.Become, confine: Callable[[], None] | None = None) -> tuple[_socket.socket, int]:
    """Fork a process that waits to be told what to become; returns the socket to it, and its pid."""
    ours, its = _socket.socketpair()
    pid = os.fork()
    if not pid:
        try:
            ours.close()
            prefork.wait(its, become, confine)
        finally:
            os._exit(prefork.SETUP_FAILED)
    its.close()
    return ours, pid


def collect_sockets() -> None:
    """Have the kernel look for sockets that are left in messages to one another: it does so when one is closed."""
    for sock in _socket.socketpair():
        sock.close()


def used() -> int:
    """CPU time of all children waited for so far, microseconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1e6)


def end(walls: Walls, pid: int, used_before: int) -> RunEnd:
    """Wait for a child, kill and reap all others."""
    _, status, usage = os.wait4(pid, 0)
    reap(walls)
    return RunEnd(status, used() - used_before, usage.ru_maxrss)


def reap(walls: Walls) -> None:
    """Kill and reap until no child is left."""
    while True:
        kill_all(walls)
        try:
            while os.waitpid(-1, 0 if walls.owns_all else os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def kill_all(walls: Walls) -> None:
    """Kill every process of the run."""
    if walls.owns_all:
        # Atomic against fork bombs: a process with a pending SIGKILL cannot fork.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    elif walls.uid is not None:
        killer = os.fork()
        if killer == 0:
            with contextlib.suppress(OSError):
                # May signal the uid's processes, and may not be signalled by them: who is signalled goes by real and saved ids.
                os.setresuid(walls.killer_uid, walls.uid, walls.killer_uid)
                os.kill(-1, signal.SIGKILL)
            os._exit(0)
        os.waitpid(killer, 0)
    else:
        for pid in _descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _descendants() -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{entry}/stat", "rb") as file:
                parents.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(entry))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found
