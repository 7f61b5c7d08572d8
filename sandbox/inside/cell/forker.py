"""Forks the processes of runs, waits for them, and kills the processes that they leave.

A cell uses one of two starters: `Forker`, which forks from the cell itself, or `zygote.Zygote`, which uses another process.
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
    """Raised if no process could be forked for a run. `finish` must not be called then."""


class RunEnd(NamedTuple):
    """The exit status of a run's first process, and the resources that the run used."""

    status: int
    """Exit status as returned by `wait`."""
    cpu_us: int
    """CPU time in microseconds of all processes of the run that were waited for."""
    memory_kb: int
    """Largest resident size of its first process, in KiB."""
    clean: bool = True
    """Whether no kernel objects of the run are left."""
    core: int = -1
    """Core of the next fork, if it has changed; else -1."""

    def report(self) -> dict[str, Any]:
        """Return how the run ended as a dictionary, which is sent to the supervisor."""
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
    """Interface for starting runs, one at a time, each in a process that is forked in advance."""

    walls: Walls

    def fork_ahead(self) -> None:
        """Fork the process of the next run, if no process is waiting for it yet."""

    def start(self, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
        """Send the waiting process the specification of its run.

        Args:
            spec: the specification, encoded by `runs.start`.
            fds: descriptors of the run.
            note_fd: descriptor to which the process writes why its setup failed.

        Raises:
            ForkFailed: there is no process.
            OSError: the process is gone; `finish` must still be called.
        """

    def set_core(self, number: int) -> None:
        """Fork on core `number` from now on; -1 changes nothing."""

    @property
    def watcher(self) -> int:
        """A descriptor that becomes readable when the run's first process has ended; the caller must not close it."""

    @property
    def lifeline(self) -> int:
        """A descriptor that hangs up when no more runs can be started; -1 if that happens only when this process ends."""

    def kill(self) -> None:
        """Kill the run."""

    def signal(self, number: int) -> None:
        """Send the signal `number`, SIGSTOP or SIGCONT, to every process of the run."""

    def finish(self) -> RunEnd:
        """Wait for the run's first process, end all other processes of the run, and return how the run ended."""

    def shut_down(self) -> None:
        """Remove the processes and files that would otherwise outlive this process. Called before it ends."""


class Forker:
    """Starts runs as children of this process. This process keeps its privileges, and each child drops them.

    Args:
        walls: the isolation of the children.
        become: called in a child with the specification of its run.
        first: called at the start of each child.
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
        if not self.walls.owns_all:  # otherwise it ends with its namespace
            sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        apply_landlock(self.walls)

    def fork_ahead(self) -> None:
        """Fork the process of the next run, if no process is waiting for it yet."""
        if self._sock is None:
            self._sock, self.pid = fork(self._become, self._confine)

    def start(self, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
        """Send the waiting process the specification `spec` of its run; see `RunStarter`."""
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
        """Do nothing with `number`, since this process is not pinned to a core."""

    @property
    def watcher(self) -> int:
        """The pidfd of the run's first process, which becomes readable when the process ends."""
        if self._watcher is None:
            self._watcher = os.pidfd_open(self.pid)
        return self._watcher

    @property
    def lifeline(self) -> int:
        """Always -1: runs can be started as long as this process lives."""
        return -1

    def kill(self) -> None:
        """Kill every process of the run."""
        signal_all(self.walls)

    def signal(self, number: int) -> None:
        """Send the signal `number` to every process of the run."""
        signal_all(self.walls, number)

    def finish(self) -> RunEnd:
        """Wait for the run's first process, kill and reap all others, and return how the run ended."""
        ending = end(self.walls, self.pid, self._used)
        if self._watcher is not None:
            os.close(self._watcher)
            self._watcher = None
        collect_sockets()
        return ending

    def shut_down(self) -> None:
        """Kill the run and remove its files. Does nothing if this process has its own namespaces: their end does both."""
        if not self.walls.owns_all:
            reap(self.walls)
            scratch = os.path.dirname(self.walls.run_dir)
            empty(scratch)
            with contextlib.suppress(OSError):
                os.rmdir(scratch)


def fork(become: prefork.Become, confine: Callable[[], None] | None = None) -> tuple[_socket.socket, int]:
    """Fork a process that waits for the specification of a run. Returns the socket to the process, and its pid.

    Args:
        become: called in the new process with the specification.
        confine: called in the new process before it waits.
    """
    parent_end, child_end = _socket.socketpair()
    pid = os.fork()
    if not pid:
        try:
            parent_end.close()
            prefork.wait(child_end, become, confine)
        finally:
            os._exit(prefork.SETUP_FAILED)
    child_end.close()
    return parent_end, pid


def collect_sockets() -> None:
    """Make the kernel free unreachable sockets, which refer to each other in unread messages.

    Closing any socket starts the kernel's search for them, so this function opens and closes a pair.
    """
    for sock in _socket.socketpair():
        sock.close()


def used() -> int:
    """Return the CPU time, in microseconds, of all children waited for so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1e6)


def end(walls: Walls, pid: int, used_before: int) -> RunEnd:
    """Wait for the run's first process, kill and reap all others, and return how the run ended.

    Args:
        walls: the isolation of the run.
        pid: the first process.
        used_before: the value of `used()` before the run, in microseconds.
    """
    _, status, usage = os.wait4(pid, 0)
    reap(walls)
    return RunEnd(status, used() - used_before, usage.ru_maxrss)


def reap(walls: Walls) -> None:
    """Kill and reap the run's processes, which `walls` isolates, until none is left."""
    while signal_all(walls):
        try:
            while os.waitpid(-1, 0 if walls.owns_all else os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def signal_all(walls: Walls, number: int = signal.SIGKILL) -> bool:
    """Send the signal `number` to every process of the run that `walls` isolates.

    Returns whether the run may still have a process. A process that has ended and is not yet waited for counts.
    """
    if walls.owns_all:
        # Atomic, even against fork bombs: a process with a pending signal cannot fork.
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return False
    elif walls.uid is not None:
        killer = os.fork()
        if killer == 0:
            with contextlib.suppress(OSError):
                # May signal the uid's processes but not be signalled by them: the target's real and saved uids decide.
                os.setresuid(walls.killer_uid, walls.uid, walls.killer_uid)
                os.kill(-1, number)
            os._exit(0)
        os.waitpid(killer, 0)
    return True
