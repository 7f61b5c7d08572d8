"""Between calls an interpreter stands still with all that its code has started, and what comes after it does not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import lack

from verigym.sandbox import Limits, SandboxFailure
from verigym.sandbox.backends.bubblewrap import BubblewrapSandbox
from verigym.sandbox.backends.local import LocalSandbox
from verigym.sandbox.interpreter import Interpreter

LIMITS = Limits(wall_s=120, memory_mb=128, processes=16)
BURN = """
import os, threading, time
for _ in range(6):
    if os.fork() == 0:
        os.setsid()
        while True: pass
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
gap = 0.0
def watch():
    global gap
    before = time.monotonic()
    while True:
        time.sleep(0.01)
        now = time.monotonic()
        gap, before = max(gap, now - before), now
threading.Thread(target=watch, daemon=True).start()
"""
BOMB = """
import os, signal
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
for _ in range(200):
    try:
        if os.fork() == 0:
            while True:
                try: os.fork()
                except OSError: pass
    except OSError: break
"""


def make(name: str) -> Any:
    return LocalSandbox(workers=2, level=3) if name == "sandbox" else BubblewrapSandbox(workers=2)


@pytest.fixture(params=["sandbox", "bubblewrap"], scope="module")
def box(request: pytest.FixtureRequest) -> Iterator[Any]:
    box = make(request.param)
    try:
        box.check()
    except SandboxFailure as error:
        lack(request.param, error)
    yield box
    box.close()


def states(box: Any) -> list[str]:
    """The states of all processes of its workers, of which the cells and what forks runs are never stopped."""
    found: list[str] = []
    todo = [worker.process.pid for worker in box._pool._all.values()]
    while todo:
        pid = todo.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
                todo += [int(one) for one in tasks.read_text().split()]
        except OSError:
            continue
        found.append(fields[0])
    return found


def settled(box: Any, stopped: int) -> bool:
    """Whether in a while at least so many processes are stopped, and none of the box runs."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        now = states(box)
        if now.count("T") >= stopped and "R" not in now:
            return True
        time.sleep(0.02)
    return False


def test_between_calls_nothing_runs(box: Any) -> None:
    interpreter = Interpreter(box, LIMITS)
    try:
        assert interpreter.execute(BURN).error == ""
        assert settled(box, 7), states(box)
        time.sleep(0.5)
        assert interpreter.execute("while gap < 0.4: time.sleep(0.01)").error == "", "its clock has a gap"
        assert interpreter.execute("x = 1\nx").output == "1\n"
        assert settled(box, 7), states(box)
    finally:
        interpreter.close()
    assert "T" not in states(box)


def test_a_fork_bomb_stands_still(box: Any) -> None:
    interpreter = Interpreter(box, LIMITS)
    try:
        interpreter.execute(BOMB)
        assert settled(box, 8), states(box)
    finally:
        interpreter.close()
    other = Interpreter(box, LIMITS)
    assert other.execute("1 + 1").output == "2\n"
    other.close()


def test_what_is_halted_is_closed_and_the_next_run_is_not_halted(box: Any) -> None:
    for number in range(4):
        interpreter = Interpreter(box, LIMITS)
        assert interpreter.execute(f"x = {number}\nx").output == f"{number}\n"
        interpreter.close()
        assert box.run("print(1)").stdout == b"1\n"


def test_a_program_that_ends_as_it_is_halted(box: Any) -> None:
    """The halt comes too late for it, and is not for the next."""
    for delay in (0.0, 0.001, 0.003):
        interpreter = Interpreter(box, LIMITS)
        code = f"import os, threading\nthreading.Timer({delay}, os._exit, (0,)).start()"
        interpreter.execute(code)
        assert box.run("print(1)").stdout == b"1\n"
        for _ in range(3):
            if interpreter.execute("1").output == "1\n":
                break
        else:
            raise AssertionError("it does not start anew")
        interpreter.close()


def test_halted_ones_are_not_waited_for(box: Any) -> None:
    box = make("bubblewrap" if isinstance(box, BubblewrapSandbox) else "sandbox")
    several = [Interpreter(box, LIMITS) for _ in range(5)]
    for number, one in enumerate(several):
        one.execute(f"x = {number}")
    assert [one.execute("x").output for one in several] == [f"{number}\n" for number in range(5)]
    assert settled(box, 5)
    box.close()
    for one in several:
        one.close()
    assert states(box) == []
