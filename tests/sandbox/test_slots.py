"""Places for runs: who holds one, who gives it back, and what is left when somebody is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from verigym.sandbox import Limits, Program, TestSuite
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.backends.local_run import LocalRun

LIMITS = Limits(wall_s=60, cpu_s=5, memory_mb=256)


@pytest.fixture
def two() -> Iterator[LocalSandbox]:
    sandbox = LocalSandbox(workers=2)
    yield sandbox
    sandbox.close()


def test_a_session_may_be_closed_by_another_thread() -> None:
    box = LocalSandbox(workers=1)
    stack = ExitStack()
    session = stack.enter_context(box.session(Program(source="def f(n):\n    return n\n"), LIMITS))
    assert session.call("f", [1])
    closer = threading.Thread(target=stack.close)
    closer.start()
    closer.join(300)
    results: list[bytes] = []
    others = [threading.Thread(target=lambda: results.append(box.run(Program(source="print(1)")).stdout)) for _ in range(3)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(300)
    assert results == [b"1\n"] * 3
    assert box.run(Program(source="print(2)")).stdout == b"2\n"
    assert box._pool._free.qsize() == 1
    box.close()


def test_a_slot_inside_another_is_the_same(two: LocalSandbox) -> None:
    with two.slot(), two.slot():
        assert two._pool._free.qsize() == 1
    slot = two.slot()
    for _ in range(2):
        with slot:
            assert two._pool._free.qsize() == 1
        assert two._pool._free.qsize() == 2


def test_a_run_that_is_interrupted_leaves_no_worker_behind(two: LocalSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    two.run(Program(source=""), b"", LIMITS)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalRun, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            two.run(Program(source=""), b"", LIMITS)
    assert two._pool._all == {} and two._pool._free.qsize() == 2
    assert two.run(Program(source="print(1)"), b"", LIMITS).ok


def test_whole_floats_are_whole_numbers(box: LocalSandbox) -> None:
    limits = Limits(wall_s=60, cpu_s=5, memory_mb=256.0, processes=32.0, inodes=100.0)  # type: ignore[arg-type]
    assert (type(limits.memory_mb), type(limits.processes), type(limits.inodes)) == (int, int, int)
    assert box.run(Program(source="print(1)"), b"", limits).ok


def test_a_wall_limit_of_years(box: LocalSandbox) -> None:
    assert box.run(Program(source="import time\ntime.sleep(0.05)"), b"", Limits(wall_s=1e9)).ok


@pytest.mark.parametrize(
    "make",
    [
        lambda: Program(source="", files={"/a": b""}),
        lambda: Program(source="", files={"a/../b": b""}),
        lambda: Program(source="", files={"": b""}),
        lambda: Limits(processes=10**9),
        lambda: TestSuite(kind="isolated", code=""),  # type: ignore[arg-type]
        lambda: LocalSandbox(level=9),
        lambda: LocalSandbox(level=0),
    ],
)
def test_a_callers_mistake_is_said_at_once(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_a_file_of_text_is_no_bytes() -> None:
    with pytest.raises(TypeError, match=r"Program: files\['a'\]: expected bytes; got a text"):
        Program(source="", files={"a": "text"})  # type: ignore[dict-item]
