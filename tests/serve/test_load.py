"""Many clients at once, a worker killed and the service restarted in the middle: every item has exactly one verdict.

`VERIGYM_SERVE_LOAD=200x50000` sets clients and items; by default fewer, for a test of a minute.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from service_process import Running

from verigym.client import AsyncClient, RetryPolicy

CLIENTS, ITEMS = map(int, os.environ.get("VERIGYM_SERVE_LOAD", "40x2000").split("x"))
PART = 25
"""Items of one request."""
POLICY = RetryPolicy(patience_s=300, longest_s=2.0)


def workers(pid: int) -> list[int]:
    """The processes that grade: those of a service whose command line is multiprocessing's, and not its resource tracker."""
    children = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
    return [child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


class Load:
    """The clients, and what they have got."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self.answers: Counter[str] = Counter()
        self.rewards: list[float | None] = []
        self.seconds: list[float] = []

    async def client(self, number: int) -> None:
        mine = [f"{number}/{index}" for index in range(number, ITEMS, CLIENTS)]
        async with AsyncClient(self.url, retries=POLICY) as client:
            reference = {"log": str(self.log)}
            items = [client.item("counting", name, prompt="?", reference=reference, id=name) for name in mine]
            begun = time.perf_counter()
            count = 0
            async for answer in client.score_batch(items, size=PART):
                assert answer.id == mine[answer.index] and answer.score is not None, answer
                self.answers[answer.id] += 1
                self.rewards.append(answer.score.reward)
                count += 1
                if count % PART == 0 or count == len(mine):  # a part is answered before the next one is sent
                    self.seconds.append(time.perf_counter() - begun)
                    begun = time.perf_counter()

    async def until(self, share: float) -> None:
        while self.answers.total() < share * ITEMS:
            await asyncio.sleep(0.01)


@pytest.mark.slow
def test_each_item_is_answered_once(serve: Callable[..., Running], tmp_path: Path) -> None:
    log, cache = tmp_path / "log", str(tmp_path / "cache")
    arguments = ["--env", "counting_env:Counting", "--workers", "2", "--cache", cache]
    service = serve(*arguments)
    load = Load(service.url, log)
    begun = time.perf_counter()

    async def disturb() -> float:
        await load.until(0.25)
        assert len(killed := workers(service.process.pid)) == 2
        os.kill(killed[0], signal.SIGKILL)
        await load.until(0.4)
        assert await asyncio.to_thread(service.metric, "verigym_grader_worker_deaths_total") == 1
        await load.until(0.5)
        stopped = time.perf_counter()
        assert await asyncio.to_thread(service.stop) == 0
        await asyncio.to_thread(serve, *arguments, "--port", str(service.port))
        return time.perf_counter() - stopped

    async def play() -> float:
        async with asyncio.TaskGroup() as group:
            disturbing = group.create_task(disturb())
            for number in range(CLIENTS):
                group.create_task(load.client(number))
        return disturbing.result()

    away = asyncio.run(play())
    seconds = time.perf_counter() - begun
    expected = {f"{index % CLIENTS}/{index}" for index in range(ITEMS)}
    assert set(load.answers) == expected and load.answers.total() == ITEMS
    assert set(load.rewards) == {1.0}
    graded = Counter(log.read_text().split())
    assert set(graded) == expected
    # An item whose worker was killed in the middle is judged again, and nothing else is.
    assert graded.total() <= ITEMS + 1
    ordered = sorted(load.seconds)
    half, most = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    print(
        f"{CLIENTS} clients, {ITEMS} items: {seconds:.1f} s with a restart of {away:.1f} s; "
        f"{graded.total() - ITEMS} judged twice; of parts of {PART}, p50 {half:.2f} s and p99 {most:.2f} s"
    )
