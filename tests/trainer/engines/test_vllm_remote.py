"""The client's side of vllm-server, against a real HTTP server that fails in every way a server can, or loses its weights."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from letters import LettersEnvironment
from patience import HANG_S, wait_for
from small_server import SmallServer, small_server

from verigym.envs.contract.errors import UsageError
from verigym.trainer.config.run import build_config
from verigym.trainer.engines.base import Generated
from verigym.trainer.engines.native.engine import NativeEngine
from verigym.trainer.engines.vllm.remote import VllmServerEngine
from verigym.trainer.loop import train
from verigym.trainer.models.codec import Codec
from verigym.trainer.models.scratch import scratch_qwen3

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
KEYS = [[("s", p, g) for g in range(4)] for p in range(3)]


OPEN: list[VllmServerEngine] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


def engine_for(policy: Any, codec: Codec, *servers: SmallServer, **more: Any) -> VllmServerEngine:
    arguments: dict[str, Any] = {
        "urls": [server.url for server in servers],
        "api_key": None,
        "dtype": "fp32",
        "weights_dir": None,
        "requests": 4,
        "timeout_s": HANG_S,
        "wait_s": HANG_S,
        "retries": 5,
        **more,
    }
    OPEN.append(VllmServerEngine(policy, codec, **arguments))
    return OPEN[-1]


def ask(engine: Any, temperature: float = 0.0) -> list[list[Generated]]:
    told: list[tuple[int, int]] = []
    found = engine.generate(
        PROMPTS,
        KEYS,
        max_new_tokens=8,
        temperature=temperature,
        on_finished=lambda p, g, done: told.append((p, g)),
    )
    assert sorted(told) == [(p, g) for p in range(3) for g in range(4)], "every completion is told of once"
    result: list[list[Generated]] = found
    return result


def expected(policy: Any, codec: Codec) -> list[list[tuple[int, ...]]]:
    found = ask(NativeEngine(policy, codec, rows_at_a_time=64, dtype="fp32"))
    return [[done.token_ids for done in row] for row in found]


def tokens(found: list[list[Generated]]) -> list[list[tuple[int, ...]]]:
    return [[done.token_ids for done in row] for row in found]


def test_it_samples_from_the_pushed_weights(policy: Any, codec: Codec) -> None:
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server)
        engine.sync()
        assert server.engine.calls == ["pause abort", "reload_weights", "reset", "resume"]
        before = expected(policy, codec)
        assert tokens(ask(engine)) == before
        assert tokens(ask(engine, 1.0)) == tokens(ask(engine, 1.0)) != before, "a row's seed depends on its key alone"
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)))
        assert tokens(ask(engine)) == before
        engine.sync()
        assert tokens(ask(engine)) == expected(policy, codec) != before


@pytest.mark.slow
def test_a_failure_is_asked_again(policy: Any, codec: Codec) -> None:
    whole = expected(policy, codec)
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server)
        engine.sync()
        for trick in ("429", "500", "503", "drop", "409", "garbage", "damaged", "beyond", "null", "cut"):
            server.tricks.extend([trick] * 2)
            server.asked = 0
            assert (tokens(ask(engine)), server.asked) == (whole, 14), trick


def test_a_server_that_was_started_again_gets_the_weights_again(
    policy: Any, codec: Codec, caplog: pytest.LogCaptureFixture
) -> None:
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server, requests=2)
        engine.sync()
        first = server.receiver.boot
        server.tricks.extend(["500", "restart"])
        assert tokens(ask(engine)) == expected(policy, codec), "nothing comes from the weights that it was started with"
        assert server.receiver.boot != first
        assert server.receiver.version == "-".join([engine.run, "1"])


def test_a_server_that_is_away_is_waited_for(policy: Any, codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    server = SmallServer(policy)
    server.open()
    engine = engine_for(policy, codec, server)
    engine.sync()
    server.close()

    def come_back() -> None:
        wait_for(lambda: "waiting for it" in caplog.text)
        server.restart()
        server.open()

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        assert tokens(ask(engine)) == expected(policy, codec)
    finally:
        thread.join()
        server.close()
    assert "is back" in caplog.text


def test_two_servers_share_the_work(policy: Any, codec: Codec) -> None:
    with small_server(policy) as one, small_server(policy) as other:
        engine = engine_for(policy, codec, one, other, requests=2)
        engine.sync()
        one.tricks.extend(["drop", "restart"])
        assert tokens(ask(engine)) == expected(policy, codec)
        assert one.asked > 0 < other.asked


@pytest.mark.slow
def test_the_run_stops_where_a_server_keeps_failing(policy: Any, codec: Codec) -> None:
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server, retries=3)
        engine.sync()
        server.always = "500"
        with pytest.raises(UsageError, match=r"answered 500: .*on purpose.*tried 3 times \(vllm_retries\)"):
            ask(engine)
        engine = engine_for(policy, codec, server, retries=3)
        engine.sync()
        server.always = None
        server.tricks.extend(["409"] * 100)  # as where several servers have one address
        with pytest.raises(UsageError, match="several servers have this address; tried 3 times"):
            ask(engine)
        server.tricks.clear()
        server.always = "400"
        with pytest.raises(UsageError, match="refuses POST /v1/completions with 400"):
            ask(engine)


def test_the_run_stops_where_a_server_stays_away(policy: Any, codec: Codec) -> None:
    server = SmallServer(policy)
    server.open()
    engine = engine_for(policy, codec, server, wait_s=0.5)
    server.close()
    with pytest.raises(UsageError, match=r"does not answer.*waited 0.5 s \(vllm_wait_s\).*newest checkpoint"):
        engine.sync()


def test_a_load_longer_than_the_timeout_is_waited_for_and_done_once(policy: Any, codec: Codec) -> None:
    """It ends when it is asked for again; `wait_s` is shorter than the time-out, and counts from the first failure."""
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server, wait_s=0.1)
        client = engine.servers[0].client
        load, asked = client.load, threading.Semaphore(0)

        def short_then_long(*given: Any, **how: Any) -> None:
            client.timeout_s = HANG_S if server.engine.calls else 0.3
            asked.release()
            load(*given, **how)

        async def asked_again() -> None:
            for _ in range(2):
                while not asked.acquire(blocking=False):
                    await asyncio.sleep(0.01)

        client.load = short_then_long  # type: ignore[method-assign]
        server.engine.before_load = asked_again
        engine.sync()
        assert server.engine.calls.count("reload_weights") == 1
        assert server.receiver.version == f"{engine.run}-1"


def test_the_key_is_wanted_for_weights(policy: Any, codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_server(policy) as server:
        monkeypatch.setenv("VLLM_API_KEY", "secret")
        with pytest.raises(UsageError, match="wants another key"):
            engine_for(policy, codec, server, api_key="wrong").sync()
        assert server.receiver.version is None
        engine_for(policy, codec, server, api_key="secret").sync()
        assert server.receiver.version is not None


def test_what_is_no_server_of_ours_is_told_apart(policy: Any, codec: Codec, tiny_tokenizer: Any) -> None:
    with small_server(policy) as server:
        server.state.vllm_config.model_config.logprobs_mode = "raw_logprobs"
        with pytest.raises(UsageError, match="gives raw_logprobs, not processed_logprobs"):
            engine_for(policy, codec, server).sync()
    with small_server(scratch_qwen3(tiny_tokenizer, hidden_size=64)) as server:
        with pytest.raises(UsageError, match=r"another shape: .*64.*the policy is .*32"):
            engine_for(policy, codec, server).sync()
    with small_server(policy) as server:
        mine, theirs = engine_for(policy, codec, server), engine_for(policy, codec, server)
        mine.sync()
        theirs.sync()  # a new run may take a server over
        with pytest.raises(UsageError, match="weights from another run"):
            ask(mine)


def test_weights_through_a_shared_folder(policy: Any, codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server, weights_dir=shared)
        with pytest.raises(UsageError, match="start it with VERIGYM_WEIGHTS_DIR"):
            engine.sync()
        monkeypatch.setenv("VERIGYM_WEIGHTS_DIR", str(tmp_path / "other"))
        with pytest.raises(UsageError, match="not a folder below"):
            engine.sync()
        monkeypatch.setenv("VERIGYM_WEIGHTS_DIR", str(shared))
        engine.sync()
        assert tokens(ask(engine)) == expected(policy, codec)
        assert server.receiver.folder is None, "nothing was sent over HTTP"
        (folder,) = shared.iterdir()  # older weights are deleted
        assert folder.stat().st_mode & 0o777 == 0o755, "a server under another account reads it"
        engine.close()
        assert not list(shared.iterdir())


def test_old_weights_do_not_pile_up_on_the_server(policy: Any, codec: Codec) -> None:
    with small_server(policy) as server:
        engine = engine_for(policy, codec, server)
        for _ in range(3):
            engine.sync()
            assert server.receiver.folder is None, "what was loaded is deleted, its folder too"


def test_a_prompt_that_fills_the_server_is_refused(policy: Any, codec: Codec) -> None:
    with small_server(policy, max_model_len=6) as server:
        engine = engine_for(policy, codec, server)
        engine.sync()
        with pytest.raises(UsageError, match="a prompt of 6 tokens leaves no room for a completion within 6"):
            ask(engine)


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint_when_the_server_is_back(policy: Any, tiny_tokenizer: Any, tmp_path: Path) -> None:
    policy.save_pretrained(tmp_path / "model")
    tiny_tokenizer.save_pretrained(tmp_path / "model")
    server = SmallServer(policy, max_model_len=512)
    server.open()
    fields = {
        "model": str(tmp_path / "model"),
        "output": str(tmp_path / "out"),
        "sources": [{"environment": "letters"}],
        "engine": "vllm-server",
        "vllm_urls": [server.url],
        "vllm_wait_s": 0.4,
        "steps": 4,
        "prompts_per_step": 2,
        "group_size": 4,
        "max_new_tokens": 6,
        "learning_rate": 1e-3,
        "correction": "token_truncated",
        "checkpoint_every": 1,
        "eval_every": 0,
        "threads": 1,
        "workers": 0,
        "device": "cpu",
    }
    server.tricks.extend([None] * 20 + ["die"])  # eight completions a step, so it dies in the third
    with pytest.raises(UsageError, match="does not answer"):
        train(build_config(fields, "test"), {"letters": LettersEnvironment()})
    assert (tmp_path / "out/checkpoints/step-00000002/state.json").exists()
    server.restart()
    server.move()
    server.open()
    try:  # at another address, too
        train(build_config({**fields, "vllm_urls": [server.url]}, "test"), {"letters": LettersEnvironment()})
    finally:
        server.close()
    rows = [json.loads(line) for line in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "train"]
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert all(row["logprob_mismatch"] < 1e-4 and abs(row["correction"] - 1) < 1e-4 for row in rows)
