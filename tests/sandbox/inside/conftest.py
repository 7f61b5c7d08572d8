"""Starts the inside code in plain processes that look like the cell's: no site, no safe path, only descriptors."""

from __future__ import annotations

import os
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


def start(call: str, cwd: Path, fds: tuple[int, ...] = (), **streams) -> subprocess.Popen[bytes]:
    """A process that imports our code as the cell does, then makes the call."""
    source = cwd.parent / "verigym-alone"
    if not source.exists():
        # The inside code and nothing else of the package, as the cell has it.
        (source / "verigym/sandbox").mkdir(parents=True)
        for package in ("verigym", "verigym/sandbox"):
            (source / package / "__init__.py").touch()
        (source / "verigym/sandbox/inside").symlink_to(INSIDE)
    code = BOOT.format(source=str(source), site=SITE, call=call)
    # As in a cell, nobody else uses its folder for temporary files: in a shared one, starting pytests delete each other's.
    temporary = cwd.parent / f"{cwd.name}-temporary"
    temporary.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temporary),
    }
    argv = [sys.executable, "-s", "-S", "-P", "-c", code]
    return subprocess.Popen(argv, cwd=cwd, env=environment, pass_fds=fds, **streams)


class Candidate:
    """A program that answers calls."""

    def __init__(self, folder: Path, source: str, stdout=None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.py").write_text(source, encoding="utf-8", errors="surrogatepass")
        self.sock, theirs = socket.socketpair()
        self.sock.settimeout(90)
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
def candidate(tmp_path):
    """Makes candidates; `candidate(source)` gives one that has not yet been asked anything."""
    made = []

    def make(source: str, **options) -> Candidate:
        made.append(Candidate(tmp_path / f"candidate{len(made)}", source, **options))
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
def verdict(tmp_path, candidate):
    """`verdict(program, kind=..., code=...)` runs a test against a candidate in two processes."""
    count = 0

    def run(source: str, *, timeout: float = 90, **job) -> dict:
        nonlocal count
        count += 1
        folder = tmp_path / f"test{count}"
        folder.mkdir()
        made = candidate(source)
        control, theirs = socket.socketpair()
        control.settimeout(timeout)
        with control, theirs, (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            fds = (theirs.fileno(), made.sock.fileno())
            process = start(
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
        ours.out, ours.err = ours.communicate(stdin, timeout=90)
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        real = subprocess.run(
            [sys.executable, "main.py", *args],
            cwd=folder,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=90,
            check=False,
        )
        return ours, real

    return run
