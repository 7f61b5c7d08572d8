"""Runs one after another in one worker: what forks them survives each of them, and none finds anything of another."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from needs import needs
from processes import eventually

from verigym.sandbox import Limits, Program, RunStatus, SandboxFailure, TestSuite
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.job import Job

LIMITS = Limits(wall_s=60, cpu_s=5, memory_mb=256, files_mb=16, inodes=100)


@pytest.fixture
def box() -> Iterator[LocalSandbox]:
    sandbox = LocalSandbox(workers=1, level=3)
    yield sandbox
    sandbox.close()


def text(box: LocalSandbox, source: str, limits: Limits = LIMITS, **more: object) -> str:
    result = box.run(Program(source=source, **more), b"", limits)  # type: ignore[arg-type]
    assert result.ok, result
    return result.stdout.decode()


def processes(box: LocalSandbox) -> list[int]:
    """The cell and below it the zygote, of the one worker."""
    (worker,) = box._pool._all.values()
    pid = worker.process.pid
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def mounts(box: LocalSandbox) -> list[str]:
    return [line.split()[0] for line in Path(f"/proc/{processes(box)[0]}/mountinfo").read_text().splitlines()]


def test_one_process_forks_them_all_and_holds_no_privilege(box: LocalSandbox) -> None:
    text(box, "")
    before = processes(box)
    for _ in range(5):
        text(box, "")
    assert processes(box) == before and len(before) == 2
    status = dict(line.split(":", 1) for line in Path(f"/proc/{before[1]}/status").read_text().splitlines() if ":" in line)
    assert {status[f"Cap{name}"].strip() for name in ("Eff", "Prm", "Inh", "Bnd", "Amb")} == {"0" * 16}
    assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
    assert status["NSpid"].split()[-1] == "1"
    assert "0" not in status["Uid"].split()


@pytest.mark.parametrize(
    "attack",
    [
        "for n in range(1, 65):\n    try: os.kill(1, n)\n    except OSError: pass",
        "for n in set(range(1, 65)) - {9, 19}:\n    try: signal.signal(n, signal.SIG_IGN); os.kill(0, n)\n"
        "    except (OSError, ValueError): pass",
        "os.kill(-1, 9)",
        "import resource\nfor k in range(16):\n    try: resource.prlimit(1, k, (0, 0))\n    except OSError: pass",
        "for f in (lambda: os.sched_setaffinity(1, {0}), lambda: os.setpriority(0, 1, 19),\n"
        " lambda: os.setpriority(2, os.getuid(), 19), lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))):\n"
        "    try: f()\n    except OSError: pass",
        "import fcntl\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, 1); fcntl.fcntl(r, fcntl.F_SETSIG, 9)\n"
        "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); os.write(w, b'x')",
        "while os.fork() == 0: pass",
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "for _ in range(20):\n    if os.fork() == 0: x = bytearray(b'1') * (150 << 20); time.sleep(9)\ntime.sleep(9)",
    ],
    ids="signals group everybody limits scheduling ownership forks memory memory-of-many".split(),
)
@pytest.mark.slow
def test_no_run_harms_what_forks_the_next(box: LocalSandbox, attack: str) -> None:
    state = (
        "import os, resource\nprint([resource.getrlimit(k) for k in range(16)], os.sched_getaffinity(0), os.getpriority(0, 0))"
    )
    before = text(box, state), processes(box)
    box.run(
        Program(source=f"import os, signal, time\n{attack}"),
        b"",
        Limits(wall_s=2, cpu_s=2, memory_mb=256, files_mb=16, inodes=100),
    )
    assert (text(box, state), processes(box)) == before


@pytest.mark.parametrize("which", ["cell", "zygote"])
def test_when_either_is_killed_the_run_is_made_again_by_new_ones(box: LocalSandbox, which: str) -> None:
    text(box, "")
    pid = processes(box)[which == "zygote"]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(text, box, "import time; time.sleep(1); print(6)")
        time.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
        assert running.result() == "6\n"
    assert pid not in processes(box) and len(box._pool._all) == 1
    assert eventually(lambda: not Path(f"/proc/{pid}").exists(), 120)


LOOK = """
import os, stat
for top in ("..", "/tmp", "/dev/shm", "."):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            print(os.path.relpath(os.path.join(folder, name), "/box/run"))
print(oct(os.stat("..").st_mode), os.listxattr(".."))
v = os.statvfs(".")
print(v.f_blocks, v.f_files, v.f_bfree - v.f_blocks, v.f_ffree - v.f_files)
"""


@pytest.mark.parametrize(
    "mess",
    [
        "open('x', 'w').write('1')",
        "open('/tmp/x', 'wb').write(b'1' * 3_000_000); open('/dev/shm/y', 'w')",
        "os.makedirs('a/b/c/d'); open('a/b/c/d/x', 'w'); os.chmod('a/b', 0)",
        "os.unlink('main.py')",
        "os.unlink('main.py'); os.mkdir('main.py')",
        "os.rename('main.py', '/tmp/main.py'); os.symlink('/etc/passwd', 'main.py')",
        "os.chmod('.', 0); os.chmod('/tmp', 0o1777)",
        "[open(f'f{i}', 'w') for i in range(60)]",
        "os.link('main.py', '/tmp/again')",
        "os.mkfifo('pipe')",
        "import socket; socket.socket(socket.AF_UNIX).bind('s')",
        "os.setxattr('.', 'user.mark', b'1')",
        "f = open('held', 'wb'); f.write(b'1' * 100_000); f.flush(); os.unlink('held')",
        "f = open('held', 'wb'); f.write(b'1' * 100_000); f.flush()\nif os.fork() == 0: time.sleep(60)",
        "open('/tmp/' + 'n' * 255, 'w'); open(b'\\xff\\xfe', 'w')",
        "import ctypes; ctypes.CDLL(None).rename(b'../shm', b'../elsewhere'); ctypes.CDLL(None).rmdir(b'../tmp')",
        "os.chmod('..', 0o700)",
        "os.setxattr('..', 'user.mark', b'1')",
        "open('../stdout', 'w'); open('../x', 'w')",
    ],
)
def test_the_next_run_finds_what_the_first_found(box: LocalSandbox, mess: str) -> None:
    clean = text(box, LOOK)
    for _ in range(2):
        box.run(
            Program(
                source=f"import os, time\ntry:\n    {mess.splitlines()[0]}\nexcept OSError: pass\n"
                + "\n".join(mess.splitlines()[1:])
            )
        )
        assert text(box, LOOK) == clean


def test_the_file_system_is_mounted_once_and_anew_only_where_it_must_be(box: LocalSandbox) -> None:
    def kept() -> bool:
        text(box, "")
        before = mounts(box)
        text(box, "open('x', 'w').write('1')")
        text(box, "", Limits(files_mb=8, inodes=50))
        text(box, "import os; os.chmod('.', 0)")  # of a folder that is gone afterwards
        return mounts(box) == before

    # The kernel gives back the inodes of removed files a little later. On a busy machine they may still count when the cell
    # looks: it then mounts anew, to be sure that nothing is left.
    assert any(kept() for _ in range(20))


@pytest.mark.parametrize("order", [(16, 4), (4, 16)])
def test_each_run_has_its_own_limits_on_files(box: LocalSandbox, order: tuple[int, int]) -> None:
    fill = """
