"""The local back end for real: results, limits, the ladder, and what is left when things go wrong."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cpu_time import within
from held import Held
from needs import lack
from processes import send

from tests.sandbox.traces import Traces
from verigym.sandbox import Answer, Limits, Program, RunStatus, SandboxFailure, TestSuite, open_sandbox
from verigym.sandbox.backends.cgroup import sweep_stale
from verigym.sandbox.backends.local import LocalSandbox, _closed_to_others
from verigym.sandbox.view import interpreter

# No program here is meant to run into its wall limit, unless it says so: a machine may be as busy as it likes.
LIMITS = Limits(wall_s=60, cpu_s=5, memory_mb=256)
DOUBLE = Program(source="print(2 * int(input()))")
_NOSY = """
import os, socket
def attempt(name, do):
    try: do(); print("LEAK", name)
    except OSError: pass
attempt("network", lambda: socket.create_connection(("127.0.0.1", 45871), 1))
for path in ("/etc/shadow", "/root/.bashrc", "/proc/1/environ", "/dev/kmsg"): attempt(path, lambda: open(path).read(1))
for path in ("/root", "/home", "/var/lib", "/etc"): attempt(path, lambda: os.listdir(path) and os.open(path + "/x", os.O_CREAT))
print("looked")
"""


@pytest.fixture(scope="module")
def box() -> Iterator[LocalSandbox]:
    sandbox = LocalSandbox(workers=2)
    yield sandbox
    sandbox.close()


def python(box: LocalSandbox, source: str, stdin: bytes = b"", **limits: float) -> str:
    result = box.run(Program(source=source), stdin, Limits(**{"wall_s": 60, "cpu_s": 5, "memory_mb": 256, **limits}))  # type: ignore[arg-type]
    assert result.ok, result
    return result.stdout.decode()


def test_a_program_gets_its_input_and_gives_its_output(box: LocalSandbox) -> None:
    result = box.run(DOUBLE, b"21\n", LIMITS)
    assert (result.status, result.stdout, result.stderr, result.exit_code, result.signal) == (
        RunStatus.OK,
        b"42\n",
        b"",
        0,
        None,
    )
    assert 0 < result.cpu_s < 5 and 0 < result.wall_s < 60 and 1 < result.memory_mb < 256


@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        ("1/0", RunStatus.RUNTIME, "exit code 1"),
        ("import sys; sys.exit(3)", RunStatus.RUNTIME, "exit code 3"),
        ("import os; os.abort()", RunStatus.RUNTIME, "ended by SIGABRT"),
        ("import time; time.sleep(60)", RunStatus.TIME, "the wall time limit"),
        ("while True: pass", RunStatus.TIME, "limit"),
        ("x = bytearray(1 << 30)", RunStatus.MEMORY, "the memory limit of 128 MiB"),
        ("print('x' * 5_000_000)", RunStatus.OUTPUT, "the output limit of 64 KiB"),
        ("import os\nwhile True: os.write(2, b'e' * 65536)", RunStatus.OUTPUT, "the output limit of 64 KiB"),
    ],
)
def test_every_end_has_its_status(box: LocalSandbox, source: str, status: RunStatus, message: str) -> None:
    wall_s = 1 if "sleep" in source else 60
    result = box.run(Program(source=source), b"", Limits(wall_s=wall_s, cpu_s=1, memory_mb=128, output_kb=64))
    assert result.status is status
    assert message in result.message
    assert len(result.stdout) <= 64 * 1024 and len(result.stderr) <= 64 * 1024


def test_the_sum_over_processes_counts_as_cpu_time(box: LocalSandbox) -> None:
    source = """
import os, time
children = [os.fork() for _ in range(2)]
end = time.process_time() + 0.4
while time.process_time() < end: pass
if 0 not in children:
    for child in children: os.waitpid(child, 0)
"""
    result = box.run(Program(source=source), b"", Limits(wall_s=60, cpu_s=1, memory_mb=256))
    assert result.status is RunStatus.TIME and "CPU" in result.message


def test_files_come_back_and_links_do_not(box: LocalSandbox) -> None:
    source = """
