"""Control groups made for real: limits bite and are counted, and nothing is left behind, not even by a killed supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cpu_time import within
from held import Held
from needs import lack, lacking, require

from verigym.sandbox.backends import cgroup
from verigym.sandbox.backends.cgroup import Cgroup, CgroupDirectory, directories_for, find_directories

# The sandbox without the rest of the package, which takes ten times as long to import.
ALONE = f"""
import sys, types
sys.modules.update({{name: types.ModuleType(name) for name in ("verigym", "verigym.sandbox")}})
sys.modules["verigym.sandbox"].__path__ = [{str(Path(__file__).parents[2] / "sandbox")!r}]
"""

MEMORY, WHY = cgroup.probe()
group_needed = lacking("kernel", not MEMORY, f"no memory control groups ({WHY})")


@pytest.fixture
def group() -> Iterator[Cgroup]:
    made = Cgroup.create("test")
    if made is None:
        lack("kernel", f"no control groups ({WHY})")
    yield made
    assert made.remove()


def directories() -> list[str]:
    """Every group of ours that exists where this process could make one."""
    places = {place.path for controller in cgroup.CONTROLLERS for place in directories_for(controller)[0]}
    return [str(path) for place in places for path in Path(place).glob("verigym-*")]


def ours() -> list[str]:
    """This process's groups, but for the cells' of sandboxes that other tests have left open."""
    return [path for path in directories() if f"-{os.getpid()}-" in path and not path.endswith("-cell")]


def escaped(path: Path) -> str:
    """Return a path as the kernel writes it in mountinfo."""
    return str(path).replace("\\", "\\134").replace(" ", "\\040")


def start(group: Cgroup, code: str) -> subprocess.Popen[str]:
    """Start Python that waits until it is in the group, then runs the code."""
    process = subprocess.Popen([sys.executable, "-c", f"input()\n{code}"], stdin=-1, stdout=-1, stderr=-1, text=True)
    group.add(process.pid)
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate("\n", timeout=600)
    return process.returncode, out


def until(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@group_needed
def test_a_memory_hog_is_killed_and_counted(group: Cgroup) -> None:
    group.set_limits(64 << 20, 100)
    assert ended(start(group, "print(len(bytearray(30 << 20)))")) == (0, f"{30 << 20}\n")
    assert group.oom_kills() == 0
    assert ended(start(group, "print(len(bytearray(200 << 20)))")) == (-signal.SIGKILL, "")
    assert group.oom_kills() == 1


@group_needed
def test_memory_is_summed_over_processes(group: Cgroup) -> None:
    group.set_limits(96 << 20, 100)
    code = "import os, time\nb = [os.fork() for _ in range(2)]\nb = bytearray(40 << 20)\ntime.sleep(600)"
    process = start(group, code)
    process.stdin.write("\n")  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]
    assert until(lambda: group.oom_kills() > 0)
    group.kill()
    process.communicate()


def test_processes_are_limited(group: Cgroup) -> None:
    if "pids" not in group.controllers:
        lack("kernel", "no pids control groups")
    group.set_limits(256 << 20, 10)
    code = (
        "import os, time\nfor n in range(50):\n"
        "    try:\n        if not os.fork(): os.closerange(0, 3); time.sleep(600); os._exit(0)\n"
        "    except OSError as error: print(n, error.errno); break"
    )
    assert ended(start(group, code)) == (0, "9 11\n")
    assert len(group.processes()) == 9
    group.kill()
    assert until(lambda: group.processes() == [])


@group_needed
def test_limits_go_up_and_down_and_are_written_only_when_they_change(group: Cgroup) -> None:
    limit = group._path["memory"] + "/" + ("memory.max" if group._version["memory"] == 2 else "memory.limit_in_bytes")
    for size in (64 << 20, 512 << 20, 32 << 20):
        group.set_limits(size, 50)
        assert int(Path(limit).read_text()) == size
    for _ in within(0.1):
        for _ in range(1000):
            group.set_limits(32 << 20, 50)


@group_needed
def test_a_limit_below_what_is_in_use_is_an_error_and_can_be_set_again(group: Cgroup) -> None:
    if group._version["memory"] == 2:
        lack("elsewhere", "version 2 kills instead")
    group.set_limits(128 << 20, 50)
    process = start(group, "b = bytearray(60 << 20)\nprint('ready', flush=True)\nimport time; time.sleep(600)")
    process.stdin.write("\n")  # type: ignore[union-attr]
    process.stdin.flush()  # type: ignore[union-attr]
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with contextlib.suppress(OSError):  # with swap there may be room
        group.set_limits(8 << 20, 50)
    group.kill()
    process.communicate()
    group.set_limits(8 << 20, 50)


def test_removal_kills_and_leaves_nothing(group: Cgroup) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import os, time\nos.fork()\nos.fork()\ntime.sleep(600)"])
    group.add(process.pid)
    assert ours()
    assert group.remove()
    assert process.wait(120) == -signal.SIGKILL
    assert ours() == []
    assert group.remove()


def test_probing_leaves_nothing() -> None:
    held = Held()
    ok, text = cgroup.probe()
    assert ok == ("memory v" in text)
    assert ours() == []
    assert held.new_descriptors() == []


SUPERVISOR = """
import os, subprocess, sys, time
from verigym.sandbox.backends import cgroup
groups = [cgroup.Cgroup.create(f"w{n}") for n in range(2)]
for group in groups:
    child = subprocess.Popen(["/bin/sleep", "900"], stdout=subprocess.DEVNULL)
    group.add(child.pid)
    print(child.pid)
