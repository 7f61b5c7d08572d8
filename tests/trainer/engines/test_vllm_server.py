"""The real vLLM server in a process of its own environment, the trainer in this one; the server is killed in the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
import vllm_venv
from chats import ChatEnvironment, chatting_model
from letters import LettersEnvironment
from named_policies import check_named_policies
from vllm_fixtures import WATCHED_RUN, check_run, require_vllm, save_model, settings

from verigym.trainer.config.run import build_config
from verigym.trainer.loop import train


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(python: Path, model: Path, port: int, log: Path, positions: int = 96) -> subprocess.Popen[bytes]:
    options = ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    options += ["--max-model-len", str(positions), "--block-size", "32"]  # of the prefix cache; 128 by default
    with log.open("ab") as file:
        return subprocess.Popen(
            [str(python), "-m", "verigym.trainer.engines.vllm.serve", str(model), *options],
            env={**vllm_venv.environment(), "VLLM_API_KEY": "secret"},
            stdout=file,
            stderr=file,
            start_new_session=True,
        )


def end(server: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):  # killed before
        os.killpg(server.pid, signal.SIGKILL)  # its engine is a process of its own
    server.wait()


UP_S = 900
"""Longest wait for a server: on two busy cores, importing vLLM twice takes minutes."""


def wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when the server answers."""
    deadline = time.monotonic() + UP_S
    while True:
        assert server.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        try:
            if requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.5)


@contextmanager
def serving(python: Path, model: Path, ports: Sequence[int], log: Path, **more: int) -> Iterator[subprocess.Popen[bytes]]:
    """Give the first of the servers at these ports, when all answer."""
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for port in ports:
            servers.append(start(python, model, port, log, **more))
        for port, server in zip(ports, servers, strict=True):
            wait_for(server, port, log)
        yield servers[0]
    finally:
        for server in servers:
            end(server)


def steps_done(folder: Path) -> int:
    log = folder / "out/metrics.jsonl"
    return log.read_text().count('"train"') if log.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize(("count", "steps"), [(1, 20), (2, 30)])
