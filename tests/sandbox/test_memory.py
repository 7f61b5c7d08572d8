"""What counts against the memory limit of a program in Python: what it may write to, and not what libraries map."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from needs import lack

from verigym.sandbox import Limits, Program, RunStatus, SandboxFailure, TestSuite
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.backends.worker import Worker

LIMITS = Limits(wall_s=60, cpu_s=20, memory_mb=512)
TORCH = "import torch\ndef f(n): return (torch.tensor([n]) * 2).sum().item()\n"


@pytest.fixture(params=[True, False], ids=["control group", "none"])
def box(request: pytest.FixtureRequest) -> Iterator[LocalSandbox]:
    """One whose workers have a control group, if that can be had here, and one whose workers have none."""
    sandbox = LocalSandbox(workers=1)
    make: Callable[[], Worker] = sandbox._make

    def without() -> Worker:
        worker = make()
        if not request.param and worker.cgroup is not None:
            # Whatever the worker has forked by now is in it, unlimited.
            worker.cgroup = None
        return worker

    sandbox._pool._make = without
    yield sandbox
    sandbox.close()


@pytest.mark.slow
def test_torch_works_within_the_default(box: LocalSandbox) -> None:
    assert Limits().memory_mb == 512
    if torch.version.cuda:
        lack("elsewhere", "torch's build for CUDA writes to more than the default memory limit when it is imported")
    ran = box.run(Program(source=f"{TORCH}print(f(3))"), limits=LIMITS)
    assert (ran.status, ran.stdout) == ("ok", b"6\n"), ran
    verdict = box.test(Program(source=TORCH), TestSuite(kind="assert", code="assert f(3) == 6"), LIMITS)
    assert verdict.passed, verdict
    with box.session(Program(source=TORCH), LIMITS) as session:
        assert session.call("f", [3]).value == 6  # type: ignore[union-attr]


HELD = {
    "of its own": "x = bytearray(300 << 20)",
    "of its own, step by step": "x = []\nfor n in range(300): x.append(bytearray(1 << 20))",
    "shared": "import mmap, time\nx = mmap.mmap(-1, 300 << 20)\nfor n in range(0, 300 << 20, 4096): x[n] = 1\ntime.sleep(1)",
    "of numpy": "import numpy as np\nx = np.ones(300 << 17)",
}


@pytest.mark.parametrize("source", HELD.values(), ids=HELD)
def test_what_is_held_counts(box: LocalSandbox, source: str) -> None:
    assert box.run(Program(source=source), limits=Limits(wall_s=60, cpu_s=20, memory_mb=256)).status is RunStatus.MEMORY
    ran = box.run(Program(source=source), limits=LIMITS)
    assert ran.ok, ran


def test_processes_that_share_are_not_counted_as_if_they_did_not(box: LocalSandbox) -> None:
    source = """
import mmap, os, time
x = mmap.mmap(-1, 100 << 20)
for n in range(0, 100 << 20, 4096): x[n] = 1
children = []
for _ in range(8):
    if not (pid := os.fork()):
        sum(x[n] for n in range(0, 100 << 20, 4096))
        time.sleep(0.5)
        os._exit(0)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children])
"""
    ran = box.run(Program(source=source), limits=Limits(wall_s=60, cpu_s=20, memory_mb=256))
    assert ran.stdout == b"[0, 0, 0, 0, 0, 0, 0, 0]\n", ran


def test_a_limit_that_is_too_low_is_said(box: LocalSandbox) -> None:
    try:
        ran = box.run(Program(source="import torch"), limits=Limits(wall_s=60, cpu_s=20, memory_mb=100))
    except SandboxFailure as error:
        pytest.fail(str(error))
    assert ran.status is RunStatus.MEMORY and "the memory limit of 100 MiB" in ran.message, ran