if os.fork() == 0:  # a child that lives on must not lose its own groups
    own = cgroup.Cgroup.create("own")
    print(own.name, flush=True)
    os.close(1)
    time.sleep(900)
    os._exit(0)
time.sleep(900)
"""


@lacking("kernel", not WHY or not MEMORY, f"no control groups ({WHY})")
def test_what_a_killed_supervisor_leaves_is_swept() -> None:
    cgroup.sweep_stale()  # what other tests' supervisors, killed too, have left
    supervisor = subprocess.Popen([sys.executable, "-c", ALONE + SUPERVISOR], stdout=subprocess.PIPE, text=True)
    assert supervisor.stdout is not None
    *sleepers, own = (supervisor.stdout.readline().strip() for _ in range(3))
    grandchild = int(own.split("-")[2])
    mine = f"-{supervisor.pid}-"
    try:
        # Other tests kill supervisors at the same time: how many groups are swept says nothing of this one's.
        own_groups = [path for path in directories() if mine in path]
        cgroup.sweep_stale()
        assert len(own_groups) >= 2 and [path for path in directories() if mine in path] == own_groups, (
            "a living supervisor's groups are not stale"
        )
        supervisor.kill()
        supervisor.wait()
        assert all(os.path.exists(f"/proc/{pid}") for pid in sleepers)
        cgroup.sweep_stale()
        assert until(lambda: not [path for path in directories() if mine in path])
        assert until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in sleepers))
        assert [path for path in directories() if path.endswith(own)]
    finally:
        os.kill(grandchild, signal.SIGKILL)
        supervisor.kill()
        supervisor.wait()
        supervisor.stdout.close()
    assert until(lambda: not os.path.exists(f"/proc/{grandchild}/exe"))
    assert until(lambda: (cgroup.sweep_stale(), [p for p in directories() if p.endswith(own)])[1] == [])


def test_an_ordinary_user_gets_a_reason_or_a_group() -> None:
    require("root")
    code = (
        "import os\nfrom verigym.sandbox.backends import cgroup\nos.setgroups([]); os.setgid(4242); os.setuid(4242)\n"
        "ok, why = cgroup.probe()\ngroup = cgroup.Cgroup.create()\nassert ok == (group is not None), why\n"
        "assert ok or 'denied' in why or 'Read-only' in why or 'give no' in why, why\nprint(cgroup.sweep_stale())"
    )
    done = subprocess.run([sys.executable, "-c", ALONE + code], capture_output=True, text=True, timeout=600)
    assert (done.stdout.strip().isdigit(), done.returncode) == (True, 0), done.stderr  # others on the machine leave groups, too


V1_MOUNTS = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
V1_DOCKER = "33 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"


@pytest.mark.parametrize(
    ("memberships", "mounts", "expected"),
    [
        ("9:cpu:/\n4:memory:/a/b\n0::/\n", V1_MOUNTS, "/sys/fs/cgroup/memory/a/b"),
        ("4:memory:/\n", V1_MOUNTS, "/sys/fs/cgroup/memory"),
        ("4:memory:/docker/abc\n", V1_DOCKER, "/sys/fs/cgroup/memory"),
        ("4:memory:/docker/abc/x\n", V1_DOCKER, "/sys/fs/cgroup/memory/x"),
        ("4:memory:/docker/other\n", V1_DOCKER, None),
        ("4:memory:/\n", "", None),
    ],
)
def test_our_place_in_version_1(memberships: str, mounts: str, expected: str | None) -> None:
    places, reason = find_directories("memory", memberships, mounts)
    assert places == ([CgroupDirectory(expected, 1)] if expected else [])
    assert bool(reason) == (expected is None)


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ({"app": "cpu memory pids", "app/own": ""}, ["app"]),
        ({"app": "", "app/own": "memory"}, ["app/own"]),
        ({"app": "cpu"}, []),
    ],
)
def test_our_place_in_version_2(tmp_path: Path, enabled: dict[str, str], expected: list[str]) -> None:
    (tmp_path / "app/own").mkdir(parents=True)
    for directory, controllers in enabled.items():
        (tmp_path / directory / "cgroup.subtree_control").write_text(controllers + "\n")
    mounts = f"41 31 0:38 / {escaped(tmp_path)} rw - cgroup2 cgroup2 rw\n"
    places, reason = find_directories("memory", "0::/app/own\n", mounts)
    assert places == [CgroupDirectory(str(tmp_path / directory), 2) for directory in expected]
    assert "memory controller" in reason
