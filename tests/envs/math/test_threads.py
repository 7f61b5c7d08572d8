"""Same verdicts from the main thread, threads, spawned processes and an event loop; no signal of the caller is touched."""

import asyncio
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from mathgen.golds import Gold
from mathgen.mutations import mutations
from mathgen.rewrites import rewrites

from verigym.envs.isolated import client
from verigym.envs.math.environment import MathEnvironment

GOLDS = (
    "1024", "-7", "0.125", r"\frac{3}{4}", r"2\sqrt{5}", r"3+4i", r"x^2+3x-4", r"\frac{\pi}{6}", r"(1, -2)", r"\{-3, 3, 5\}",
    r"[0, \infty)", "-2, 1", "y = 2x + 3", r"\text{Friday}", r"\text{(B)}", r"75^\circ", r"25\%", r"\sin 2x", r"506_7",
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
)  # fmt: skip
HARD = (  # the first ones go to the worker process
    (r"\int_0^1 x^2 \, dx", r"\frac{1}{3}"), (r"\lim_{x\to 0} \frac{\sin x}{x}", "1"), (r"\int_0^1 x^2 \, dx", r"\frac{1}{4}"),
    (r"\sum_{k=1}^{\infty} \frac{1}{k^2}", r"\frac{\pi^2}{6}"), (r"\sin^2 x + \cos^2 x", "1"), (r"\ln(x^2+1)", r"\ln(x^2+2)"),
)  # fmt: skip
Pair = tuple[str, str]
Verdict = tuple[str, str]


def all_pairs() -> list[Pair]:
    pairs = [*HARD]
    for index, gold in enumerate(GOLDS):
        made = Gold("threads", index, "What is it?", gold)
        pairs += [(gold, text) for _, text in [*rewrites(made, 2), *mutations(made, 2)]]
    return pairs


def verdict(pair: Pair) -> Verdict:
    """Grade one pair in whatever thread or process this is called from."""
    env = MathEnvironment(string_tier=False)
    score = env.score(env.prompt("What is it?", answer=pair[0]), rf"\boxed{{{pair[1]}}}")
    return score.status.value, score.reason


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return all_pairs()


@pytest.fixture(scope="module")
def expected(pairs: list[Pair]) -> Iterator[list[Verdict]]:
    assert threading.current_thread() is threading.main_thread()
    yield [verdict(pair) for pair in pairs]
    client.close()


def test_the_pairs_are_many_and_of_both_kinds(pairs: list[Pair], expected: list[Verdict]) -> None:
    assert len(pairs) > 80
    statuses = [status for status, _ in expected]
    assert {"correct", "incorrect"} <= set(statuses)
    assert "error" not in statuses
    assert any("symbolic" in reason for _, reason in expected)


@pytest.mark.slow
def test_sixteen_threads(pairs: list[Pair], expected: list[Verdict]) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(verdict, pairs)) == expected


def test_sixteen_threads_on_one_environment(pairs: list[Pair], expected: list[Verdict]) -> None:
    env = MathEnvironment(string_tier=False)
    prompts = {gold: env.prompt("What is it?", answer=gold) for gold, _ in pairs}

    def work(pair: Pair) -> str:
        return env.score(prompts[pair[0]], rf"\boxed{{{pair[1]}}}").status.value

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, pairs)) == [status for status, _ in expected]


@pytest.mark.slow
def test_spawned_processes(pairs: list[Pair], expected: list[Verdict]) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(verdict, pairs, chunksize=40)) == expected


def test_an_event_loop(pairs: list[Pair], expected: list[Verdict]) -> None:
    async def in_threads() -> list[Verdict]:
        return list(await asyncio.gather(*(asyncio.to_thread(verdict, pair) for pair in pairs)))

    async def in_the_loop() -> list[Verdict]:
        return [verdict(pair) for pair in pairs]

    assert asyncio.run(in_threads()) == expected
    assert asyncio.run(in_the_loop()) == expected


@pytest.mark.slow
def test_the_alarm_of_the_caller_rings(pairs: list[Pair]) -> None:
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    handler = signal.getsignal(signal.SIGALRM)
    try:
        signal.setitimer(signal.ITIMER_REAL, 3600)
        for pair in [*HARD, *pairs[:40]]:
            verdict(pair)
        assert 3500 < signal.getitimer(signal.ITIMER_REAL)[0] <= 3600
        assert signal.getsignal(signal.SIGALRM) is handler
        signal.raise_signal(signal.SIGALRM)
        assert rung == [signal.SIGALRM]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
