"""The zygote: pid 1 of its namespaces. It forks the process of each run, waits for its end and kills the processes left over.

It builds the isolation, imports the modules that most programs import and then drops every privilege. So its forks need not do
this: the system call filter is compiled once, and a fork writes to few shared pages. Runs have the zygote's uid, but cannot
kill or stop it, because it is pid 1. They cannot access its memory, and the filter protects its limits and priorities. The
cell, the process that starts the zygote, stays outside the pid namespace and keeps its privileges: it mounts, moves files in
and out and talks to the supervisor.

Zygote -> cell, as datagrams: JSON with `{"error"}` or its `Walls`; then for each run, a byte with two descriptors (the socket
to the waiting process and its pidfd), and a packed `RunEnd`. Cell -> zygote: a signal number, and the number
(counted from 1) of the run to send it to.
"""

from __future__ import annotations

import _socket
import contextlib
import fcntl
import functools
import json
import os
import select
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
_SIGNAL = struct.Struct("qi")
_FORKED = b"F"
_PLACES = 10  # more descriptors than most runs have
_COLLECT_TIMES, _COLLECT_S = 50, 0.002


class NotStarted(Exception):
    """The zygote (the process that forks all runs) ended before it could serve; the message says why."""


class Zygote:
    """Starts runs through a zygote: a separate, isolated process that forks one process per run. See `forker.RunStarter`.

    Args:
        config: configuration of the isolation, as for `walls.build.build_walls`, with level 3.

    Raises:
        OSError: namespaces are not available.
        NotStarted: the isolation cannot be built.
        forker.ForkFailed: the zygote could not be forked, or ended without a message; a later attempt may succeed.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        lacks: dict[str, str] = {}
        uid = make_namespaces(lacks)
        self._sock, zygote_end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError as error:
            raise forker.ForkFailed(error.errno, error.strerror) from None
        if not pid:
            try:
                self._sock.close()
                _main(zygote_end, config, uid, lacks)
            finally:
                os._exit(1)
        zygote_end.close()
        message = self._sock.recv(_LARGEST)
        if not message:
            raise forker.ForkFailed
        fields = json.loads(message)
        if "error" in fields:
            raise NotStarted(fields["error"])
        self.walls = Walls(**fields)
        harden()
        self._pid = pid
        self._core = -1
        self._process = -1
        self._run = 0

    def fork_ahead(self) -> None:
        """Do nothing, since the zygote forks without being asked."""

    def start(self, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
        """Send the waiting process the specification `spec` of its run; see `forker.RunStarter`."""
        message, received = fd_passing.receive(self._sock, _LARGEST, 2)
        if message != _FORKED:
            raise forker.ForkFailed(message.decode("utf-8", "replace") or "what forks it has ended")
        sock_fd, self._process = received
        self._run += 1
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, sock_fd)  # given its type, Python need not query it
        try:
            prefork.send_spec(sock, spec, fds, note_fd)
        finally:
            sock.close()

    def set_core(self, number: int) -> None:
        """Pin the zygote, and so the processes that it forks, to core `number`; see `forker.RunStarter`."""
        if 0 <= number != self._core:
            self._core = number
            with contextlib.suppress(OSError):  # if not permitted, the run's process pins itself
                os.sched_setaffinity(self._pid, {number})

    @property
    def watcher(self) -> int:
        """The descriptor of the socket on which the zygote reports the end of the run."""
        return self._sock.fileno()

    @property
    def lifeline(self) -> int:
        """The socket to the zygote, which hangs up when the zygote ends."""
        return self._sock.fileno()

    def kill(self) -> None:
        """Kill the run's first process; the zygote then kills all others."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Have the zygote send the signal `number` to every process of the run."""
        with contextlib.suppress(OSError):  # it has ended, which `finish` finds out
            self._sock.send(_SIGNAL.pack(self._run, number))

    def finish(self) -> forker.RunEnd:
        """Wait until the zygote has killed and reaped all processes of the run, and return how the run ended."""
        message = self._sock.recv(_ENDING.size)
        if not message:
            os._exit(1)  # the zygote was killed, and its namespace with it: the supervisor replaces this cell
        os.close(self._process)
        ending = forker.RunEnd(*_ENDING.unpack(message))
        if ending.core >= 0:
            self._core = ending.core
        return ending

    def shut_down(self) -> None:
        """Do nothing, since the zygote and its namespace end with this process."""