n = 0
try:
    with open("x", "wb") as file:
        while True: n += file.write(b"x" * (1 << 20))
except OSError: pass
import os
v = os.statvfs(".")
print(round(v.f_blocks * v.f_frsize / (1 << 20)), v.f_files)
"""
    for megabytes in order:
        said = text(box, fill, Limits(files_mb=megabytes, inodes=10 * megabytes, memory_mb=256))
        size, inodes = map(int, said.split())
        assert (size - megabytes) in (0, 1) and 0 <= inodes - 10 * megabytes <= 32


@pytest.mark.slow
def test_files_come_where_they_belong_and_nowhere_else(box: LocalSandbox) -> None:
    found = text(
        box,
        "import os\nprint(open('a/b/c.txt').read(), open('d').read(), os.stat('a/b').st_uid == os.getuid())\n"
        "os.rename('a', 'z')",
        files={"a/b/c.txt": b"1", "a/e": b"2", "d": b"3"},
    )
    assert found == "1 3 True\n"
    for path in ("../x", "/etc/x", "a/../../x", "a//b", "", ".", "a/."):
        with pytest.raises(ValueError, match="below the work folder"):
            Program(source="", files={path: b"1"})
        with pytest.raises(SandboxFailure, match="below the work folder"):  # the cell does not rely on it
            box.execute(Job(mode="program", files={"main.py": b"", path: b"1"}, limits=LIMITS))
    assert text(box, "print(7)") == "7\n"


def test_a_run_is_a_run_of_python_as_if_there_had_been_no_other(box: LocalSandbox) -> None:
    said = text(
        box,
        """
