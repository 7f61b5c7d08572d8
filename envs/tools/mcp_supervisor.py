"""Runs a server, and ends it with all processes that it started when the parent process is gone or asks for it.

It is a separate program, `python -I -S mcp_supervisor.py PARENT COMMAND...`, which imports nothing of ours and starts in
milliseconds. A server is often started through a launcher (`npx`, `uvx`): killing only the launcher would leave the server
running. The supervisor ends everything when it gets SIGTERM. It also does so when the thread that started it ends, which is a
thread of the process PARENT.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
NOT_STARTED = 127
_WATCHED = (signal.SIGTERM, signal.SIGCHLD)


def main(parent: int, command: list[str]) -> int:
    """Run `command` until it ends or the process `parent` wants it stopped. Return the command's exit code."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        return 1
    prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)  # what the server leaves behind becomes a child of this process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    own = os.getpid()
    server = os.fork()
    if server == 0:
        prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != own:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(NOT_STARTED)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)  # or the server would never see the end of its input
    os.dup2(null, 1)
    code = 1
    while signal.sigwait(_WATCHED) == signal.SIGCHLD:
        ended = _reap(server)
        if ended is not None:
            code = ended
            break
    _kill_all()
    return code


def _reap(server: int) -> int | None:
    """Collect all children that have ended; return the server's exit code if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == server:
            code = os.waitstatus_to_exitcode(status)
            code = 128 - code if code < 0 else code


def _kill_all() -> None:
    """Kill every descendant. Each that dies hands its children to this process, so that the next round finds them."""
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:  # a kernel without this list: the group, to which this process belongs
            os.killpg(0, signal.SIGKILL)
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
