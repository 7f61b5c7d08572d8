"""Pid 1 of a cell's namespaces: forks the process of each run, waits for its end and kills what is left. Nothing else.

It has built the walls, imported what most programs import and then given up every privilege, so that its forks need not: the
system call filter is compiled once, and one fork writes to few pages that it shares with the next. As pid 1 it can be neither
killed nor stopped by runs, which have its uid; its memory is closed to them, and by the filter so are its limits and its
priorities. The cell, a process outside the namespace of processes that keeps its privileges, mounts, moves files in and out and
talks to the supervisor.

Zygote -> cell, datagrams: JSON, `{"error"}` or what it is; then in turn for each run a byte with two descriptors, the socket
to the process that waits and its pidfd, and how it ended.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import functools
import json
import os
import signal
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from verigym.sandbox.inside.cell import fd_passing, forker, prefork, runs
from verigym.sandbox.inside.walls import cpu_affinity
from verigym.sandbox.inside.walls import syscalls as sys_
from verigym.sandbox.inside.walls.build import Walls, build_walls_of_level_3, harden, make_namespaces
from verigym.sandbox.inside.walls.privileges import RUN_OOM_SCORE, apply_landlock, drop_privileges

_LARGEST = 1 << 14
_ENDING = struct.Struct("iqq?i")
_FORKED = b"F"
_PLACES = 10  # more than most runs have descriptors
_COLLECT_TIMES, _COLLECT_S = 50, 0.002


class NotStarted(Exception):
    """The zygote ended before it could serve; the text says why."""


class Zygote:
    """The cell's side: a `forker.Starter`.

    Args:
        config: as for `walls.build.build_walls`, of level 3.

    Raises:
        OSError: there are no namespaces.
        NotStarted: the walls cannot be built.
        forker.NotForked: it could not be made, or ended without a word; may pass.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        lacks: dict[str, str] = {}
        uid = make_namespaces(lacks)
        self._sock, its = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError as error:
            raise forker.ForkFailed(error.errno, error.strerror) from None
        if not pid:
            try:
                self._sock.close()
                _main(its, config, uid, lacks)
            finally:
                os._exit(1)
        its.close()
        said = self._sock.recv(_LARGEST)
        if not said:
            raise forker.ForkFailed
        about = json.loads(said)
        if "error" in about:
            raise NotStarted(about["error"])
        self.walls = Walls(**about)
        harden()
        self._pid = pid
        self._core = -1
        self._process = -1

    def fork_ahead(self) -> None:
        """It forks unasked."""

    def start(self, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
        """Tell the process that waits what to become; see `forker.Starter`."""
        said, received = fd_passing.receive(self._sock, _LARGEST, 2)
        if said != _FORKED:
            raise forker.ForkFailed(said.decode("utf-8", "replace") or "what forks it has ended")
        sock_fd, self._process = received
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, sock_fd)  # what it is said to be is not asked again
        try:
            prefork.send_spec(sock, spec, fds, note_fd)
        finally:
            sock.close()

    def set_core(self, number: int) -> None:
        """Have it and what it will fork be on that core; see `forker.Starter`."""
        if 0 <= number != self._core:
            self._core = number
            with contextlib.suppress(OSError):  # not allowed to: the process of the run goes there by itself
                os.sched_setaffinity(self._pid, {number})

    @property
    def watcher(self) -> int:
        """The socket on which the zygote says how it ended."""
        return self._sock.fileno()

    @property
    def lifeline(self) -> int:
        """The same socket."""
        return self._sock.fileno()

    def kill(self) -> None:
        """Kill the run's first process, upon which the zygote kills all others."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def finish(self) -> forker.RunEnd:
        """Wait until the zygote has killed and reaped what was left."""
        said = self._sock.recv(_ENDING.size)
        if not said:
            os._exit(1)  # it was killed, and with it all others: the supervisor replaces this cell
        os.close(self._process)
        ending = forker.RunEnd(*_ENDING.unpack(said))
        if ending.core >= 0:
            self._core = ending.core
        return ending

    def shut_down(self) -> None:
        """The zygote ends with this process, and with it the namespace."""


def _main(sock: _socket.socket, config: Mapping[str, Any], uid: int | None, lacks: dict[str, str]) -> NoReturn:
    try:
        sys_.close_range_except(3, [sock.fileno()])
        sock = _out_of_the_way(sock)  # before anything else is opened
        os.setsid()
        walls = build_walls_of_level_3(config, uid, lacks)
        runs.prepare_for_runs(walls, config["path"])
        sockets = _open("/proc/self/net/unix", os.O_RDONLY)
        # Landlock will not let it open this one to write. Its own value may be above zero, and not to be lowered.
        sys_.prctl(sys_.PR_SET_DUMPABLE, 1)  # else the file is root's, and an ordinary user may not write to it
        oom = _open("/proc/self/oom_score_adj", os.O_RDWR)
        last_to_go = os.pread(oom, 32, 0) if oom >= 0 else b""
        drop_privileges(walls)
        apply_landlock(walls)
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        dumpable = sys_.prepared("prctl", sys_.PR_SET_DUMPABLE)
        dumpable(0)  # a change of uid may have reset it
        # pid 1 ignores signals it has no handler for; Python's own for SIGINT would let a run end it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        none = _count(sockets)
        here = cpu_affinity.here = cpu_affinity.CorePinning(
            choose=True
        )  # before the cell knows that there is somebody to be moved
    except BaseException as error:
        sock.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    kept = ("level", "uid", "run_dir", "mounts", "owns_all", "ours", "lacks")
    sock.send(json.dumps({name: getattr(walls, name) for name in kept}).encode())
    become = functools.partial(runs.become, walls)
    while True:
        before = forker.used()
        # What the fork is to be, for as long as nothing but the two of us is here.
        dumpable(1)
        _write(oom, RUN_OOM_SCORE)
        try:
            waiting, pid = forker.fork(become)
        except OSError as error:
            sock.send(f"no process can be made: {error.strerror}".encode())
            os._exit(1)
        if dumpable(0) != 0:
            os._exit(1)
        _write(oom, last_to_go)
        process = os.pidfd_open(pid)
        fd_passing.send(sock, _FORKED, [waiting.fileno(), process])
        waiting.close()
        os.close(process)
        here.unpin_now_and_then()
        ended = forker.end(walls, pid, before)
        number = here.number if here.pin_where_woken() else -1
        clean = _count(sockets) <= none or _collected(sockets, none)
        sock.send(_ENDING.pack(ended.status, ended.cpu_us, ended.memory_kb, clean, number))


def _open(path: str, flags: int) -> int:
    """A descriptor of its own of something in /proc; -1 where that cannot be had."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return -1


def _write(fd: int, data: bytes) -> None:
    try:
        os.pwrite(fd, data, 0)
    except OSError:  # there is no such descriptor, or the value may not be lowered here
        return


def _count(sockets: int) -> int:
    """How many unix sockets there are in this namespace; 0 where that cannot be known."""
    return os.pread(sockets, 1 << 16, 0).count(b"\n") if sockets >= 0 else 0


def _collected(sockets: int, none: int) -> bool:
    """Whether those that a run has left in messages to one another go: with them are names, locks and files of that run."""
    for _ in range(_COLLECT_TIMES):
        forker.collect_sockets()
        time.sleep(_COLLECT_S)
        if _count(sockets) <= none:
            return True
    return False


def _out_of_the_way(sock: _socket.socket) -> _socket.socket:
    """The same socket, at a high number; the low ones are taken, so that what forks receive is not in its own way either."""
    moved = _socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, _PLACES))
    sock.detach()
    for fd in range(3, _PLACES):
        os.dup2(0, fd, inheritable=False)
    return moved
