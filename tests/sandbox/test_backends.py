"""What every back end on this machine must do alike: the same programs, the same results."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from needs import lack

from verigym.sandbox import (
    Answer,
    Ended,
    Limits,
    Loaded,
    Program,
    Raised,
    RunStatus,
    Sandbox,
    SandboxFailure,
    TestSuite,
    open_sandbox,
)

# Wall time decides nothing, unless a test gives less of it.
QUICK = Limits(wall_s=60, cpu_s=3, memory_mb=256, output_kb=256, files_mb=8, inodes=64)
SOURCE = Path(__file__).resolve().parents[2] / "src" / "verigym"
FORKS = """
import os, time
n = 0
try:
    while n < 200:
        if not os.fork(): time.sleep(60)
        n += 1
finally:
    print(n)
"""


@pytest.fixture(scope="module", params=["local", "bubblewrap"])
def box(request: pytest.FixtureRequest) -> Sandbox:
    box = open_sandbox(request.param)
    try:
        box.check()
    except SandboxFailure as error:
        lack("bubblewrap" if request.param == "bubblewrap" else "sandbox", error)
    return box


def python(source: str, **more: Any) -> Program:
    return Program(source=source, **more)


def bash(source: str, **more: Any) -> Program:
    return Program(source=source, language="bash", **more)


def test_what_looks_random_is_the_same_each_time(box: Sandbox) -> None:
    source = "import random\nprint(random.random(), hash('a'), list({'x', 'y', 'z'}), random.Random(5).random())"
    first, second = (box.run(python(source), b"", QUICK) for _ in range(2))
    assert first.ok and first.stdout == second.stdout
    drawn = """
import os, random
for _ in range(2):
    if not os.fork():
        print(random.random(), flush=True)
        os._exit(0)
    os.wait()
"""
    ours = box.run(python(drawn), b"", QUICK).stdout.split()
    assert len(set(ours)) == 2  # forks of a program draw their own, as Python sees to it


def test_stdin_in_every_form(box: Sandbox) -> None:
    data = bytes(range(256)) * 4000
    for source in (
        "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())",
        "import os, sys\nwhile data := os.read(0, 4096): sys.stdout.buffer.write(data)",
        "import sys; sys.stdout.buffer.write(open(0, 'rb').read())",
        "import sys; sys.stdout.buffer.write(open('/dev/stdin', 'rb').read())",
    ):
        result = box.run(python(source), data, replace(QUICK, output_kb=2048))
        assert result.ok and result.stdout == data, (source, result.status, result.stderr)
    assert box.run(bash("cat"), data, replace(QUICK, output_kb=2048)).stdout == data


def test_no_stdin_is_an_empty_one(box: Sandbox) -> None:
    result = box.run(python("import sys; print(repr(sys.stdin.read())); input()"), limits=QUICK)
    assert (result.status, result.stdout) == (RunStatus.RUNTIME, b"''\n")
    assert b"EOFError" in result.stderr


def test_output_and_errors_apart(box: Sandbox) -> None:
    result = box.run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"), limits=QUICK)
    assert (result.status, result.exit_code, result.stdout, result.stderr) == (RunStatus.RUNTIME, 7, b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("source", "status", "exit_code", "signal"),
    [
        ("import os; os._exit(0)", RunStatus.OK, 0, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", RunStatus.RUNTIME, None, 11),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", RunStatus.RUNTIME, None, 9),
        ("import time; time.sleep(60)", RunStatus.TIME, None, 9),
        ("while True: pass", RunStatus.TIME, None, 24),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", RunStatus.TIME, None, 9),
        ("a = []\nwhile True: a.append(bytearray(1 << 20))", RunStatus.MEMORY, 1, None),
        ("while True: print('x' * 4000)", RunStatus.OUTPUT, None, 9),
    ],
)
def test_statuses(box: Sandbox, source: str, status: RunStatus, exit_code: int | None, signal: int | None) -> None:
    result = box.run(
        python(source), limits=replace(QUICK, cpu_s=1, wall_s=1 if status is RunStatus.TIME and "while" not in source else 60)
    )
    assert (result.status, result.exit_code, result.signal) == (status, exit_code, signal), result


def test_output_is_cut_at_its_limit(box: Sandbox) -> None:
    result = box.run(bash("yes"), limits=QUICK)
    assert result.status is RunStatus.OUTPUT
    assert result.stdout == b"y\n" * (128 << 10)


def test_processes_are_limited(box: Sandbox) -> None:
    source = FORKS
    result = box.run(python(source), limits=replace(QUICK, processes=10))
    assert result.status is RunStatus.RUNTIME, result
    assert 5 <= int(result.stdout) <= 10
    assert b"BlockingIOError" in result.stderr


def test_a_fork_bomb_ends(box: Sandbox) -> None:
    result = box.run(bash(":() { : | : & }; :; sleep 600"), limits=replace(QUICK, wall_s=1))
    assert result.status is RunStatus.TIME, result
    assert box.run(python("print(1)"), limits=QUICK).stdout == b"1\n"


def test_files_and_inodes_are_limited(box: Sandbox) -> None:
    result = box.run(python("f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()"), limits=QUICK)
    assert result.status is RunStatus.RUNTIME and b"OSError" in result.stderr, result
    result = box.run(python("n = 0\nwhile True:\n    open(f'{n}', 'w').close()\n    n += 1"), limits=QUICK)
    assert result.status is RunStatus.RUNTIME and b"No space left" in result.stderr, result


def test_the_root_is_read_only_and_holds_nothing_of_ours(box: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the expected answer")
    source = f"""
