"""Limits in real containers: each run is stopped, says by which limit, and the next one finds everything as it should be."""

from __future__ import annotations

import time

import pytest

from verigym.sandbox import Limits, Program, RunResult, RunStatus, Sandbox
from verigym.sandbox.backends.container import ContainerSandbox

pytestmark = pytest.mark.slow

LIMITS = Limits(wall_s=3, cpu_s=2, memory_mb=128, processes=16, output_kb=64, files_mb=16)


def run(box: Sandbox, source: str, **changes: float) -> RunResult:
    limits = Limits(**{name: changes.get(name, getattr(LIMITS, name)) for name in Limits.__dataclass_fields__})
    started = time.monotonic()
    result = box.run(Program(source=source), limits=limits)
    assert time.monotonic() - started < limits.wall_s + 60
    again = box.run(Program(source="import os; print(os.listdir('.'), os.listdir('/tmp'))"), limits=limits)
    assert again.stdout.startswith(b"['main.py']"), again
    return result


@pytest.mark.parametrize(
    ("source", "changes", "status"),
    [
        ("while True: pass", {"cpu_s": 1}, RunStatus.TIME),
        ("import time; time.sleep(60)", {"wall_s": 0.5}, RunStatus.TIME),
        ("import os, signal; os.kill(0, signal.SIGSTOP)", {"wall_s": 0.5}, RunStatus.TIME),
        ("x = bytearray(1 << 30)", {}, RunStatus.MEMORY),
        ("import os\nwhile True: os.write(1, b'o' * 65536)", {}, RunStatus.OUTPUT),
        ("import os\nwhile True: os.write(2, b'e' * 65536)", {}, RunStatus.OUTPUT),
    ],
    ids=["cpu", "wall", "stopped", "memory", "stdout", "stderr"],
)
def test_what_goes_over_a_limit_is_stopped(box: Sandbox, source: str, changes: dict[str, float], status: RunStatus) -> None:
    result = run(box, source, **changes)
    assert result.status is status, result


def test_memory_of_all_processes_together(box: Sandbox) -> None:
    source = """
import os
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(b"x") * (60 << 20)
        import time; time.sleep(1)
        os._exit(0)
for _ in range(8): print(os.wait()[1])
"""
    assert run(box, source, wall_s=60).status is RunStatus.MEMORY


def test_processes(box: Sandbox) -> None:
    source = """
import os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        n += 1
except OSError as error:
    print(n, type(error).__name__)
"""
    for _ in range(2):  # the first one's children must not count for the second
        count, error = run(box, source).stdout.split()
        assert error == b"BlockingIOError"
        assert 15 <= int(count) <= 16


def test_a_fork_bomb_ends_in_time_and_leaves_nothing(box: Sandbox) -> None:
    result = run(box, "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", wall_s=1)
    assert result.status is RunStatus.TIME


def test_file_space(box: Sandbox) -> None:
    source = """
n = 0
try:
    for i in range(100):
        with open(f"f{i}", "wb", buffering=0) as out:
            n += out.write(bytes(1 << 20))
except OSError as error:
    print(n >> 20, error.errno)
"""
    for _ in range(2):
        count, code = map(int, run(box, source).stdout.split())
        assert code == 28
        assert 14 <= count <= 32


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.makedirs('a/b'); open('a/b/c', 'w').close(); os.chmod('a/b', 0); os.chmod('a', 0); os.chmod('.', 0)",
        "import os\nos.mkdir('x' * 255); p = '.'\nfor i in range(1500): os.mkdir('d'); os.chdir('d')",
        "import os\nos.rmdir(os.getcwd()) if not os.listdir('.') else None\nopen('/dev/shm/left', 'w').write('x')",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: open('/tmp/work/back', 'w').close()",
        "import os\nos.symlink('/', 'root'); os.symlink('loop', 'loop'); os.mkfifo('fifo')",
    ],
    ids=["no-permissions", "deep", "shared-memory", "daemon", "links"],
)
def test_whatever_is_left_is_gone_for_the_next_run(box: Sandbox, source: str) -> None:
    assert isinstance(box, ContainerSandbox)
    run(box, "pass")
    before = len(box._made)
    run(box, source)
    assert len(box._made) == before  # removed, without giving up the container
    seen = box.run(Program(source="import os; print(sorted(os.listdir('/dev/shm')), sorted(os.listdir('/tmp/work')))"))
    assert seen.stdout == b"[] ['main.py']\n"


def test_earlier_payloads_are_in_no_memory(box: Sandbox) -> None:
    secret = "s3cr3t-" + "canary-4711"
    probe = """
half = b"canary-" + str(4711).encode()
found = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        area, rights = line.split()[:2]
        if "r" in rights and "[v" not in line:
            start, end = (int(x, 16) for x in area.split("-"))
            memory.seek(start)
            try: found += memory.read(end - start).count(b"s3cr3t-" + half)
            except OSError: pass
print(found)
"""
    assert isinstance(box, ContainerSandbox)
    for _ in range(2):
        source = (
            f"import sys\nx = {secret!r}\nsys.stdin.read(); print(x * 3); print(x, file=sys.stderr)\nopen('f', 'w').write(x)"
        )
        given = box.run(Program(source=source), stdin=secret.encode() * 100, collect=["f"])
        assert given.files["f"] == secret.encode()
        with box.session(Program(source="def f(x): return x + x")) as session:
            session.call("f", [secret])
        result = box.run(Program(source=probe), limits=Limits(memory_mb=512))
        assert result.stdout == b"0\n", result
    own = box.run(Program(source=f"kept = {secret!r}\n" + probe))
    assert int(own.stdout) > 0  # the probe does find what is there
