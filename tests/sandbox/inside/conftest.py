"""Starts the inside code in plain processes that look like the cell's: no site, no safe path, only descriptors."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from verigym.sandbox.inside.wire import frames
from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import encode

INSIDE = Path(__file__).resolve().parents[3] / "sandbox/inside"
SITE = next(path for path in sys.path if path.endswith("site-packages"))
BOOT = (
    "import sys; sys.path.insert(0, {source!r}); from verigym.sandbox.inside.candidate import calls; "
    "from verigym.sandbox.inside.testside import harness; "
    "sys.path.remove({source!r}); sys.path.append({site!r}); {call}"
)


# Stands where `call` does: forks a process for each request, which then is where the next line would be.
FORKS = """
import json, os, socket, types
control = socket.socket(fileno={fd})
while True:
    message, fds, _, _ = socket.recv_fds(control, 1 << 16, 9)
    if not message:
        os._exit(0)
    asked = json.loads(message)
    if "ended" in asked:
        control.send(b"%d" % os.waitpid(asked["ended"], 0)[1])
        continue
    pid = os.fork()
    if not pid:
        break
    control.send(b"%d" % pid)
    for fd in fds:
        os.close(fd)
import fcntl
fds = [fcntl.fcntl(fd, fcntl.F_DUPFD, 1000) for fd in fds]
os.closerange(0, 1000)
for fd, number in zip(fds, asked["numbers"], strict=True):
    os.dup2(fd, number)
    os.close(fd)
os.chdir(asked["folder"])
os.environ["TMPDIR"] = asked["temporary"]
call = asked["call"]
control.detach()
del control, message, fds, asked, pid, fd, number, fcntl, json, os, socket, types
exec(call)
"""


def code_of(call: str, folder: Path) -> str:
    """A program that imports our code as the cell does, then makes the call."""
    source = folder / "verigym-alone"
    if not source.exists():
        # The inside code and nothing else of the package, as the cell has it.
        (source / "verigym/sandbox").mkdir(parents=True)
        for package in ("verigym", "verigym/sandbox"):
            (source / package / "__init__.py").touch()
        (source / "verigym/sandbox/inside").symlink_to(INSIDE)
    return BOOT.format(source=str(source), site=SITE, call=call)


def temporary_for(cwd: Path) -> str:
    """As in a cell, nobody else uses its folder for temporary files: in a shared one, starting pytests delete each other's."""
    temporary = cwd.parent / f"{cwd.name}-temporary"
    temporary.mkdir(exist_ok=True)
    return str(temporary)


ARGV = [sys.executable, "-s", "-S", "-P", "-c"]
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def start(call: str, cwd: Path, fds: tuple[int, ...] = (), **streams) -> subprocess.Popen[bytes]:
    """A process of its own that makes the call."""
    environment = {**ENVIRONMENT, "TMPDIR": temporary_for(cwd)}
    return subprocess.Popen([*ARGV, code_of(call, cwd.parent)], cwd=cwd, env=environment, pass_fds=fds, **streams)


class Forked:
    """A process of `Forks`."""

    def __init__(self, pid: int, forks: Forks) -> None:
        self.pid, self._forks = pid, forks
        self.returncode: int | None = None

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(int(self._forks.ask({"ended": self.pid})))
        return self.returncode


class Forks:
    """Processes that make calls, forked from one that has imported our code, as in a cell: starting Python takes far longer."""

    def __init__(self, folder: Path) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            call = f"exec({FORKS.format(fd=theirs.fileno())!r})"
            self._process = subprocess.Popen(
                [*ARGV, code_of(call, folder)], cwd=folder, env=ENVIRONMENT, pass_fds=(theirs.fileno(),)
            )

    def ask(self, asked: dict, fds: tuple[int, ...] = ()) -> bytes:
        socket.send_fds(self._control, [json.dumps(asked).encode()], fds)
        return self._control.recv(100)

    def start(self, call: str, cwd: Path, fds: tuple[int, ...] = (), *, stdin: int, stdout, stderr) -> Forked:
        """As `start`, but that the standard streams are given."""
        with open(os.devnull, "rb") as null:
            streams = [null.fileno() if stdin == subprocess.DEVNULL else stdin]
            streams += [stream if isinstance(stream, int) else stream.fileno() for stream in (stdout, stderr)]
            numbers = [*range(3), *fds]
            asked = {"call": call, "folder": str(cwd), "temporary": temporary_for(cwd), "numbers": numbers}
            return Forked(int(self.ask(asked, (*streams, *fds))), self)

    def close(self) -> None:
        self._control.close()
        self._process.wait()


