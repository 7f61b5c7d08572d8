"""SIGTERM, workers that die, and clients that come back: each accepted item is answered once."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_process import HEADERS, Running, math_item

from verigym.client import Client, RetryPolicy, ServiceUnreachable

Serve = Callable[..., Running]


def slow(count: int, seconds: float, **reference: Any) -> list[dict[str, Any]]:
    fields = {"environment": "counting", "prompt": "?", "reference": {"seconds": seconds, **reference}}
    return [{**fields, "completion": f"item {number}", "key": f"key-{number}"} for number in range(count)]


@pytest.mark.slow
def test_sigterm_answers_what_was_accepted_and_refuses_the_rest(serve: Serve) -> None:
    service = serve("--env", "math", "--env", "counting_env:Counting", "--workers", "2")
    with httpx.Client(trust_env=False, timeout=600) as client:
        content = json.dumps([*slow(1, 0.0), *slow(8, 1.5)[1:]]).encode()
        with client.stream("POST", f"{service.url}/score/batch", content=content, headers=HEADERS) as batch:
            assert batch.status_code == 200
            lines = batch.iter_lines()
            first = next(lines)
            service.process.send_signal(signal.SIGTERM)
            end = time.monotonic() + 300
            while (ready := client.get(f"{service.url}/readyz")).status_code == 200:
                assert time.monotonic() < end
            assert ready.json()["message"].startswith("the service is stopping")
            for path, body in (("/score", math_item()), ("/score/batch", [math_item()])):
                refused = client.post(f"{service.url}{path}", content=json.dumps(body).encode(), headers=HEADERS)
                assert (refused.status_code, refused.json()["error"]) == (503, "unavailable")
                assert int(refused.headers["retry-after"]) >= 1
            assert client.get(f"{service.url}/healthz").status_code == 200
            rest = list(lines)
    answers = [json.loads(line) for line in [first, *rest]]
    assert sorted(answer["index"] for answer in answers) == list(range(8))
    assert all(answer["score"]["reward"] == 1.0 for answer in answers)
    assert service.ended() == 0


def test_what_is_not_graded_in_time_is_to_be_sent_again(serve: Serve) -> None:
    service = serve("--env", "counting_env:Counting", "--limit", "drain_s=0.5")
    with httpx.Client(trust_env=False, timeout=600) as client:
        content = json.dumps([*slow(1, 0.0), *slow(3, 20.0)[1:]]).encode()
        with client.stream("POST", f"{service.url}/score/batch", content=content, headers=HEADERS) as batch:
            lines = batch.iter_lines()
            first = json.loads(next(lines))
            service.process.terminate()
            rest = [json.loads(line) for line in lines]
    assert first["score"]["reward"] == 1.0
    assert [answer["problem"]["error"] for answer in rest] == ["unavailable"] * 2
    assert service.ended() == 1
    assert "2 accepted items were not graded, and their clients told to ask again" in service.errors.read_text()


@pytest.mark.slow
def test_a_client_gets_all_verdicts_when_the_time_to_drain_is_over(serve: Serve) -> None:
    """What SIGKILL does not cost, SIGTERM must not: the rest of a batch, and single items, are sent to the next service."""
    service = serve("--env", "counting_env:Counting", "--limit", "drain_s=0.3", "--workers", "2")
    retries = RetryPolicy(patience_s=120, longest_s=0.5)
    with Client(service.url, retries=retries) as client, ThreadPoolExecutor() as pool:
        alone = pool.submit(lambda: client.score(**slow(1, 3.0)[0]))
        while service.metric("verigym_items_pending") < 1:
            time.sleep(0.02)
        batch = pool.submit(lambda: list(client.score_batch([client.item(**item) for item in slow(12, 0.5)[1:]])))
        while service.metric("verigym_items_pending") < 6:  # by the time one asks, some may have their verdict
            time.sleep(0.02)
        assert service.stop() == 1
        service = serve("--env", "counting_env:Counting", "--port", str(service.port), ready=False)
        assert alone.result().reward == 1.0
        answers = batch.result()
    assert sorted(answer.index for answer in answers) == list(range(11))
    assert all(answer.score is not None and answer.score.reward == 1.0 for answer in answers)


def test_a_second_signal_ends_it_at_once(serve: Serve) -> None:
    service = serve("--env", "counting_env:Counting", "--limit", "drain_s=600")
    with httpx.Client(trust_env=False, timeout=600) as client:
        content = json.dumps(slow(2, 600.0)).encode()
        with client.stream("POST", f"{service.url}/score/batch", content=content, headers=HEADERS) as batch:
            assert batch.status_code == 200
            service.process.terminate()
            while "draining" not in service.errors.read_text():
                time.sleep(0.02)
            service.process.terminate()
            service.ended()  # in two minutes; what it grades takes ten


def test_an_idle_service_ends_at_once_and_idle_connections_do_not_hold_it(serve: Serve) -> None:
    service = serve("--env", "math", "--limit", "drain_s=600", "--limit", "idle_s=600")
    with httpx.Client(trust_env=False, timeout=600) as client:
        client.get(f"{service.url}/healthz")
        assert service.stop() == 0  # in two minutes


def test_a_body_that_never_comes_does_not_hold_it(serve: Serve) -> None:
    service = serve("--env", "math", "--limit", "drain_s=600", "--limit", "body_s=600")
    with socket.create_connection(("127.0.0.1", service.port)) as sock:
        sock.sendall(b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        end = time.monotonic() + 300
        while not service.metric("verigym_held_bytes"):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert service.stop() == 0  # in two minutes


def test_a_worker_that_dies_costs_no_item(serve: Serve, tmp_path: Path) -> None:
    service = serve("--env", "counting_env:Counting")
    items = slow(6, 0.0, log=str(tmp_path / "log"), dies_once=str(tmp_path / "died"))
    with Client(service.url) as client:
        answers = list(client.score_batch(client.item(**item) for item in items))
    assert sorted(answer.index for answer in answers) == list(range(6))
    assert all(answer.score is not None and answer.score.reward == 1.0 for answer in answers)
    assert service.metric("verigym_grader_worker_deaths_total") == 1


def test_a_client_gets_all_verdicts_over_a_restart(serve: Serve, tmp_path: Path) -> None:
    log, cache = tmp_path / "log", str(tmp_path / "cache")
    service = serve("--env", "counting_env:Counting", "--cache", cache)
    answers = []
    with Client(service.url, retries=RetryPolicy(patience_s=120, longest_s=0.5)) as client:
        items = [client.item(**item) for item in slow(24, 0.05, log=str(log))]
        for answer in client.score_batch(items, size=8):
            answers.append(answer)
            if len(answers) == 4:
                assert service.stop() == 0
                service = serve("--env", "counting_env:Counting", "--cache", cache, "--port", str(service.port), ready=False)
    assert sorted(answer.index for answer in answers) == list(range(24))
    assert all(answer.score is not None and answer.score.reward == 1.0 for answer in answers)
    assert sorted(log.read_text().splitlines()) == sorted(item["completion"] for item in slow(24, 0.0))


def test_a_client_gets_all_verdicts_over_a_crash(serve: Serve, tmp_path: Path) -> None:
    """SIGKILL loses what was accepted; the client sends it again, and gets each verdict once."""
    service = serve("--env", "counting_env:Counting")
    answers = []
    with Client(service.url, retries=RetryPolicy(patience_s=120, longest_s=0.5)) as client:
        for answer in client.score_batch([client.item(**item) for item in slow(20, 0.05)], size=20):
            answers.append(answer.index)
            if len(answers) == 3:
                os.kill(service.process.pid, signal.SIGKILL)
                service.ended()
                service = serve("--env", "counting_env:Counting", "--port", str(service.port), ready=False)
    assert sorted(answers) == list(range(20))


def test_a_client_gives_up_in_time() -> None:
    with Client("http://127.0.0.1:9", retries=RetryPolicy(patience_s=0.5, first_s=0.1)) as client:
        with pytest.raises(ServiceUnreachable, match="tries; the last failed by ConnectError"):
            client.score("math", "4", prompt="?", reference={"answer": "4"})
        assert not client.ready()