import os
open("a.txt", "w").write("A")
os.mkdir("d"); open("d/b.bin", "wb").write(bytes(range(256)))
os.symlink("/etc/passwd", "link"); os.symlink("/etc", "dir"); os.mkfifo("pipe"); os.link("a.txt", "hard")
open("c.txt", "w").write("C")
"""
    wanted = ["a.txt", "d/b.bin", "link", "dir/passwd", "pipe", "hard", "missing", "c.txt"]
    result = box.run(Program(source=source), b"", LIMITS, collect=wanted)
    assert result.ok
    assert dict(result.files) == {"d/b.bin": bytes(range(256)), "c.txt": b"C"}


def test_files_go_in(box: LocalSandbox) -> None:
    program = Program(
        source="import helper; print(helper.x, open('data/in.txt').read())", files={"helper.py": b"x = 1", "data/in.txt": b"hi"}
    )
    assert box.run(program, b"", LIMITS).stdout == b"1 hi\n"


def test_nothing_of_the_host_is_there(box: LocalSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "s3cr3t")
    with tempfile.NamedTemporaryFile(prefix="verigym-secret-", dir="/tmp"):
        fresh = LocalSandbox(workers=1)
        names = python(
            fresh,
            "import os; print(sorted(os.environ), os.listdir('/tmp'), os.listdir('/'), os.getuid(), os.getcwd(), "
            f"os.path.exists({str(Path(__file__))!r}))",
        )
        fresh.close()
    assert "CANARY" not in names and "secret" not in names and names.rstrip().endswith("False")
    if not any(path.startswith("/home/") for path in (sys.prefix, sys.base_prefix)):  # then Python and its packages are there
        assert "'home'" not in names


def test_the_work_directory_is_limited_in_bytes_and_in_files(box: LocalSandbox) -> None:
    fill = (
        "import errno\ntry:\n    open('x', 'wb').write(b'1' * (16 << 20))\nexcept OSError as e: print(errno.errorcode[e.errno])"
    )
    assert python(box, fill, files_mb=8).strip() in ("ENOSPC", "EFBIG")
    many = """
import errno
n = 0
try:
    while True: open(f"f{n}", "w").close(); n += 1
except OSError as e: print(errno.errorcode[e.errno], n)
"""
    code, count = python(box, many, inodes=100).split()
    assert code == "ENOSPC" and int(count) <= 120


def test_runs_do_not_see_each_other(box: LocalSandbox) -> None:
    python(box, "open('left.txt', 'w').write('x'); open('/tmp/left', 'w').write('x'); open('/dev/shm/left', 'w').write('x')")
    assert python(box, "import os; print(os.listdir('.'), os.listdir('/tmp'), os.listdir('/dev/shm'))") == "['main.py'] [] []\n"


def test_hash_and_random_are_the_same_every_time(box: LocalSandbox) -> None:
    source = "import random; print(hash('verigym'), random.random(), list({'a', 'b', 'c'}))"
    assert python(box, source) == python(box, source)


def test_daemons_end_with_the_run(box: LocalSandbox) -> None:
    python(box, "")  # starts its worker, which stays
    before = Traces()
    source = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(600)
    os._exit(0)
print("done")
"""
    assert python(box, source) == "done\n"
    assert not before.left()


def test_sessions_answer_and_say_how_they_ended(box: LocalSandbox) -> None:
    with box.session(
        Program(source="import time\ndef f(n): return 2 * n\ndef hang(): time.sleep(600)"),
        Limits(wall_s=3, cpu_s=5),
    ) as session:
        assert "f" in session.loaded.names  # type: ignore[union-attr]
        assert [session.call("f", [n]).value for n in (3, -1)] == [6, -2]  # type: ignore[union-attr]
        ended = session.call("hang")
        assert ended.result.status is RunStatus.TIME  # type: ignore[union-attr]
        assert session.call("f", [1]) == ended
    with box.session(Program(source="import os\ndef die(): os._exit(0)"), LIMITS) as session:
        assert session.call("die").result.status is RunStatus.RUNTIME  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="Python only"), box.session(Program(source="", language="bash"), LIMITS):
        pass


def test_a_session_returns_the_arguments_that_a_call_changed(box: LocalSandbox) -> None:
    source = "def grow(xs, by=None):\n    xs.append(1)\n    by['a'] = 2\ndef same(xs): return sorted(xs)"
    with box.session(Program(source=source), LIMITS) as session:
        assert session.call("grow", [[0]], {"by": {"b": 1}}) == Answer(None, {0: [0, 1], "by": {"b": 1, "a": 2}})
        assert [session.call("same", [xs]) for xs in ([3, 1], {3, 1, 2})] == [Answer([1, 3]), Answer([1, 2, 3])]


