"""On which cores runs are forked, wait and work; and what is only looked at when a run has ended."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import lack, needs

from verigym.sandbox import Limits, Program, RunStatus, TestSuite
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.backends.local_run import LocalRun
from verigym.sandbox.inside.walls import cpu_affinity
from verigym.sandbox.pool import Pool

LIMITS = Limits(wall_s=60, cpu_s=5, memory_mb=256)
USABLE = sorted(os.sched_getaffinity(0))
WHERE = Program(source="import os\nprint(sorted(os.sched_getaffinity(0)))")
several = needs("cores")


class Idle:
    """A worker that does nothing."""

    def __init__(self) -> None:
        self.runs, self.core, self.closed, self.alive = 0, -1, False, True

    def close(self) -> None:
        self.closed = True

    kill = forget = close


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Pool[Idle]:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4, 6})
    return Pool(Idle, slots=2)


@pytest.fixture
def full() -> Iterator[LocalSandbox]:
    """As many workers as cores of the affinity, whatever the quota."""
    sandbox = LocalSandbox(level=3, workers=len(USABLE))
    yield sandbox
    sandbox.close()


def zygotes(box: LocalSandbox) -> list[int]:
    found: list[int] = []
    for worker in box._pool._all.values():
        pid = worker.process.pid
        found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return found


def test_a_slot_has_a_core_only_when_there_is_work_for_all(pool: Pool[Idle]) -> None:
    first = pool.enter()
    assert pool.core(first) == -1
    second = pool.enter()
    assert {pool.core(first), pool.core(second)} == {4, 6}
    assert pool.core(-1) == -1, "who holds no slot has no core"
    pool.leave(second)
    assert pool.core(first) == -1


@pytest.mark.parametrize(("cores", "slots"), [({3}, 2), ({1, 2, 3}, 2)], ids=["one core", "more cores than slots"])
def test_no_slot_has_a_core_where_others_are_free_or_there_is_one(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], slots: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
    pool = Pool(Idle, slots=slots)
    assert [pool.core(pool.enter()) for _ in range(slots)] == [-1] * slots


def test_more_slots_than_cores_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    pool = Pool(Idle, slots=4)
    held = [pool.enter() for _ in range(4)]
    assert sorted(pool.core(slot) for slot in held) == [0, 0, 1, 1]


def test_a_worker_that_was_on_the_core_is_taken_first(pool: Pool[Idle]) -> None:
    one, two, three = pool.take(4), pool.take(6), pool.take(4)
    for worker in (one, two, three):
        pool.give(worker)
    assert pool.take(6) is two
    assert pool.take(6) is three and three.core == 6, "of none that was there, the last"
    assert pool.take() is one and one.core == -1


def test_a_worker_that_is_closed_does_not_come_back(pool: Pool[Idle]) -> None:
    worker = pool.take()
    worker.close()
    pool.give(worker)
    assert pool.take() is not worker


@several
def test_what_forks_stays_on_a_core_and_programs_use_all(full: LocalSandbox) -> None:
    bound = 0
    for _ in range(70):  # two or three times, the kernel may choose anew where it wakes up
        result = full.run(WHERE, b"", LIMITS)
        assert result.stdout.decode().strip() == str(USABLE), result
        (zygote,) = zygotes(full)
        bound += len(os.sched_getaffinity(zygote)) == 1
    assert bound > 60


@several
def test_when_all_are_busy_each_slot_forks_on_its_own(full: LocalSandbox) -> None:
    everyone = threading.Barrier(len(USABLE))
    found: dict[int, str] = {}

    def work(number: int) -> None:
        with full.slot():
            everyone.wait(300)
            for _ in range(3):
                found[number] = full.run(WHERE, b"", LIMITS).stdout.decode().strip()
            everyone.wait(300)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(USABLE))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert list(found.values()) == [str(USABLE)] * len(USABLE)
    assert sorted(next(iter(os.sched_getaffinity(pid))) for pid in zygotes(full)) == USABLE


@several
def test_both_sides_of_a_test_may_use_all_cores_while_they_work(full: LocalSandbox) -> None:
    program = Program(source="import os\ndef f():\n    return sorted(os.sched_getaffinity(0))\n")
    code = f"import os\nassert f() == f() == {USABLE} == sorted(os.sched_getaffinity(0))\n"
    slots = [full._pool.enter() for _ in USABLE[1:]]  # so that the test below is the last to find one
    try:
        for _ in range(3):
            verdict = full.test(program, TestSuite(kind="assert", code=code), LIMITS)
            assert verdict.passed, verdict
    finally:
        for slot in slots:
            full._pool.leave(slot)


@several
def test_cores_that_were_taken_away_are_done_without() -> None:
    code = f"import os\nos.sched_setaffinity(0, {{{USABLE[0]}}})\nprint(sorted(os.sched_getaffinity(0)))"
    box = LocalSandbox(workers=1, level=3)
    try:
        box.run(WHERE, b"", LIMITS)
        assert box.run(Program(source=code), b"", LIMITS).stdout.decode().strip() == str(USABLE[:1])
        assert box.run(WHERE, b"", LIMITS).stdout.decode().strip() == str(USABLE), "one run's choice is not the next one's"
    finally:
        box.close()


def test_where_no_core_can_be_chosen_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[set[int]] = []
    monkeypatch.setattr(cpu_affinity, "_set", lambda _, cores: bound.append(cores))
    here = cpu_affinity.CorePinning()
    here.unpin_now_and_then()
    assert not here.pin_where_woken()
    here.start_run(-1)
    here.pin()
    here.unpin()
    assert bound == [] and here.number == -1
    here.start_run(1 << 20)  # no core of ours
    assert bound == []


def test_the_core_is_chosen_anew_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[set[int]] = []
    monkeypatch.setattr(cpu_affinity, "_set", lambda _, cores: bound.append(set(cores)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    here = cpu_affinity.CorePinning(choose=True)
    if here._ask is None:
        lack("kernel", "this C library does not say on which core it is")
    chosen = 0
    for _ in range(3 * 33):
        here.unpin_now_and_then()
        chosen += here.pin_where_woken()
    assert chosen == 3
    assert bound[::2] == [{0, 1}] * 3 and all(len(cores) == 1 for cores in bound[1::2])


def test_a_kernel_that_does_not_say_where_we_are_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[set[int]] = []
    monkeypatch.setattr(cpu_affinity, "_set", lambda _, cores: bound.append(set(cores)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    here = cpu_affinity.CorePinning(choose=True)
    monkeypatch.setattr(here, "_ask", lambda: -1)
    for _ in range(3):
        here.unpin_now_and_then()
        assert not here.pin_where_woken()
    assert bound == [{0, 1}] and here.number == -1


@pytest.mark.parametrize("size", [1 << 10, 1 << 16, 3 << 20], ids=["1 KiB", "a pipe", "3 MiB"])
def test_all_that_a_quick_program_writes_is_read(box: LocalSandbox, size: int) -> None:
    source = f"import sys\nsys.stdout.write('x' * {size})\nsys.stderr.write('y' * {size})"
    result = box.run(Program(source=source), b"", LIMITS)
    assert result.ok and len(result.stdout) == len(result.stderr) == size


@pytest.mark.parametrize("size", [5_000, 1 << 22], ids=["less than a pipe", "more"])
def test_a_quick_program_that_writes_too_much_is_still_found_out(box: LocalSandbox, size: int) -> None:
    result = box.run(Program(source=f"print('x' * {size})"), b"", Limits(wall_s=60, cpu_s=5, memory_mb=256, output_kb=4))
    assert result.status is RunStatus.OUTPUT and len(result.stdout) == 4096


def test_a_quick_verdict_and_a_slow_one(box: LocalSandbox) -> None:
    for pause in (0.0, 0.3):
        program = Program(source=f"import time\ndef f(n):\n    time.sleep({pause})\n    return n\n")
        took = []
        for expected in (3, 4, 3, 4, 3, 4):
            start = time.monotonic()
            verdict = box.test(program, TestSuite(kind="assert", code=f"assert f(3) == {expected}"), LIMITS)
            assert verdict.passed == (expected == 3) and verdict.status is (RunStatus.OK if verdict.passed else RunStatus.WRONG)
            took.append(time.monotonic() - start)
        assert min(took) < pause + LIMITS.wall_s / 4  # it waits for no limit; other work on the machine only adds


@pytest.mark.parametrize(
    "attempt",
    [
        "os.write(0, b'x')",
        "os.ftruncate(0, 0)",
        "os.ftruncate(0, 99)",
        "open('/proc/self/fd/0', 'r+b', buffering=0).write(b'x')",
        "__import__('mmap').mmap(0, 3).write(b'x')",
    ],
)
def test_standard_input_cannot_be_changed(box: LocalSandbox, attempt: str) -> None:
    source = f"import os\ntry:\n    {attempt}\nexcept (OSError, ValueError):\n    print(repr(open(0).read()))"
    assert box.run(Program(source=source), b"abc", LIMITS).stdout == b"'abc'\n"


def test_standard_input_is_open_for_reading_only(box: LocalSandbox) -> None:
    # Sealed and open for writing, it could not be mapped as shared on kernels before 6.7.
    mode = "fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE"
    source = f"import fcntl, mmap, os\nprint({mode}, mmap.mmap(0, 0, access=mmap.ACCESS_READ)[:])"
    assert box.run(Program(source=source), b"abc", LIMITS).stdout == b"0 b'abc'\n"


def test_what_is_not_watched_is_looked_at_again(box: LocalSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = LocalRun.readable

    def slowly(self: LocalRun) -> object:
        found = watch(self)
        time.sleep(0.01)  # as when something else has the core just now
        return found

    monkeypatch.setattr(LocalRun, "readable", slowly)
    result = box.run(Program(source="print('x' * 200_000)"), b"", LIMITS)
    assert result.ok and len(result.stdout) == 200_001, result


@several
def test_workers_that_are_made_when_all_is_busy_use_all_cores_too() -> None:
    for _ in range(5):
        box = LocalSandbox(level=3, workers=len(USABLE))
        everyone = threading.Barrier(len(USABLE))
        found: list[str] = []

        def work(box: LocalSandbox = box, everyone: threading.Barrier = everyone, found: list[str] = found) -> None:
            with box.slot():
                everyone.wait(300)
                found.append(box.run(WHERE, b"", LIMITS).stdout.decode().strip())

        threads = [threading.Thread(target=work) for _ in USABLE]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        box.close()
        assert found == [str(USABLE)] * len(USABLE)