import os
for path in ("/", "/etc", "/usr", "/usr/lib", "/dev", "/var", "/proc/sys", "/box"):
    try:
        open(path + "/written", "w")
        print("written", path)
    except OSError:
        pass
for path in ({str(secret)!r}, {str(SOURCE)!r}, "/etc/shadow", "/home", "/sys", "/proc/1/environ", "/proc/1/root/etc"):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).read(1)
        print("read", path)
    except OSError:
        pass
print(sorted(os.listdir(".")), open("/tmp/mine", "w").write("x"), open("/dev/shm/mine", "w").write("x"))
"""
    result = box.run(python(source), limits=QUICK)
    assert result.stdout == b"['main.py'] 1 1\n", result
    assert not os.path.exists("/tmp/mine")


def test_what_leads_to_python_is_not_listed(box: Sandbox) -> None:
    source = """
import os, sys
for path in [os.path.realpath(sys.executable), *sys.path]:
    while (path := os.path.dirname(path)) not in ("", "/"):
        if not path.startswith(("/usr", "/box", sys.base_prefix)) and "site-packages" not in path:
            try:
                print(path, os.listdir(path))
            except PermissionError:
                pass
import json, unittest
print(json.__name__)
"""
    result = box.run(python(source), limits=QUICK)
    assert (result.stdout, result.stderr) == (b"json\n", b""), result


def test_there_is_no_network(box: Sandbox) -> None:
    source = """