@pytest.fixture(scope="module")
def forks(tmp_path_factory):
    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.close()


class Candidate:
    """A program that answers calls."""

    def __init__(self, folder: Path, source: str, stdout=None, start=start) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text(source, encoding="utf-8", errors="surrogatepass")
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(600)
        self.out = (
            os.open(folder.parent / f"{folder.name}.out", os.O_RDWR | os.O_CREAT | os.O_APPEND) if stdout is None else stdout
        )
        self.err = folder.parent / f"{folder.name}.err"
        with theirs, self.err.open("wb") as err:
            self.process = start(
                f"calls.serve_calls('main.py', {theirs.fileno()}, True)",
                folder,
                (theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=self.out,
                stderr=err,
            )
        self.number = 0

    def loaded(self) -> dict:
        """The first frame."""
        return frames.receive(self.sock)

    def ask(self, body: dict) -> dict:
        self.number += 1
        frames.send(self.sock, {"id": self.number, **body})
        return frames.receive(self.sock)

    def call(self, name: str, *args, **kwargs) -> dict:
        """The raw answer, with its value decoded."""
        body = {
            "call": name,
            "args": [encode(arg) for arg in args],
            "kwargs": {key: encode(arg) for key, arg in kwargs.items()},
        }
        answer = self.ask(body)
        if "value" in answer:
            answer["value"] = decode(answer["value"])
        return answer

    def close(self) -> None:
        self.sock.close()
        self.process.kill()
        self.process.wait()
        if self.out >= 0:
            os.close(self.out)


@pytest.fixture
def candidate(tmp_path, forks):
    """Makes candidates; `candidate(source)` gives one that has not yet been asked anything."""
    made = []

    def make(source: str, **options) -> Candidate:
        made.append(Candidate(tmp_path / f"candidate{len(made)}", source, start=forks.start, **options))
        return made[-1]

    yield make
    for item in made:
        item.close()


@pytest.fixture
def loaded(candidate):
    """`loaded(source)` gives a candidate that has loaded."""

    def make(source: str, **options) -> Candidate:
        made = candidate(source, **options)
        first = made.loaded()
        assert first["op"] == "loaded", first
        made.names = first["names"]
        return made

    return make


@pytest.fixture
def verdict(tmp_path, candidate, forks):
    """`verdict(program, kind=..., code=...)` runs a test against a candidate in two processes."""
    count = 0

    def run(source: str, *, timeout: float = 600, **job) -> dict:
        nonlocal count
        count += 1
        folder = tmp_path / f"test{count}"
        folder.mkdir()
        made = candidate(source)
        control, theirs = socket.socketpair()
        control.settimeout(timeout)
        with control, theirs, (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            fds = (theirs.fileno(), made.sock.fileno())
            process = forks.start(
                f"harness.serve_tests({fds[0]}, {fds[1]})",
                folder,
                fds,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
            theirs.close()
            made.sock.setblocking(True)
            try:
                full = {
                    "kind": "assert",
                    "setup": "",
                    "entry_point": None,
                    "module": "solution",
                    "stdin": "",
                    "stdout": "",
                    **job,
                }
                if full["kind"] == "shared":
                    full["candidate"] = source
                frames.send(control, full)
                made.sock.close()
                try:
                    answer = frames.receive(control)
                    if answer["stage"] == "ready":
                        answer = frames.receive(control)
                except EOFError:
                    raise AssertionError((folder / "err").read_text()) from None
                answer["printed"] = (folder / "out").read_text(errors="replace")
                return answer
            finally:
                process.kill()
                process.wait()

    return run


@pytest.fixture
def run_python(tmp_path):
    """Runs a program with `run_program` and with the real interpreter; gives both results."""

    def run(source: str | bytes, stdin: bytes = b"", *args: str, preload: str = "sys"):
        folder = tmp_path / "program"
        folder.mkdir(exist_ok=True)
        (folder / "main.py").write_bytes(source if isinstance(source, bytes) else source.encode())
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        ours = start(f"import {preload}; calls.run_program('main.py', {list(args)!r})", folder, **pipes)
        ours.out, ours.err = ours.communicate(stdin, timeout=600)
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        real = subprocess.run(
            [sys.executable, "main.py", *args],
            cwd=folder,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=600,
            check=False,
        )
        return ours, real

    return run
