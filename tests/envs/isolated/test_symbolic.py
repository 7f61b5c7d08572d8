import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from needs import lack
from processes import alive, children, eventually

from verigym.envs import EnvironmentFailure
from verigym.envs.isolated import client
from verigym.envs.isolated.client import MathVerifyResult, SymbolicLimit, compare
from verigym.sandbox.cores import THREAD_VARIABLES


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    client.close()


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        ("x+1", "1+x", MathVerifyResult(True, True, True)),
        ("x+1", "x+2", MathVerifyResult(True, True, False)),
        (r"\frac{1", "1", MathVerifyResult(False, True, False)),
        ("1", r"\frac{1", MathVerifyResult(True, False, False)),
        ("1/2004!", "1/2006!", MathVerifyResult(True, True, False)),
        (r"10^{-12}\pi", "0.0", MathVerifyResult(True, True, False)),
        (r"\sqrt{2}", "1.4142135623730951", MathVerifyResult(True, True, True)),
        ("5m", "5", MathVerifyResult(True, True, False)),
    ],
)
def test_compare(gold: str, answer: str, expected: MathVerifyResult) -> None:
    assert compare(gold, answer) == expected


@pytest.mark.parametrize("answer", ["10^{10^{10}}", "(10^7)!"])
def test_a_comparison_is_stopped_at_its_limit_and_the_next_one_works(answer: str) -> None:
    with pytest.raises(SymbolicLimit, match="ran out of time"):
        compare("1", answer, timeout_s=0.5)
    assert compare("1", "1").equal


def test_memory_is_limited() -> None:
    # SymPy swallows some MemoryErrors and calls the sides unequal; the verdict is the floor in any case.
    try:
        equal = compare("1", "2^{2^{31}}", memory_bytes=100 << 20).equal
    except SymbolicLimit:
        equal = False
    assert not equal
    assert compare("1", "1").equal


def test_long_texts_are_refused() -> None:
    with pytest.raises(SymbolicLimit, match="longer than"):
        compare("1", "9" * client.MAX_PAYLOAD)


@pytest.mark.slow
def test_threads_share_the_pool() -> None:
    results: list[bool] = []

    def work(number: int) -> None:
        results.append(compare(f"x+{number}", f"{number}+x").equal and not compare(f"x+{number}", "x").equal)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    assert len(client._pools["texts"].all) <= client.POOL_SIZE


@pytest.mark.slow
def test_a_worker_outlives_the_thread_that_started_it() -> None:
    client.close()
    thread = threading.Thread(target=compare, args=("1", "1"))
    thread.start()
    thread.join()
    (worker,) = client._pools["texts"].all
    assert compare("2", "2").equal
    assert client._pools["texts"].all == {worker}


@pytest.mark.slow
def test_a_killed_worker_is_replaced() -> None:
    client.close()  # one worker, however many the tests before have started
    compare("1", "1")
    for worker in client._pools["texts"].all:
        os.kill(worker.process.pid, signal.SIGKILL)
    for worker in client._pools["texts"].all:
        worker.process.wait()
    assert compare("x", "x").equal


@pytest.mark.slow
def test_a_forked_process_starts_its_own_workers() -> None:
    compare("1", "1")
    mine = {worker.process.pid for worker in client._pools["texts"].all}
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            equal = compare("x+1", "1+x").equal
            theirs = {worker.process.pid for worker in client._pools["texts"].all}
            os.write(send, b"ok" if equal and not theirs & mine else b"no")
            client.close()
        finally:
            os._exit(0)
    os.close(send)
    assert os.read(receive, 10) == b"ok"
    os.close(receive)
    os.waitpid(pid, 0)
    assert compare("1", "1").equal
    assert {worker.process.pid for worker in client._pools["texts"].all} == mine


@pytest.mark.slow
def test_each_kind_of_comparison_has_its_own_processes() -> None:
    client.close()
    client.warm_up()
    client.warm_up()
    assert [len(client._pools[kind].all) for kind in ("trees", "texts")] == [1, 0]
    compare("1", "1")
    assert [len(client._pools[kind].all) for kind in ("trees", "texts")] == [1, 1]
    client.warm_up("texts")
    client.close()
    assert not any(pool.all for pool in client._pools.values())


@pytest.mark.slow
def test_a_worker_that_fails_twice_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def lost(self: object, payload: bytes, timeout_s: float, memory_bytes: int) -> None:
        asked.append(payload)
        if len(asked) < 4:
            raise client._WorkerLost("it has ended")

    monkeypatch.setattr(client._Worker, "ask", lost)
    with pytest.raises(EnvironmentFailure, match="failed twice") as caught:
        client.request("trees", b"[]", timeout_s=1.0, memory_bytes=1 << 30)
    assert caught.value.retryable
    assert len(asked) == 2
    client.close()


@pytest.mark.slow
def test_a_worker_killed_during_a_comparison_is_replaced() -> None:
    client.close()
    compare("1", "1")
    (victim,) = client._pools["texts"].all
    threading.Timer(0.5, victim.process.kill).start()
    with pytest.raises(SymbolicLimit, match="ran out of time"):
        compare("1", "10^{10^{10}}", timeout_s=2.0)
    assert victim not in client._pools["texts"].all
    assert compare("x", "x").equal


@pytest.mark.slow
def test_workers_and_their_children_die_with_a_killed_parent() -> None:
    code = (
        "import threading, time\n"
        "from pathlib import Path\n"
        "from verigym.envs.isolated import client as symbolic\n"
        "symbolic.compare('1', '1')\n"
        "work = lambda: symbolic.compare('1', '10^{10^{10}}', timeout_s=600)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "pids = [w.process.pid for w in symbolic._pools['texts'].all]\n"
        "while not any(Path(f'/proc/{pid}/task/{pid}/children').read_text() for pid in pids): time.sleep(0.05)\n"
        "print(*pids, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        zygotes = [int(pid) for pid in parent.stdout.readline().split()]
        everyone = zygotes + [child for zygote in zygotes for child in children(zygote)]
        assert len(everyone) > len(zygotes)
        parent.kill()
    assert eventually(lambda: not any(alive(pid) for pid in everyone), 300)


def test_the_worker_gets_no_environment() -> None:
    compare("1", "1")
    (worker, *_) = client._pools["texts"].all
    if os.geteuid() != 0:
        lack("root", "only root may read the environment of a process that is not dumpable")
    with open(f"/proc/{worker.process.pid}/environ", "rb") as file:
        names = {entry.partition(b"=")[0] for entry in file.read().strip(b"\x00").split(b"\x00")}
    assert names == {b"PYTHONHASHSEED", b"PYTHONPATH", *map(str.encode, THREAD_VARIABLES)}


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"nonsense", b'{"gold":1,"answer":true,"equal":true}', b'{"gold":true,"answer":[true],"equal":true}',
     b'{"gold":true,"answer":false,"equal":true}', b'{"gold":true,"equal":true}', b"[" * 4000],
)  # fmt: skip
def test_replies_are_checked(data: bytes) -> None:
    with pytest.raises(EnvironmentFailure, match="protocol"):
        client._checked(data)
