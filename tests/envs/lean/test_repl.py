"""The pool's process layer against a real program that counts commands and misbehaves. It does not pretend to be Lean."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import lack

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.backends.lines import LineClient, LineClientError
from verigym.envs.lean.backends.repl import ReplOptions, ReplPool, ReplScreen
from verigym.envs.lean.backends.replies import rejection
from verigym.envs.lean.compile import LeanBox
from verigym.envs.lean.task import LeanLimits, LeanReference
from verigym.envs.lean.toolchain import Toolchain
from verigym.sandbox.job import Job

COUNTER = Path(__file__).parent / "support/counter.py"
LIMITS = LeanLimits(wall_s=600, cpu_s=60, memory_mb=512, processes=16, output_kb=64, file_mb=1)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("counter")
    folder.chmod(0o755)
    made = folder / "counter"
    made.write_text("#!/usr/bin/env python3\n" + COUNTER.read_text())
    made.chmod(0o755)
    return made


@pytest.fixture(scope="module")
def box(program: Path) -> Iterator[LeanBox]:
    if shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") is None:
        lack("python3", "programs see none")
    made = LeanBox(Toolchain(str(program), "4.0.0", "", (), (str(program.parent),), "key"), workers=3)
    try:
        made.check()
    except EnvironmentFailure as failure:
        lack("bubblewrap", failure)
    yield made
    made.box.close()


@pytest.fixture
def job(box: LeanBox) -> Job:
    return box.job((), {}, LIMITS)


@pytest.fixture
def talker(box: LeanBox, job: Job) -> Iterator[LineClient]:
    made = LineClient(box.box, job, 1 << 20)
    yield made
    made.close()


def pool(box: LeanBox, job: Job, **more: Any) -> ReplPool:
    return ReplPool(box.box, job, ReplOptions(program="counter", **{"size": 1, "command_s": 300, "header_s": 300, **more}))


def within(seconds: float, condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_it_answers_again_and_again(talker: LineClient) -> None:
    assert [talker.ask({"cmd": f"say {n}"}, 300)["env"] for n in range(5)] == list(range(5))
    assert talker.alive and talker.resident_mb > 1


def test_a_reply_may_be_large_and_come_in_pieces(talker: LineClient) -> None:
    assert len(talker.ask({"cmd": "big 900000"}, 300)["said"]) == 900_000
    assert len(talker.ask({"cmd": "say " + "long" * 200_000}, 300)["said"]) > 800_000


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sleep 600", "before the reply was whole"),
        ("half", "before the reply was whole"),
        ("garbage", "no JSON"),
        ("list", "no JSON object"),
        ("deep", "no JSON"),
        ("flood", "more than 1048576 bytes"),
        ("shout", "before the reply was whole.*output"),
        ("close", "before the reply was whole"),
        ("exit", "before the reply was whole"),
    ],
)
def test_misbehaviour_ends_it(talker: LineClient, command: str, why: str) -> None:
    assert talker.ask({"cmd": "fork" if command == "half" else "say"}, 300)["env"] == 0
    with pytest.raises(LineClientError, match=why):
        talker.ask({"cmd": command}, 1.5 if command in ("sleep 600", "half", "close") else 300)
    assert not talker.alive
    with pytest.raises(LineClientError, match="has ended"):
        talker.ask({"cmd": "say"}, 5)


@pytest.mark.parametrize("command", ["twice", "grandchild"])
def test_a_reply_too_many_is_no_reply_to_the_next_request(talker: LineClient, command: str) -> None:
    with pytest.raises(LineClientError, match="not the only one|spoke unasked"):
        for n in range(100):
            talker.ask({"cmd": "say" if n else command}, 300)  # the other one may come a moment later
            time.sleep(0.1)


def test_a_header_is_loaded_once_and_its_environment_used(box: LeanBox, job: Job) -> None:
    mine = pool(box, job)
    replies = [mine.ask("header", f"body {n}") for n in range(3)]
    assert [reply["env"] for reply in replies] == [1, 2, 3]
    assert {reply["in"] for reply in replies} == {0} and mine.started == 1
    mine.close()


def test_a_process_is_replaced_after_its_uses(box: LeanBox, job: Job) -> None:
    mine = pool(box, job, uses=2)
    assert [mine.ask("header", "body")["env"] for _ in range(5)] == [1, 2, 1, 2, 1]
    assert mine.started == 3
    mine.close()


def test_a_process_that_grew_is_replaced(box: LeanBox, job: Job) -> None:
    mine = pool(box, job, growth_mb=60)
    for command in ("hoard 5", "hoard 100", "say"):
        mine.ask("header", command)
    assert mine.started == 2
    mine.close()


def test_another_header_takes_the_place_of_an_idle_one(box: LeanBox, job: Job) -> None:
    mine = pool(box, job)
    assert [mine.ask(header, "body")["env"] for header in ("one", "two", "two", "one")] == [1, 1, 2, 1]
    assert mine.started == 3
    mine.close()


def test_a_slow_command_costs_its_own_process_only(box: LeanBox, job: Job) -> None:
    mine = pool(box, job, size=2, command_s=3.0)
    with pytest.raises(LineClientError):
        mine.ask("header", "sleep 600")
    assert mine.ask("header", "say")["env"] == 1
    mine.close()


def test_a_reply_out_of_turn_is_none(box: LeanBox, job: Job) -> None:
    mine = pool(box, job)
    mine.ask("header", "say")
    with pytest.raises(LineClientError, match="out of turn"):
        mine.ask("header", "wrong-number")
    assert mine.ask("header", "say")["env"] == 1
    mine.close()


def test_no_more_than_its_size_at_a_time(box: LeanBox, job: Job) -> None:
    mine = pool(box, job, size=2)
    pids: list[int] = []
    threads = [threading.Thread(target=lambda: pids.append(mine.ask("h", "sleep 0.2")["pid"])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 6 and mine.started <= 2
    mine.close()


def test_nothing_outlives_the_pool(box: LeanBox, job: Job) -> None:
    def alive() -> int:
        return sum(b"counter" in _read(path) for path in Path("/proc").glob("[0-9]*/cmdline"))

    before = alive()
    mine = pool(box, job)
    mine.ask("header", "fork")
    assert alive() > before
    mine.close()
    assert within(300, lambda: alive() <= before)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().split(b"\0")[1] if str(path) != f"/proc/{sys.argv[0]}" else b""
    except (OSError, IndexError):
        return b""


def test_a_screen_that_gets_no_answer_rejects_nothing(program: Path, box: LeanBox) -> None:
    toolchain = Toolchain("/bin/sh", "4.0.0", "", (), (str(program.parent),), "key")
    screen = ReplScreen(toolchain, ReplOptions(program=str(program), size=1, command_s=300, header_s=300))
    reference = LeanReference(name="target", statement="theorem target : 1 + 1 = 2", header="-- a header")
    assert screen.reject(reference, "rfl") is None  # a reply without messages holds nothing against it
    assert screen.pool.started == 1
    screen.close()
    with pytest.raises(EnvironmentFailure, match="no REPL at /no/such.*lake build"):
        ReplScreen(toolchain, ReplOptions(program="/no/such"))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        # The shapes are those of the REPL's README; no recording of a modern one was at hand.
        ({"env": 1}, None),
        ({"env": 1, "messages": [{"severity": "warning", "data": "declaration uses 'sorry'"}]}, None),
        ({"env": 1, "messages": [{"severity": "error", "data": "unknown identifier"}]}, "error: unknown identifier"),
        ({"env": 1, "sorries": [{"goal": "⊢ 1 + 1 = 3", "proofState": 0}]}, "axiom:sorryAx"),
        ({"env": 1, "sorries": [], "messages": []}, None),
        ({"env": 1, "sorries": "x", "messages": {"severity": "error"}}, None),
        ({"env": 1, "messages": ["error", None, 3]}, None),
    ],
    ids=str,
)
def test_only_severities_and_placeholders_speak_against_a_submission(reply: dict[str, Any], expected: str | None) -> None:
    assert rejection(reply) == expected