import os, sys, random, signal, linecache
ours = [name for name in sys.modules if "solution" in name or "verigym" in name]
print(ours, list(linecache.cache), sys.getrecursionlimit() < 1020)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, sys.argv, sys.path[0], os.getpgid(0) == os.getpid())
first = random.random()
pid = os.fork()
if not pid: os._exit(random.random() == random.Random(0).random())
print(first == random.Random(0).random(), os.waitpid(pid, 0)[1], open("/dev/stdin").read() == "", os.getppid(), os.nice(0))
print(sys.stdin.fileno(), sys.stdout.isatty(), sys.stdout.encoding, sys.stdin.seekable())
""",
    )
    lines = said.splitlines()
    assert lines[0] == "[] [] True"
    assert lines[1] == "True ['/box/run/work/main.py'] /box/run/work True"
    assert lines[2] == f"True 0 True 1 {os.nice(0)}"
    assert lines[3] == "0 False utf-8 True"


def test_tests_too_leave_nothing(box: LocalSandbox) -> None:
    suite = TestSuite(kind="assert", code="import sys\nsys.marked = 1\nf.x = 1\nassert f(1) == 2")
    verdict = box.test(Program(source="import sys\nsys.marked = 1\ndef f(n): return n + 1"), suite, LIMITS)
    assert verdict.fault is not None or verdict.passed
    looks = TestSuite(kind="assert", code="import sys\nassert not hasattr(sys, 'marked') and f(1) == 2")
    assert box.test(Program(source="import sys\ndef f(n): return n + 1 + hasattr(sys, 'marked')"), looks, LIMITS).passed


def test_a_candidate_ends_in_the_middle_of_many_files_and_time_goes_on(box: LocalSandbox) -> None:
    many = "import os\nfor i in range(60): os.makedirs(f'd{i}'); open(f'd{i}/x', 'w')\nwhile True: pass"
    result = box.run(Program(source=many), b"", Limits(wall_s=0.5, cpu_s=5, memory_mb=256, inodes=300))
    assert result.status is RunStatus.TIME
    assert text(box, "import os; print(os.listdir())") == "['main.py']\n"


def test_the_kernel_would_take_a_run_first_and_never_what_forks_it(box: LocalSandbox) -> None:
    assert int(text(box, "print(open('/proc/self/oom_score_adj').read())")) == 1000
    own = int(Path("/proc/self/oom_score_adj").read_text())

    def spared() -> bool:  # once the next is forked
        return [int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in processes(box)] == [own, own]

    assert eventually(spared, 120)
    # Many small processes: the zygote is the largest of all.
    source = """
import os, socket
for _ in range(24):
    if not os.fork():
        os.execv("/usr/bin/perl", ["perl", "-e", "use Socket; my @k; while (1) { "
            'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or sleep 9; send($a, "x" x 90000, 64); push @k, $a, $b }'])