def _main(sock: _socket.socket, config: Mapping[str, Any], uid: int | None, lacks: dict[str, str]) -> NoReturn:
    try:
        sys_.close_range_except(3, [sock.fileno()])
        sock = _reserve_low_fds(sock)  # before anything else is opened
        os.setsid()
        walls = build_walls_of_level_3(config, uid, lacks)
        runs.prepare_for_runs(walls, config["path"])
        sockets = _open("/proc/self/net/unix", os.O_RDONLY)
        # Landlock would forbid opening this one for writing. The zygote's own value may be above zero and not be lowerable.
        sys_.prctl(sys_.PR_SET_DUMPABLE, 1)  # otherwise the file belongs to root and an ordinary user may not write to it
        oom = _open("/proc/self/oom_score_adj", os.O_RDWR)
        last_to_go = os.pread(oom, 32, 0) if oom >= 0 else b""
        drop_privileges(walls)
        apply_landlock(walls)
        sys_.prctl(sys_.PR_SET_PDEATHSIG, signal.SIGKILL)
        dumpable = sys_.prepared("prctl", sys_.PR_SET_DUMPABLE)
        dumpable(0)  # a change of uid may have reset it
        # pid 1 ignores signals without a handler; with Python's SIGINT handler a run could end it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        none = _count(sockets)
        here = cpu_affinity.here = cpu_affinity.CorePinning(choose=True)  # before the cell can ask to pin it
    except BaseException as error:
        sock.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        os._exit(1)
    kept = ("level", "uid", "run_dir", "mounts", "owns_all", "ours", "lacks")
    sock.send(json.dumps({name: getattr(walls, name) for name in kept}).encode())
    become = functools.partial(runs.become, walls)
    run = 0
    while True:
        run += 1
        before = forker.used()
        # The fork inherits these two; no run is alive that could use them against the zygote meanwhile.
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
        here.unpin_now_and_then()
        _pass_signals(sock, run, process)
        os.close(process)
        ended = forker.end(walls, pid, before)
        number = here.number if here.pin_where_woken() else -1
        clean = _count(sockets) <= none or _collected(sockets, none)
        sock.send(_ENDING.pack(ended.status, ended.cpu_us, ended.memory_kb, clean, number))


def _pass_signals(sock: _socket.socket, run: int, process: int) -> None:
    """Send the signals that the cell asks for, until the run's first process has ended.

    One that comes too late is for a run that is over, and is not for the next, whose process waits already.
    """
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(process, select.POLLIN)
    while process not in {fd for fd, _ in poll.poll()}:
        message = sock.recv(_SIGNAL.size)
        if not message:
            os._exit(1)  # the cell has ended
        wanted, number = _SIGNAL.unpack(message)
        if wanted == run:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, number)


def _open(path: str, flags: int) -> int:
    """Open a file in /proc; returns -1 if that fails."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return -1


def _write(fd: int, data: bytes) -> None:
    try:
        os.pwrite(fd, data, 0)
    except OSError:  # no such descriptor, or the value may not be lowered here
        return


def _count(sockets: int) -> int:
    """Return the number of unix sockets in this network namespace, counted up to some dozens; 0 if unknown."""
    return os.pread(sockets, 1 << 12, 0).count(b"\n") if sockets >= 0 else 0


def _collected(sockets: int, none: int) -> bool:
    """Collect sockets that a run left in unread messages: they hold names, locks and files. Returns whether all are gone."""
    for _ in range(_COLLECT_TIMES):
        forker.collect_sockets()
        time.sleep(_COLLECT_S)
        if _count(sockets) <= none:
            return True
    return False


def _reserve_low_fds(sock: _socket.socket) -> _socket.socket:
    """Move the socket to a high number and occupy the low ones, so that descriptors received by forks need not be moved."""
    moved = _socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, _PLACES))
    sock.detach()
    for fd in range(3, _PLACES):
        os.dup2(0, fd, inheritable=False)
    return moved
