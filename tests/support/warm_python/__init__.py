"""Python processes that begin with torch, transformers and the trainer imported, which takes six seconds elsewhere.

They are real processes, forked from one that has done the imports; arguments, environment, folder, streams, signals and exit
code are as with `sys.executable`. But those of one test process hash strings alike, nothing is imported anew, each has its own
session, and SIGKILL reaches it a moment after its client: a test that is about any of these uses `sys.executable`.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def warm_python() -> list[str]:
    """The beginning of a command, to be used as `[sys.executable]` is."""
    return [sys.executable, "-S", "-I", str(HERE / "client.py"), _server()]


def warm_commands() -> str:
    """A folder for the front of PATH: what is called `verigym` or `python` there is warm."""
    folder = Path(warm_python()[-1]).parent / "bin"
    if not folder.exists():
        folder.mkdir()
        for name, more in (("python", ""), ("verigym", " -m verigym")):
            (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(warm_python())}{more} "$@"\n')
            (folder / name).chmod(0o755)
    return str(folder)


@functools.cache
def _server() -> str:
    """Start the server of this process and return where it listens."""
    folder = tempfile.TemporaryDirectory(prefix="warm-python-", dir="/tmp")  # the path of a socket has at most 107 bytes
    address = f"{folder.name}/socket"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, str(HERE / "server.py"), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert server.stdin is not None and server.stdout is not None
    atexit.register(folder.cleanup)
    atexit.register(server.stdin.close)  # the server ends with its input
    with server.stdout as output:
        said = output.readline()
    assert said == "ready\n" and server.wait() == 0  # the server itself is no child of this process
    return address