def test_steps_with_a_server_that_is_killed(tmp_path: Path, tiny_tokenizer: Any, count: int, steps: int) -> None:
    python = require_vllm()
    model, log = save_model(tmp_path / "model", tiny_tokenizer), tmp_path / "server.log"
    ports = [free_port() for _ in range(count)]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    config = settings(tmp_path, model, engine="vllm-server", vllm_urls=urls, vllm_wait_s=400, vllm_requests=8, steps=steps)
    began = time.monotonic()
    again: subprocess.Popen[bytes] | None = None
    with serving(python, model, ports, log) as server:
        up = time.monotonic()
        trainer = subprocess.Popen(
            [sys.executable, str(WATCHED_RUN), str(config), str(tmp_path / "report.json")],
            env={**os.environ, "OMP_NUM_THREADS": "1", "VLLM_API_KEY": "secret"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            while steps_done(tmp_path) < 8:
                assert trainer.poll() is None, trainer.communicate()[0][-4000:]
                assert time.monotonic() - up < 300
                time.sleep(0.01)
            end(server)
            killed = time.monotonic()
            before = steps_done(tmp_path)
            again = start(python, model, ports[0], log)
            if count > 1:  # the other server goes on, and would be done before this one is there
                while steps_done(tmp_path) < before + 3:
                    assert trainer.poll() is None, trainer.communicate()[0][-4000:]
                    time.sleep(0.01)
                trainer.send_signal(signal.SIGSTOP)
                wait_for(again, ports[0], log)
                trainer.send_signal(signal.SIGCONT)
            output, _ = trainer.communicate(timeout=900)
            answered = counted(ports[0], "request_success_total")
        finally:
            trainer.kill()
            if again:
                end(again)
    assert trainer.returncode == 0, output[-4000:]
    assert before < steps, "the server was killed in the middle"
    assert "waiting for it" in output
    assert "is back and has the current weights" in output
    assert answered > 0, "it is asked again when it is back"
    found = check_run(tmp_path, tmp_path / "report.json", steps)
    print(
        f"vllm-server: {count} servers up after {up - began:.0f} s, one killed after step {before}, "
        f"done {time.monotonic() - killed:.0f} s after that, {answered:.0f} completions by the one that came back, {found}"
    )


def counted(port: int, name: str) -> float:
    """Return a counter of a server."""
    lines = requests.get(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": "Bearer secret"}, timeout=30).text
    return sum(float(line.split()[-1]) for line in lines.splitlines() if line.startswith(f"vllm:{name}"))


@pytest.mark.slow
def test_steps_of_episodes_on_two_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both orders; what the servers found likely is what training finds likely, and their prefix caches are used."""
    python = require_vllm()
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    model, codec = chatting_model(64)  # vLLM's CPU build takes no heads below 32
    for part in (model, codec.tokenizer):
        part.save_pretrained(tmp_path / "model")
    ports = [free_port(), free_port()]
    with serving(python, tmp_path / "model", ports, tmp_path / "servers.log", positions=256):
        for order, steps in (("lockstep", 6), ("free", 6)):
            folder = tmp_path / order
            folder.mkdir()
            config = settings(
                folder,
                tmp_path / "model",
                engine="vllm-server",
                vllm_urls=[f"http://127.0.0.1:{port}" for port in ports],
                sources=[{"environment": "chat"}],
                steps=steps,
                max_new_tokens=120,
                max_turn_tokens=40,
                max_turns=6,
                episode_order=order,
                learning_rate=1e-4,
                temperature=1.0,
            )
            train(build_config(json.loads(config.read_text()), "test"), {"chat": ChatEnvironment()})
            rows = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
            mismatch = max(row["logprob_mismatch"] for row in rows)
            turns = [row["chat/turns"] for row in rows]
            done = [counted(port, "request_success_total") for port in ports]
            hits = [counted(port, "prefix_cache_hits_total") for port in ports]
            print(
                f"vllm-server episodes, {order}: {min(turns):.2f} to {max(turns):.2f} turns, logprob_mismatch {mismatch:.1e}, "
                f"completions {done}, tokens from prefix caches {hits}"
            )
            assert len(rows) == steps and min(turns) > 2 and mismatch < 1e-5
            assert min(done) > 0.3 * sum(done) and min(hits) > 0


@pytest.mark.slow
def test_free_overlap_on_two_servers(tmp_path: Path, tiny_tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take new weights while they sample, one is killed and comes back: each completion is from the weights it names."""
    python = require_vllm()
    monkeypatch.setenv("VLLM_API_KEY", "secret")
    model, log = save_model(tmp_path / "model", tiny_tokenizer), tmp_path / "servers.log"
    ports = [free_port(), free_port()]
    ages = check_named_policies(monkeypatch, max_staleness=2)
    config = settings(
        tmp_path,
        model,
        engine="vllm-server",
        vllm_urls=[f"http://127.0.0.1:{port}" for port in ports],
        vllm_requests=8,
        temperature=1.0,
        overlap="free",
        steps=20,
    )
    again: list[subprocess.Popen[bytes]] = []
    with serving(python, model, ports, log) as server:

        def kill_and_restart() -> None:
            while steps_done(tmp_path) < 5:
                time.sleep(0.01)
            end(server)
            again.append(start(python, model, ports[0], log))

        killing = threading.Thread(target=kill_and_restart, daemon=True)
        killing.start()
        try:
            train(build_config(json.loads(config.read_text()), "test"), {"letters": LettersEnvironment()})
        finally:
            killing.join(timeout=60)
            for one in again:
                end(one)
    assert again, "the server was killed in the middle"
    rows = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "train"]
    assert [row["step"] for row in rows] == list(range(1, 21))
    stale = sum(row["stale_groups"] for row in rows)
    print(
        f"vllm-server, overlap free: {len(ages)} completions, staleness {sum(ages) / len(ages):.2f} and at most {max(ages)}, "
        f"{stale} groups dropped, pushes of {rows[-1].get('push_mb', 0):.2f} MB"
    )
    assert max(ages) > 0 and max(row["servers_failing"] for row in rows) == 1
