"""Worker processes and services that begin with their modules imported, which takes a third of a second or more elsewhere.

They are children of this process as those of `spawn` and of Popen are, with their environment, folder, descriptors and exit
code; but they are forked from a process that has done the imports. A test that is about how a worker starts runs a script.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import util
from typing import Any

AVAILABLE = os.uname().machine in ("x86_64", "aarch64") and sys.maxsize > 2**32
"""Whether the system calls below are those of this machine; elsewhere the tests start their processes as the product does."""

SERVER = """
import ctypes, fcntl, gc, json, os, resource, signal, socket, sys
gc.disable()
exec(sys.argv[2])
gc.freeze()
gc.enable()
PARENT, SET_TID, CLEAR_TID, GET_TID_ADDRESS = 0x8000, 0x1000000, 0x200000, 40
libc, python = ctypes.CDLL(None, use_errno=True), ctypes.pythonapi
number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
swapped = os.uname().machine == "aarch64"  # where the last two arguments change places

def fork_sibling():
    "Fork a child of this process's parent; as the C library does it, which keeps the thread's number at an address."
    address = ctypes.c_void_p()
    assert libc.prctl(GET_TID_ADDRESS, ctypes.byref(address)) == 0
    tid, flags = ctypes.c_long(address.value), PARENT | SET_TID | CLEAR_TID | signal.SIGCHLD
    places = (ctypes.c_long(0), tid) if swapped else (tid, ctypes.c_long(0))
    python.PyOS_BeforeFork()
    pid = python.syscall(ctypes.c_long(number), ctypes.c_long(flags), ctypes.c_long(0), ctypes.c_long(0), *places)
    (python.PyOS_AfterFork_Parent if pid else python.PyOS_AfterFork_Child)()
    return pid

control = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, fds, _, _ = socket.recv_fds(control, 1 << 20, 60)
    if not message:
        os._exit(0)
    pid = fork_sibling()
    if not pid:
        break
    control.send(b"%d" % pid)
    for fd in fds:
        os.close(fd)
asked = json.loads(message)
fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 500) for fd in fds]
os.closerange(0, 500)
control.detach()
for fd, place in zip(fds, asked["numbers"], strict=True):
    os.dup2(fd, place)
    os.close(fd)
os.environ.clear()
os.environ.update(asked["environment"])
os.chdir(asked["folder"])
sys.argv = ["-c", *asked["arguments"]]
code = asked["code"]
del control, message, fds, fd, place, asked, pid, libc, python, ctypes, fcntl, json, socket, resource
exec(code)
"""


WORKERS = """
import multiprocessing.resource_sharer, multiprocessing.spawn, multiprocessing.util
import verigym.envs.conformance.worker, verigym.envs.grading.child, verigym.envs.sessions.child
import verigym.envs.math.environment
"""


class WarmPython:
    """The process from which others are forked.

    Args:
        imports: what it does first, and they need not do.
    """

    def __init__(self, imports: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            command = [sys.executable, "-c", SERVER, str(theirs.fileno()), imports]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env=environment)

    def fork(self, code: str, arguments: Sequence[str], fds: Mapping[int, int], **where: Any) -> int:
        """Do in a child of this process what `python -c CODE ARGUMENTS` does, and return its number.

        Args:
            code: the program.
            arguments: what comes after it.
            fds: the child's descriptors, each by the one here that it is a copy of.
            where: its `environment` and `folder`.
        """
        asked = {"code": code, "arguments": arguments, "numbers": list(fds), **where}
        with self._lock:
            socket.send_fds(self._control, [json.dumps(asked).encode()], list(fds.values()))
            return int(self._control.recv(100))

    def close(self) -> None:
        """End it; what it has forked goes on."""
        self._control.close()
        self._process.wait()


@functools.cache
def warm_python(imports: str) -> WarmPython:
    """Return the one of this process, which ends with it."""
    made = WarmPython(imports)
    atexit.register(made.close)
    return made


_spawnv_passfds = util.spawnv_passfds


def spawnv_passfds(path: bytes, arguments: Sequence[str], fds: Sequence[int]) -> int:
    """Stand for `multiprocessing.util.spawnv_passfds`."""
    place = arguments.index("-c") + 1
    if "spawn_main" not in arguments[place] or "PYTHONHASHSEED" in os.environ:  # which is read when Python starts
        return _spawnv_passfds(path, arguments, fds)
    numbers = {fd: fd for fd in (0, 1, 2, *fds)}
    where = {"environment": dict(os.environ), "folder": os.getcwd()}
    return warm_python(WORKERS).fork(arguments[place], arguments[place + 1 :], numbers, **where)


class WarmModule(subprocess.Popen[str]):
    """A process that does what `python -m MODULE ARGUMENTS` does, with its output as a pipe of text."""

    def __init__(self, imports: str, arguments: Sequence[str], cwd: str, env: Mapping[str, str], stderr: int) -> None:
        reading, writing = os.pipe()
        with open(os.devnull, "rb") as null:
            code = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_module(sys.argv[0], None, '__main__', True)"
            fds = {0: null.fileno(), 1: writing, 2: stderr}
            self.pid = warm_python(imports).fork(code, arguments, fds, environment=dict(env), folder=cwd)
        os.close(writing)
        self.args, self.returncode = ["python", "-m", *arguments], None
        self.stdin, self.stdout, self.stderr = None, open(reading, encoding="utf-8"), None
        self._child_created, self._communication_started, self._input = True, False, None
        self._waitpid_lock, self._sigint_wait_secs = threading.Lock(), 0.25
