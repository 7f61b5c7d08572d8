"""The worker process of isolated comparisons: `python -m verigym.envs.isolated.worker KIND`, started by `client.py`.

This process, the zygote, loads its kind of comparison once (`trees` by SymPy, `texts` by Math-Verify, `gym` by reasoning-gym)
and forks a child for each request. So no state passes from one submission to the next, and a child that hangs, crashes or uses
too much memory can be killed without the zygote. The zygote passes the request on as bytes without parsing it. The child sees
only this request, and replies with JSON of bounded size through its own pipe. `client.py` describes the frames.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Literal

from verigym.sandbox.confine import confine, parent_is

REQUEST = struct.Struct("!Iddq")  # payload bytes, CPU seconds, wall seconds, memory bytes
REPLY = struct.Struct("!cId")  # status, payload bytes, CPU seconds
OK, TIME, WALL, MEMORY, CRASH, START = b"O", b"T", b"W", b"M", b"C", b"S"
MAX_REPLY = 1 << 20  # an item of reasoning-gym holds a whole prompt
EXIT_MEMORY = 77
POLL_MS = 2_000

KINDS = {
    "trees": "verigym.envs.math.symbolic.worker",
    "texts": "verigym.envs.math.symbolic.math_verify",
    "gym": "verigym.envs.reasoning_gym.worker",
}
"""For each kind of comparison, the module with a function `load`, which prepares and returns the comparison function."""
Kind = Literal["trees", "texts", "gym"]
Compare = Callable[[bytes], bytes]


def load(kind: str) -> Compare:
    """Import the module for the comparison `kind`, warm its caches, and return its comparison function."""
    compare: Compare = importlib.import_module(KINDS[kind]).load()
    return compare


def run_child(compare: Compare, payload: bytes, cpu_s: float, memory_bytes: int, reply: int, zygote: int) -> None:
    """Apply the limits, run `compare` on `payload`, write the result to the pipe `reply`, and exit. Runs in a forked child.

    Args:
        compare: the comparison function.
        payload: bytes of the request.
        cpu_s: limit of CPU time in seconds.
        memory_bytes: limit of the address space in bytes.
        reply: file descriptor of the pipe to the zygote.
        zygote: process id of the zygote; if the zygote is gone, nothing is compared.
    """
    code = 1
    try:
        os.setpgid(0, 0)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        confine(memory_bytes=memory_bytes, cpu_s=int(cpu_s) + 2, file_bytes=0, processes=0, die_with_parent=True)
        if parent_is(zygote):
            os.write(reply, compare(payload)[:MAX_REPLY])
            code = 0
    except MemoryError:
        code = EXIT_MEMORY
    finally:
        os._exit(code)


def supervise(pid: int, reply: int, requests: int, wall_s: float) -> tuple[bytes, bytes, float]:
    """Wait until the child `pid` has replied, exited or run out of time, then kill it and its children.

    If the client hangs up in the meantime, this process exits too.

    Args:
        pid: process id of the child.
        reply: file descriptor from which the child's reply is read.
        requests: file descriptor of the client's requests, watched for a hang-up.
        wall_s: wall time for the child in seconds.

    Returns:
        The status byte, the reply (empty unless the status is OK), and the CPU seconds that the child used.
    """
    deadline = time.monotonic() + wall_s
    poll = select.poll()
    poll.register(reply, select.POLLIN)
    poll.register(requests, 0)  # only for its hang-up, which means that the client is gone
    data, late = b"", False
    while len(data) <= MAX_REPLY:
        left = deadline - time.monotonic()
        events = dict(poll.poll(max(0, int(left * 1000)) + 1)) if left > 0 else {}
        if requests in events:
            _kill(pid)
            os._exit(0)
        if not events:
            late = left <= 0 or time.monotonic() >= deadline
            if late:
                break
            continue
        chunk = os.read(reply, 1 << 16)
        if not chunk:
            break
        data += chunk
    # A child that has exited keeps its status; one that closed its pipe but lives on is killed.
    _kill(pid)
    _, status, used = os.wait4(pid, 0)
    cpu_s = used.ru_utime + used.ru_stime
    if late:
        return WALL, b"", cpu_s
    if os.WIFSIGNALED(status):
        return (TIME if os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGXCPU) else CRASH), b"", cpu_s
    if os.WEXITSTATUS(status) == EXIT_MEMORY:
        return MEMORY, b"", cpu_s
    answered = os.WEXITSTATUS(status) == 0 and 0 < len(data) <= MAX_REPLY
    return (OK, data, cpu_s) if answered else (CRASH, b"", cpu_s)


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def serve(kind: str, requests: int, replies: int) -> None:
    """Serve requests until the client is gone."""
    parent = os.getppid()
    try:
        compare = load(kind)
    except Exception as error:
        why = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        _send(replies, START, why[:MAX_REPLY].encode())
        return
    confine(network=False)
    gc.freeze()  # otherwise garbage collection in a fork copies every page that it visits
    _send(replies, OK, b"")
    zygote = os.getpid()
    while (header := _read(requests, REQUEST.size, parent)) is not None:
        size, cpu_s, wall_s, memory_bytes = REQUEST.unpack(header)
        payload = _read(requests, size, parent)
        if payload is None:
            return
        receive, send = os.pipe()
        pid = os.fork()
        if pid == 0:
            for fd in (receive, requests, replies):
                os.close(fd)
            run_child(compare, payload, cpu_s, memory_bytes, send, zygote)
        os.close(send)
        try:
            status, data, cpu_s = supervise(pid, receive, requests, wall_s)
        finally:
            os.close(receive)
        _send(replies, status, data, cpu_s)


def _read(fd: int, size: int, parent: int) -> bytes | None:
    """Read exactly `size` bytes; None if the other end is closed or the parent is gone."""
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while len(data) < size:
        # Another fork of the parent may hold the pipe open, so a hang-up is not guaranteed.
        if not poll.poll(POLL_MS):
            if not parent_is(parent):
                return None
            continue
        chunk = os.read(fd, size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def _send(fd: int, status: bytes, data: bytes, cpu_s: float = 0.0) -> None:
    frame = REPLY.pack(status, len(data), cpu_s) + data
    while frame:
        frame = frame[os.write(fd, frame) :]


def main() -> None:
    """Serve requests over stdin and stdout. Output of `print` goes to /dev/null, so that it is not mistaken for a reply."""
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        serve(sys.argv[1], requests, replies)
    sys.exit(0)


if __name__ == "__main__":
    main()
