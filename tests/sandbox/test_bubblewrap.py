from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from needs import lack, needs
from processes import below

from verigym.sandbox import Limits, Program, RunResult, SandboxFailure, open_sandbox
from verigym.sandbox.backends.bubblewrap import BubblewrapSandbox
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.event_loop import poll_runs
from verigym.sandbox.inside.walls import seccomp
from verigym.sandbox.inside.walls.paths import placed
from verigym.sandbox.job import Job

QUICK = Limits(wall_s=60, cpu_s=2, memory_mb=256)
PRINT = Program(source="print(1)")


@pytest.fixture
def box() -> Iterator[BubblewrapSandbox]:
    box = BubblewrapSandbox(workers=2)
    try:
        box.check()
    except SandboxFailure as error:
        lack("bubblewrap", error)
    yield box
    box.close()


def test_each_run_has_a_bubblewrap_of_its_own(box: BubblewrapSandbox) -> None:
    before = below(os.getpid())
    spaces = {
        box.run(Program(source="import os; print(os.stat('/proc/self/ns/pid').st_ino)"), limits=QUICK).stdout for _ in range(3)
    }
    assert len(spaces) == 3
    assert not set(below(os.getpid())) - set(before)  # the one that check() left waiting was used up


def test_it_is_at_the_highest_level(box: BubblewrapSandbox) -> None:
    assert box.level == 3
    assert not set(box.describe()["lacks"]) & {"seccomp", "root"}


def test_runs_are_not_root_and_have_a_uid_of_their_own(box: BubblewrapSandbox) -> None:
    uids = [int(box.run(Program(source="import os; print(os.getuid())"), limits=QUICK).stdout) for _ in range(2)]
    assert all(uids)
    assert (uids[0] != uids[1]) == (os.geteuid() == 0)


def test_a_missing_bubblewrap_says_what_to_install() -> None:
    box = BubblewrapSandbox(program="no-such-bwrap")
    for attempt in (box.check, lambda: box.run(PRINT)):
        with pytest.raises(SandboxFailure, match="no-such-bwrap is not installed.*apt-get install bubblewrap") as caught:
            attempt()
        assert not caught.value.retryable