@pytest.mark.parametrize("level", [2, 3])
def test_every_level_runs_and_cleans_up(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if level == 2 and (closed := _closed_to_others(interpreter())):
        lack("elsewhere", f"runs of level 2 as root cannot enter {closed}, where this Python is")
    folder = Path(tempfile.mkdtemp())  # pytest's own cannot be entered by the uids of runs
    folder.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = Traces()
    sandbox = LocalSandbox(workers=1, level=level)
    try:
        assert sandbox.run(DOUBLE, b"4\n", LIMITS).stdout == b"8\n"
        assert sandbox.level == level
        verdict = sandbox.test(
            Program(source="def f(n): return n + 1"), TestSuite(kind="assert", code="assert f(1) == 2"), LIMITS
        )
        assert verdict.passed, verdict
        daemon = (
            "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(600)\nopen('x','w').write('1')\nos.chmod('.', 0)"
        )
        sandbox.run(Program(source=daemon), b"", LIMITS)
        assert sandbox.run(DOUBLE, b"4\n", LIMITS).stdout == b"8\n"
        assert sandbox.run(Program(source=_NOSY), b"", LIMITS).stdout == b"looked\n"
    finally:
        sandbox.close()
    assert not before.left()
    folder.rmdir()  # fails unless it is empty


def test_the_unsafe_level_is_refused_unless_asked_for() -> None:
    with pytest.raises(SandboxFailure, match="allow_unsafe=True") as caught:
        LocalSandbox(workers=1, level=1).run(DOUBLE, b"4\n")
    assert not caught.value.retryable
    sandbox = LocalSandbox(workers=1, level=1, allow_unsafe=True)
    assert sandbox.run(DOUBLE, b"4\n", LIMITS).stdout == b"8\n"
    sandbox.close()


def test_a_killed_worker_costs_no_verdict() -> None:
    before = Traces()
    sandbox = LocalSandbox(workers=1)
    sandbox.run(DOUBLE, b"1\n", LIMITS)
    stop = threading.Event()

    verdicts: list[bytes] = []

    def kill() -> None:
        for times in range(1, 4):
            until = time.monotonic() + 600
            while len(verdicts) < 2 * times and time.monotonic() < until:
                time.sleep(0.01)
            send(signal.SIGKILL, [worker.process.pid for worker in list(sandbox._pool._all.values())])
        stop.set()

    killer = threading.Thread(target=kill)
    killer.start()
    slow = Program(source="import time; time.sleep(0.05); print(2 * int(input()))")
    while not stop.is_set():
        try:
            verdicts.append(sandbox.run(slow, b"21\n", LIMITS).stdout)
        except SandboxFailure as failure:
            assert failure.retryable
    killer.join()
    assert len(verdicts) >= 6 and set(verdicts) == {b"42\n"}
    sandbox.close()
    assert not before.left()


@pytest.mark.slow
def test_five_hundred_at_once_all_get_their_own_answer(box: LocalSandbox) -> None:
    before, held = Traces(), Held()
    with ThreadPoolExecutor(500) as threads:
        answers = list(threads.map(lambda n: box.run(DOUBLE, b"%d\n" % n, Limits(wall_s=600, cpu_s=5)).stdout, range(500)))
    assert answers == [b"%d\n" % (2 * n) for n in range(500)]
    assert not before.left(but=("processes", "cgroups"))  # of workers, which stay
    assert len(held.new_descriptors()) <= 8


@pytest.mark.slow
def test_many_in_a_row_leave_memory_and_descriptors_flat(box: LocalSandbox) -> None:
    for n in range(100):
        box.run(DOUBLE, b"%d\n" % n, LIMITS)
    memory, held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, Held()
    for n in range(1000):
        assert box.run(DOUBLE, b"%d\n" % n, LIMITS).stdout == b"%d\n" % (2 * n)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 2048  # KiB
    assert held.new_descriptors() == []


def test_a_fork_gets_workers_of_its_own(box: LocalSandbox) -> None:
    assert box.run(DOUBLE, b"1\n", LIMITS).ok
    pid = os.fork()
    if pid == 0:
        try:
            good = box.run(DOUBLE, b"21\n", LIMITS).stdout == b"42\n"
            box.close()
        except BaseException:
            good = False
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert box.run(DOUBLE, b"21\n", LIMITS).stdout == b"42\n"


@pytest.mark.slow
def test_workers_end_with_a_supervisor_that_is_killed() -> None:
    code = """
import threading, time
from verigym.sandbox import Program, open_sandbox
box = open_sandbox("local")
threading.Thread(target=lambda: box.run(Program(source="import time; time.sleep(600)")), daemon=True).start()
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as supervisor:
        try:
            until = time.monotonic() + 600
            # What waits for the cell, the cell, the run.
            while len((traces := Traces(supervisor.pid)).before["processes"]) < 3 and time.monotonic() < until:
                time.sleep(0.1)
            assert len(traces.before["processes"]) >= 3
        finally:
            supervisor.kill()
    traces.before = {kind: set() if kind != "mounts" else found for kind, found in traces.before.items()}
    assert not traces.left(but=("cgroups",))
    sweep_stale()  # as the next supervisor does
    assert not traces.left()


def test_an_interrupt_ends_the_run() -> None:
    before = Traces()
    sandbox = LocalSandbox(workers=1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        for start in (
            lambda: sandbox.run(Program(source="import time; time.sleep(600)"), b"", Limits(wall_s=600)),
            lambda: sandbox.session(Program(source="import time; time.sleep(600)"), Limits(wall_s=600)).__enter__(),
        ):
            signal.setitimer(signal.ITIMER_REAL, 1.0)
            with pytest.raises(KeyboardInterrupt):
                start()
            assert sandbox.run(DOUBLE, b"21\n", LIMITS).stdout == b"42\n"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    sandbox.close()
    assert not before.left()


def test_closing_fails_the_runs_of_other_threads() -> None:
    before = Traces()
    sandbox = LocalSandbox(workers=2)
    with ThreadPoolExecutor(2) as threads:
        sleeper = Program(source="import time; time.sleep(600)")
        futures = [threads.submit(sandbox.run, sleeper, b"", Limits(wall_s=600)) for _ in range(2)]
        time.sleep(1)
        sandbox.close()
        for future in futures:
            with pytest.raises(SandboxFailure):
                future.result(timeout=600)
    assert not before.left()


def test_a_run_inside_a_session_does_not_wait_for_its_own_place() -> None:
    sandbox = LocalSandbox(workers=1)
    with sandbox.session(Program(source="def f(n): return 2 * n"), LIMITS) as session:
        assert sandbox.run(DOUBLE, b"21\n", LIMITS).stdout == b"42\n"
        assert session.call("f", [4]).value == 8  # type: ignore[union-attr]
    sandbox.close()


def test_answers_that_are_costly_to_read_are_refused_at_once(box: LocalSandbox) -> None:
    quotes = "import os\ndef f(n): os.write(3, (4 << 20).to_bytes(4, 'big') + b','*2000000 + b'\"' + b'\\\\\"' * 1097152)"
    hashes = "from fractions import Fraction\ndef f(n): return {Fraction(k * (2**61 - 1) + 1) for k in range(1500)}"
    for source in (quotes, hashes):
        for _ in within(3):  # unbounded, the first takes a day
            with box.session(Program(source=source), Limits(wall_s=60, cpu_s=10)) as session:
                session.call("f", [1])


def test_the_same_sandbox_is_shared_and_a_closed_one_is_replaced() -> None:
    first = open_sandbox("local", workers=1)
    assert open_sandbox("local", workers=1) is first
    first.close()
    with pytest.raises(SandboxFailure, match="closed"):
        first.run(DOUBLE, b"1\n")
    second = open_sandbox("local", workers=1)
    assert second is not first and second.run(DOUBLE, b"1\n", LIMITS).ok
    second.close()


def test_unknown_names_are_told_apart() -> None:
    with pytest.raises(ValueError, match="did you mean 'local'"):
        open_sandbox("locl")
    with pytest.raises(ValueError, match="no option is called 'worker'; did you mean 'workers'"):
        open_sandbox("local", worker=3)
    with pytest.raises(ValueError, match="wall_s"):
        Limits(wall_s=0)
