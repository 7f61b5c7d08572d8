"""Forks Python processes that have torch, transformers and the trainer imported: `server.py SOCKET`, until its input ends.

A client sends its three standard streams, and as JSON its arguments, environment and folder. It gets the process's number, and
at the end the wait status. When the client is gone, so is the process.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from typing import Any

gc.disable()
import matplotlib.backends.backend_agg  # noqa: E402, F401
import torch.distributed.run  # noqa: E402, F401
import torch.utils.tensorboard  # noqa: E402, F401
import transformers.models.qwen3.modeling_qwen3  # noqa: E402, F401

import verigym.trainer.loop  # noqa: E402
import verigym.trainer.monitoring.report  # noqa: E402, F401

gc.freeze()
gc.enable()


def main(path: str) -> None:
    """Fork a process for each client, as nobody's child: tests end all children of theirs."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        print("ready", flush=True)
        if os.fork():
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that watch over processes are not waited for
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                try:
                    watch_over(client)
                finally:
                    os._exit(0)
            client.close()


def watch_over(client: socket.socket) -> None:
    """Run what the client asks for in a process of its own, tell how it ended, and end it with the client."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, streams, _, _ = socket.recv_fds(client, 1 << 20, 3)
    while not message.endswith(b"\n"):
        more = client.recv(1 << 20)
        if not more:
            return
        message += more
    pid = os.fork()
    if pid == 0:
        client.close()
        run(json.loads(message), streams)
    for stream in streams:
        os.close(stream)
    client.sendall(b"%d\n" % pid)
    process = os.pidfd_open(pid)
    if client in select.select([client, process], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    client.sendall(b"%d\n" % status)


def run(asked: dict[str, Any], streams: list[int]) -> None:
    """Become what `python` with the arguments would be, and end."""
    code = 1
    try:
        os.setsid()
        for stream, number in zip(streams, range(3), strict=True):
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        given = asked["arguments"]
        sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.orig_argv = [sys.executable, *given]
        if given[0] == "-m":
            sys.argv = given[1:]
            sys.path.insert(0, os.getcwd())
            runpy.run_module(given[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = given
            sys.path.insert(0, os.path.dirname(os.path.abspath(given[0])))
            runpy.run_path(given[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
    finish(code)


def finish(code: int) -> None:
    """Do what the interpreter does at its end, but for taking its modules apart, and end."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