import time; time.sleep(9)
"""
    before = processes(box)
    result = box.run(Program(source=source), b"", Limits(wall_s=3, cpu_s=9, memory_mb=64, processes=32))
    assert result.status in (RunStatus.MEMORY, RunStatus.TIME)
    assert processes(box) == before


CYCLE = """
import array, fcntl, os, socket
name = socket.socket(socket.AF_UNIX); name.bind("\\0left-behind")
lock = os.open("/usr/bin/env", os.O_RDONLY); fcntl.flock(lock, fcntl.LOCK_EX)
big = os.open("big", os.O_RDWR | os.O_CREAT); os.write(big, b"x" * 5_000_000); os.unlink("big")
a, b = socket.socketpair()
for s, fds in ((a, [b.fileno(), name.fileno(), lock, big]), (b, [a.fileno()])):
    s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
os._exit(0)
"""


def test_sockets_in_messages_to_one_another_do_not_outlive_their_run(box: LocalSandbox) -> None:
    look = """
import fcntl, os, socket
fcntl.flock(os.open("/usr/bin/env", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
socket.socket(socket.AF_UNIX).bind("\\0left-behind")
print([line for line in open("/proc/net/unix") if "left" in line])
"""
    for _ in range(10):
        text(box, CYCLE)
        assert text(box, look) == "[]\n"


def test_numbers_of_files_do_not_tell_of_earlier_ones(box: LocalSandbox) -> None:
    first = text(box, "import os; print(os.stat('.').st_ino)")
    text(box, "for i in range(50): open(f'f{i}', 'w')", Limits(inodes=100))
    text(box, "", Limits(inodes=100))
    again = int(text(box, "import os; print(os.stat('.').st_ino)"))
    assert again < int(first) + 20


@needs("gcc")
def test_an_executable_that_spoils_itself_is_the_programs_own_failure(box: LocalSandbox) -> None:
    source = "__attribute__((section(\".interp\"), used)) static const char s[] = {'/', 'n'};\nint main(void) { return 0; }"
    result = box.run(Program(source=source, language="c"), b"", LIMITS)
    assert result.status is RunStatus.RUNTIME and result.exit_code == 126 and b"./main" in result.stderr


@pytest.mark.parametrize(
    "attempt",
    [
        "import fcntl; fcntl.fcntl(open(os.__file__), fcntl.F_SETLEASE, fcntl.F_RDLCK)",
        "import fcntl; fcntl.fcntl(os.open('/usr', os.O_RDONLY), fcntl.F_NOTIFY, 2)",
        "import fcntl; fcntl.ioctl(os.open('.', os.O_RDONLY), 0x40086602, b'\\x40' + bytes(7))",
        "import ctypes; libc = ctypes.CDLL(None, use_errno=True); assert libc.inotify_init1(0) >= 0",
        "import ctypes; libc = ctypes.CDLL(None); assert libc.syscall(206, 8, ctypes.create_string_buffer(8)) >= 0",
    ],
)
def test_nobody_outside_is_seen_or_held_up(box: LocalSandbox, attempt: str) -> None:
    source = f"import os\ntry: {attempt}\nexcept (OSError, AssertionError): print('refused')"
    assert text(box, source) == "refused\n"


def test_a_function_that_becomes_a_value_is_asked_for_again(box: LocalSandbox) -> None:
    program = Program(source="def total(): pass\n\ndef put(n):\n    global total\n    total = n\n")
    assert box.test(program, TestSuite(kind="assert", code="put(3)\nassert total == 3"), LIMITS).passed


def test_a_test_side_that_is_killed_is_no_verdict(box: LocalSandbox) -> None:
    suite = TestSuite(kind="assert", code="import os\nos.kill(os.getpid(), 9)")
    with pytest.raises(SandboxFailure, match="the tests was killed"):
        box.test(Program(source="def f(n): return n + 1"), suite, LIMITS)


def test_a_zygote_that_dies_while_idle_is_noticed(box: LocalSandbox) -> None:
    text(box, "")
    os.kill(processes(box)[1], signal.SIGKILL)
    (worker,) = box._pool._all.values()
    assert eventually(lambda: not worker.alive, 120)
    with box.session(Program(source="def f(): return 1"), LIMITS) as candidate:  # which is not tried twice
        assert candidate.call("f").value == 1  # type: ignore[union-attr]