import socket
print([name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else [])
for family in (socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family, socket.SOCK_STREAM).connect(("127.0.0.1", 1))
    except OSError as error:
        print(type(error).__name__)
"""
    result = box.run(python(source), limits=QUICK)
    assert b"PermissionError\nPermissionError\n" in result.stdout or b"if_nameindex" in result.stderr, result


def test_the_environment_is_empty(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIGYM_SECRET", "x")
    names = box.run(bash("env | cut -d= -f1 | sort"), limits=QUICK).stdout.decode().split()
    assert "VERIGYM_SECRET" not in names
    assert {"HOME", "LANG", "PATH", "PYTHONHASHSEED"} <= set(names)
    hashes = {box.run(python("print(hash('a'))"), limits=QUICK).stdout for _ in range(2)}
    assert len(hashes) == 1


def test_nothing_survives(box: Sandbox) -> None:
    tag = f"survivor-{os.getpid()}-{threading.get_ident()}"
    source = f"""
import os, signal, time
for way in range(4):
    if os.fork() == 0:
        if way & 1: os.setsid()
        if way & 2 and os.fork(): os._exit(0)
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        os.execv("/bin/bash", ["/bin/bash", "-c", "sleep 300; :", {tag!r}])
time.sleep(0.3)
open("/tmp/left", "w").write("x"); open("/dev/shm/left", "w").write("x"); open("left", "w").write("x")
"""
    assert box.run(python(source), limits=QUICK).ok
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and tag in command_line(pid)]
    look = "import os; print(sum((os.listdir(p) for p in ('/tmp', '/dev/shm', '.')), []))"
    assert box.run(python(look), limits=QUICK).stdout == b"['main.py']\n"


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def test_files_in_and_out(box: Sandbox) -> None:
    source = """
import os
print(open("data/in.txt").read())
os.mkdir("out")
open("out/a.bin", "wb").write(bytes(range(256)))
open("plain", "w").write("p")
os.symlink("/etc/passwd", "link")
os.link("plain", "hard")
os.mkfifo("pipe")
os.symlink("out", "folder")
"""
    wanted = ["out/a.bin", "plain", "link", "hard", "pipe", "folder/a.bin", "missing", "out"]
    result = box.run(python(source, files={"data/in.txt": b"hello"}), limits=QUICK, collect=wanted)
    assert result.stdout == b"hello\n", result
    assert dict(result.files) == {"out/a.bin": bytes(range(256))}


@pytest.mark.parametrize("how", ["os.symlink('/etc', cwd)", "open(cwd, 'w')", "os.mkdir(cwd, 0)", "pass"])
def test_a_replaced_work_directory_gives_no_files(box: Sandbox, how: str) -> None:
    source = f"""
import os
cwd = os.getcwd()
open('passwd', 'w')
try: os.rename(cwd, cwd + '.old')
except PermissionError: print('ours')  # as root: its parent is not the run's
else: {how}
"""
    result = box.run(python(source), limits=QUICK, collect=["passwd"])
    assert result.ok and dict(result.files) == ({"passwd": b""} if result.stdout else {}), result


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"args": ("x" * 140_000,)}, "140,0.. characters: expected at most 20,000; pass what is long by standard input"),
        ({"files": {f"f{n}": b"" for n in range(101)}}, "102 files for one run: expected at most 100"),
    ],
)
def test_what_does_not_fit_into_a_message_is_refused_at_once(box: Sandbox, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        box.run(python("", **more), limits=QUICK)
    longest = box.run(python("import sys; print(len(sys.argv[1]))", args=("\x7f" * 19_900,)), limits=QUICK)
    assert longest.stdout == b"19900\n"


def test_sessions(box: Sandbox) -> None:
    source = """
calls = 0
def f(x):
    global calls
    calls += 1
    x.append(calls)
    return sum(x)
def g():
    raise KeyError("k")
"""
    with box.session(python(source), QUICK) as session:
        assert isinstance(session.loaded, Loaded)
        first, second, third = session.call("f", [[1, 2]]), session.call("f", [[5]]), session.call("g", [])
        assert isinstance(first, Answer) and first.value == 4
        assert isinstance(second, Answer) and second.value == 7
        assert isinstance(third, Raised) and third.type == "KeyError"
    with box.session(python("import os\ndef f(): os._exit(0)"), QUICK) as session:
        assert isinstance(session.call("f", []), Ended)


def test_suites(box: Sandbox) -> None:
    suite = TestSuite(kind="assert", code="assert f(2) == 4\nassert f(-1) == -2")
    right = box.test(python("def f(x): return 2 * x"), suite, QUICK)
    wrong = box.test(python("def f(x): return x * x"), suite, QUICK)
    forged = box.test(python("import os\ndef f(x): os._exit(0)"), suite, QUICK)
    assert (right.passed, wrong.passed, forged.passed) == (True, False, False)
    assert wrong.fault == forged.fault == "candidate"


def test_many_threads_get_their_own_answers(box: Sandbox) -> None:
    with ThreadPoolExecutor(6) as threads:
        results = list(threads.map(lambda n: box.run(python("print(int(input()) ** 2)"), b"%d" % n, QUICK), range(24)))
    assert [result.stdout for result in results] == [b"%d\n" % (n * n) for n in range(24)]


def test_a_failing_setup_is_never_the_programs_fault(box: Sandbox) -> None:
    with pytest.raises(SandboxFailure):
        box.run(python("print(1)", files={"a": b"", "a/b": b""}), limits=QUICK)
    assert box.run(python("print(1)"), limits=QUICK).stdout == b"1\n"
