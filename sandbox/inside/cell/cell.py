"""The cell: an isolated process that runs one program at a time, forked from a warm Python.

It passes descriptors on to the program and never reads their content.

Messages are JSON datagrams with descriptors attached, over one SOCK_SEQPACKET socket:
supervisor -> cell: {"op": "run", "mode", "argv", "source", "env", "limits", "fds": [role of each descriptor], "collect"},
{"op": "kill"}, {"op": "halt"} and {"op": "resume"};
cell -> supervisor: {"ready"}, {"done", "exit", "signal", "cpu_s", "memory_kb", "files", "note"}.
When the socket closes, the cell ends, and with it every process in its isolation.
"""

from __future__ import annotations

import _socket
import contextlib
import functools
import json
import os
import select
import signal
from collections.abc import Mapping
from typing import Any

from verigym.sandbox.inside.cell import fd_passing, runs
from verigym.sandbox.inside.cell.forker import NEVER_STARTED, Forker, ForkFailed, RunEnd, RunStarter
from verigym.sandbox.inside.cell.run_dir import RunDir
from verigym.sandbox.inside.cell.zygote import NotStarted, Zygote
from verigym.sandbox.inside.walls.build import build_walls

_LARGEST_HEADER = 1 << 17
_MOST_FDS = 250


def main(config: Mapping[str, Any], socket_fd: int) -> None:
    """Isolate this process, report over `socket_fd` that it is ready, and serve runs until the socket closes.

    Args:
        config: configuration of the isolation and the runs, see `inside.walls.build.build_walls`.
        socket_fd: descriptor of the socket to the supervisor.
    """
    sock = _socket.socket(fileno=socket_fd)
    os.umask(0o022)
    # A cell under bubblewrap joins its control group only when it is ready, and must not fork before.
    warm = "enclosed" not in config
    try:
        starter = Zygote(config) if warm and config["level"] >= 3 else _forker(config, warm=warm)
    except ForkFailed:
        os._exit(1)  # without a message: the supervisor treats this as transient
    except BaseException as error:
        why = str(error) if isinstance(error, NotStarted) else f"{type(error).__name__}: {error}"
        sock.send(json.dumps({"ready": False, "error": why}).encode())
        os._exit(1)
    os.set_inheritable(socket_fd, False)
    walls = starter.walls
    uids = [walls.uid, walls.killer_uid]
    sock.send(json.dumps({"ready": True, "level": walls.level, "lacks": walls.lacks, "uids": uids}).encode())
    run_dir = RunDir(walls)
    idle = select.poll()
    idle.register(sock, select.POLLIN)
    if starter.lifeline >= 0:
        idle.register(starter.lifeline, 0)
    while True:
        if warm:
            with contextlib.suppress(OSError):  # reported when the run starts
                starter.fork_ahead()
        request: dict[str, Any] = {}
        fds: list[int] = []
        while request.get("op") != "run":  # skip what comes too late for the run before
            _close(fds)
            if any(fd == starter.lifeline for fd, _ in idle.poll()):
                os._exit(1)
            request, fds = _receive(sock, starter)
        _serve(sock, starter, run_dir, request, fds)


def _forker(config: Mapping[str, Any], *, warm: bool) -> Forker:
    walls = build_walls(config)
    runs.prepare_for_runs(walls, config["path"] if walls.packages is None else [walls.packages], warm=warm)
    # Under bubblewrap this is pid 1, which ignores signals without a handler; with Python's SIGINT handler a run could end it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return Forker(walls, functools.partial(runs.become, walls))


def _serve(sock: _socket.socket, starter: RunStarter, run_dir: RunDir, header: Mapping[str, Any], fds: list[int]) -> None:
    note_in, note_out = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    started = runs.start(starter, run_dir, header, fds, note_out)
    _close([*fds, note_out])
    ending = _await(sock, starter) if started else NEVER_STARTED
    report = ending.report()
    note = b""
    with contextlib.suppress(BlockingIOError):
        note = os.read(note_in, 500)
    os.close(note_in)
    files, names = [], []
    limit = int(header["limits"]["collect_bytes"])
    for path in header["collect"]:
        file = run_dir.collect(path, limit)
        if file is not None:
            files.append(file)  # the descriptor outlives the file system
            names.append(path)
    clean = run_dir.clean() and ending.clean
    report.update(done=True, files=names, note=note.decode("utf-8", "replace"), clean=clean)
    fd_passing.send(sock, json.dumps(report).encode(), files)
    _close(files)


def _await(sock: _socket.socket, starter: RunStarter) -> RunEnd:
    watcher = starter.watcher
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(watcher, select.POLLIN)
    while watcher not in {fd for fd, _ in poll.poll()}:
        request, stray = _receive(sock, starter)  # exits if the supervisor is gone
        _close(stray)
        if request["op"] == "kill":
            starter.kill()
        else:
            starter.signal(signal.SIGSTOP if request["op"] == "halt" else signal.SIGCONT)
    return starter.finish()


def _receive(sock: _socket.socket, starter: RunStarter) -> tuple[dict[str, Any], list[int]]:
    data, fds = fd_passing.receive(sock, _LARGEST_HEADER, _MOST_FDS)
    if not data:
        # The supervisor is gone.
        starter.shut_down()
        os._exit(0)
    return json.loads(data.decode()), fds  # given bytes, it would first guess the encoding


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