def test_a_bubblewrap_that_fails_is_quoted(tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(
        SandboxFailure, match="does not work here: bwrap: setting up uid map: Permission denied. .*AppArmor"
    ) as caught:
        BubblewrapSandbox(program=str(broken)).check()
    assert not caught.value.retryable


@needs("bubblewrap")
def test_where_namespaces_are_forbidden() -> None:
    """As under a container's default system call filter: a real one, of our own, which refuses new namespaces."""
    if not seccomp.available():
        lack("kernel", "no system call filters")
    code = """
import sys
from verigym.sandbox import SandboxFailure, open_sandbox
from verigym.sandbox.inside.walls import seccomp, syscalls
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
seccomp.install(seccomp.build())
try:
    open_sandbox("bubblewrap").check()
except SandboxFailure as error:
    print(error.retryable, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("False bubblewrap does not work here: "), done
    assert "Operation not permitted" in done.stdout or "No permissions" in done.stdout, done
    assert "seccomp=unconfined" in done.stdout


def test_the_thread_that_started_a_session_may_end(box: BubblewrapSandbox) -> None:
    entered = []
    source = Program(source="def f(x): return x + 1")
    opened = box.session(source, QUICK)
    thread = threading.Thread(target=lambda: entered.append(opened.__enter__()))
    thread.start()
    thread.join()
    time.sleep(0.3)
    try:
        assert entered[0].call("f", [1]).value == 2
    finally:
        opened.__exit__(None, None, None)


def test_nothing_outlives_a_killed_supervisor(box: BubblewrapSandbox) -> None:
    tag = f"orphan-{os.getpid()}"
    code = f"""
from verigym.sandbox import Limits, Program, open_sandbox
source = "exec -a {tag} sleep 300"
open_sandbox("bubblewrap").run(Program(source=source, language="bash"), limits=Limits(wall_s=300))
"""
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    try:
        assert within(300, lambda: tagged(tag))
    finally:
        supervisor.kill()
        supervisor.wait()
    assert within(300, lambda: not tagged(tag))


def test_a_bubblewrap_killed_during_a_run_is_a_failure_of_ours(box: BubblewrapSandbox) -> None:
    tag = f"victim-{os.getpid()}"

    def assassin() -> None:
        for _ in range(2):  # the run is tried once more
            if within(300, lambda: tagged(tag)):
                for pid in tagged(tag):
                    cell = parent(pid)
                    os.kill(parent(cell), signal.SIGKILL)
                within(300, lambda: not tagged(tag))

    thread = threading.Thread(target=assassin)
    thread.start()
    with pytest.raises(SandboxFailure, match="died during a run"):
        box.run(Program(source=f"exec -a {tag} sleep 300", language="bash"), limits=Limits(wall_s=300))
    thread.join()
    assert not tagged(tag)
    assert box.run(PRINT, limits=QUICK).stdout == b"1\n"


def within(seconds: float, condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def tagged(tag: str) -> list[int]:
    """Processes whose first argument is that."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[0] == tag.encode():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@needs("root")
def test_the_memory_of_all_processes_together_is_limited_where_groups_can_be_made(box: BubblewrapSandbox) -> None:
    from verigym.sandbox.backends import cgroup

    works, why = cgroup.probe()
    if not works:
        lack("kernel", f"no memory control group: {why}")
    source = """
import os, time
for _ in range(6):
    if not os.fork():
        block = bytearray(100 << 20)
        for i in range(0, len(block), 4096): block[i] = 1
        time.sleep(600)
os.wait()
raise SystemExit(5)
"""
    result = box.run(Program(source=source), limits=QUICK)
    assert result.status == "memory", result


def test_the_same_options_give_the_same_sandbox() -> None:
    assert open_sandbox("bubblewrap", workers=1) is open_sandbox("bubblewrap", workers=1)
    with pytest.raises(ValueError, match="options of the sandbox back end 'bubblewrap'"):
        open_sandbox("bubblewrap", no_such_option=1)
    with pytest.raises(ValueError, match="workers=0"):
        BubblewrapSandbox(workers=0)


RESERVES = """
import mmap, sys, time
held = mmap.mmap(-1, 2 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for place in range(0, int(sys.argv[1]) << 20, 4096): held[place] = 1
time.sleep(1)
print("done")
"""


@pytest.mark.parametrize("groups", [True, False])
def test_what_is_reserved_does_not_count_where_only_what_is_resident_is_to(box: BubblewrapSandbox, groups: bool) -> None:
    def run(touched_mb: int) -> RunResult:
        argv = ("/usr/bin/env", "python3", "main.py", str(touched_mb))
        limits = Limits(wall_s=120, cpu_s=20, memory_mb=256)
        files = {"main.py": RESERVES.encode()}
        job = Job(mode="exec", argv=argv, files=files, limits=limits, address_space=False, reserve_mb=4096)
        worker = box._make()
        group = worker.cgroup
        if not groups:
            worker.cgroup = None
        started = worker.start(job, lambda it: it.close())
        poll_runs([started])
        if not groups and group is not None:
            group.remove()
        return started.outcome()

    assert run(20).stdout == b"done\n"
    assert run(1000).status == "memory"


def test_programs_may_be_given_more_to_read(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    tmp_path.chmod(0o755)
    folder.joinpath("text").write_text("read me")
    given = [str(folder)]
    for box in (BubblewrapSandbox(workers=1, read_only=given), LocalSandbox(workers=1, level=3, read_only=given)):
        try:
            box.check()
        except SandboxFailure as error:
            lack("bubblewrap" if box.name == "bubblewrap" else "sandbox", error)
        seen = placed(str(folder))
        source = f"cat {seen}/text; echo more > {seen}/new || ls {placed(str(tmp_path))} || echo kept"
        result = box.run(Program(source=source, language="bash"), limits=QUICK)
        assert result.stdout == b"read mekept\n", result
        box.close()
    with pytest.raises(ValueError, match="read_only: there is no /no/such"):
        BubblewrapSandbox(workers=1, read_only=["/no/such"])
