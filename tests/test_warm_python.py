"""Warm processes of the tests end, hear signals and see their surroundings as Python's own do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_S, wait_for
from processes import below
from warm_python import warm_python

PROGRAM = """
import os, signal, sys
def heard(number, frame):
    print("heard", number, flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, heard)
kind = sys.argv[1]
print(os.getcwd(), os.environ.get("MARK"), sys.argv, sys.stdin.read(), __name__, "torch" in sys.modules, flush=True)
if kind == "raise":
    raise ValueError("of the program")
if kind == "exit":
    sys.exit("said at the end")
if kind == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "break":
    os.kill(os.getpid(), signal.SIGINT)
"""
WAITS = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["end", "raise", "exit", "kill", "break"])
def test_it_does_what_a_cold_one_does(kind: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = []
    for python in ([sys.executable], warm_python()):
        environment = {**os.environ, "MARK": "of the test"}
        command = [*python, "program.py", kind]
        one = subprocess.run(command, cwd=tmp_path, env=environment, input="in", capture_output=True, text=True, timeout=HANG_S)
        last = one.stderr.strip().splitlines()[-1:]
        done.append((one.returncode, one.stdout.replace("False", "True"), last))
    assert done[0] == done[1] and str(tmp_path) in done[0][1]


@pytest.mark.slow
def test_the_server_is_no_child_of_the_test_process() -> None:
    """So that a test which ends all processes that it has started does not end the server."""
    address = warm_python()[-1].encode()
    commands = {path.parent.name: path for path in Path("/proc").glob("[0-9]*/cmdline")}
    servers = {int(pid) for pid, path in commands.items() if _words(path)[-1:] == [address]}
    assert servers and not servers & set(below(os.getpid()))


def _words(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:  # it has ended
        return []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_its_client_reaches_it(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(WAITS)
    client = subprocess.Popen([*warm_python(), str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    with client.stdout as output:
        pid = int(output.readline())
    client.send_signal(number)
    assert client.wait(timeout=HANG_S) == -number
    wait_for(lambda: not Path(f"/proc/{pid}").exists())
