"""The command that starts a server, and what its receiver refuses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import Qwen3Config, Qwen3ForCausalLM

from verigym.trainer.engines.vllm.receiver import HEADERS, Receiver, most_bytes
from verigym.trainer.engines.vllm.serve import command


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)


def test_it_starts_vllm_with_what_the_trainer_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "k")
    line = command(["model", "--port", "8123"])
    assert line[0] == sys.executable
    assert "--middleware verigym.trainer.engines.vllm.receiver.Receiver" in " ".join(line)
    assert "--logprobs-mode processed_logprobs" in " ".join(line)
    assert line[line.index("model") + 1 :][:2] == ["--port", "8123"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["model", "--api-key", "k"], "--api-key: set VLLM_API_KEY"),
        (["model", "--api_key", "k"], "--api-key: set VLLM_API_KEY"),
        (["model", "--api-k=k"], "--api-key: set VLLM_API_KEY"),
        (["model", "--config", "f.yaml"], "--config: "),
        (["model", "--logprobs-mode=raw_logprobs"], "--logprobs-mode: "),
        (["model", "--logprobs_mode=raw_logprobs"], "--logprobs-mode: "),
        ([], "usage"),
        (["--port", "1"], "usage"),
    ],
)
def test_what_would_make_it_unfit_is_refused(arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "k")
    with pytest.raises(SystemExit, match=told):
        command(arguments)


@pytest.mark.parametrize("host", ["--host 127.0.0.1", "--host=localhost", "--host ::1", "--host 127.0.0.1 --port 1"])
def test_without_a_key_it_starts_for_this_machine(host: str) -> None:
    assert command(["model", *host.split()])


@pytest.mark.parametrize(
    "host", ["", "--port 1", "--host 0.0.0.0", "--host=10.0.0.1", "--host gpu1", "--host", "--host ::1 --hos=0.0.0.0"]
)
def test_without_a_key_it_does_not_start_for_others(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in (None, ""):
        if key is not None:
            monkeypatch.setenv("VLLM_API_KEY", key)
        with pytest.raises(SystemExit, match="set VLLM_API_KEY, or give --host 127"):
            command(["model", *host.split()])
    monkeypatch.setenv("VLLM_API_KEY", "k")
    assert command(["model", *host.split()])


def test_the_receiver_needs_no_torch() -> None:
    code = (
        "import sys, verigym.trainer.engines.vllm.receiver, verigym.trainer.engines.vllm.serve; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


class Engine:
    """An engine that cannot load, cannot empty its cache, or loads until it may end."""

    def __init__(self, broken: str) -> None:
        self.broken = broken
        self.paused = False
        self.loads = 0
        self.may_end = asyncio.Event()

    async def pause_generation(self, mode: str) -> None:
        self.paused = True

    async def resume_generation(self) -> None:
        self.paused = False

    async def collective_rpc(self, method: str, kwargs: object) -> None:
        self.loads += 1
        if self.broken == "slow":
            await self.may_end.wait()
        if self.broken == "load":
            raise ValueError("shapes differ")

    async def reset_prefix_cache(self) -> bool:
        return self.broken != "cache"


def ask(
    receiver: Receiver, engine: Any, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any]]:
    return asyncio.run(request(receiver, engine, method, path, body, **headers))


async def request(
    receiver: Receiver, engine: Any, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any]]:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "app": SimpleNamespace(state=SimpleNamespace(engine_client=engine)),
    }
    await receiver(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


async def application(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b'{"passed": "on"}'})


@pytest.mark.parametrize("broken", ["load", "cache"])
def test_a_failed_load_leaves_no_version_and_goes_on_serving(broken: str) -> None:
    receiver, engine = Receiver(application), Engine(broken)
    receiver.version = "old-1"
    assert ask(receiver, engine, "PUT", "/verigym/weights/new-1/a.safetensors", b"x")[0] == 200
    status, told = ask(receiver, engine, "POST", "/verigym/weights/new-1", b'{"parts": ["a.safetensors"]}')
    assert status >= 500
    assert told["error"]
    assert receiver.version is None
    assert not engine.paused
    told = ask(receiver, engine, "POST", "/v1/completions", x_verigym_version="old-1")
    assert told == (409, {"error": "other weights"}), "the key has not been looked at yet"
    engine.broken = ""
    assert ask(receiver, engine, "POST", "/verigym/weights/new-1", b'{"parts": ["a.safetensors"]}')[0] == 200
    assert ask(receiver, engine, "POST", "/v1/completions", x_verigym_version="new-1") == (200, {"passed": "on"})


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/verigym/other", b"", 404),
        ("GET", "/verigym/weights/v", b"", 405),
        ("PUT", "/verigym/weights/../x", b"", 404),
        ("PUT", "/verigym/weights/v/../../x", b"", 404),
        ("PUT", "/verigym/weights/v/.hidden", b"", 404),
        ("PUT", "/verigym/weights/v/model.bin", b"", 400),
        ("PUT", "/verigym/weights/v/code.py", b"", 400),
        ("POST", "/verigym/weights/v", b"[]", 400),
        ("POST", "/verigym/weights/v", b"{", 400),
        ("POST", "/verigym/weights/v", b"{}", 400),
        ("POST", "/verigym/weights/v", b'{"parts": ["a"]}', 400),
        ("POST", "/verigym/weights/v", b'{"parts": ["../a.safetensors"]}', 400),
        ("POST", "/verigym/weights/v", b'{"parts": "a.safetensors"}', 400),
        ("POST", "/verigym/weights/v", b'{"parts": [1]}', 400),
        ("POST", "/verigym/weights/v", b'{"parts": ["a.safetensors"]}', 503),
        ("POST", "/verigym/weights/v", b" " * 70000, 413),
    ],
)
def test_requests_that_make_no_sense_are_refused(method: str, path: str, body: bytes, status: int) -> None:
    found, told = ask(Receiver(application), Engine(""), method, path, body)
    assert found == status, told
    assert told["error"]


def model_state(engine: Any) -> Any:
    config = Qwen3Config(vocab_size=60, hidden_size=32, intermediate_size=48, num_hidden_layers=1, tie_word_embeddings=True)
    model_config = SimpleNamespace(hf_text_config=config)
    return SimpleNamespace(engine_client=engine, vllm_config=SimpleNamespace(model_config=model_config))


def test_a_push_is_no_larger_than_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    state = model_state(Engine(""))
    config = state.vllm_config.model_config.hf_text_config
    most = most_bytes(state)
    model = Qwen3ForCausalLM(config)
    assert most == 4 * (sum(p.numel() for p in model.parameters()) + 60 * 32) + HEADERS
    assert most_bytes(SimpleNamespace()) == 2**63, "of a model that is not known here"
    monkeypatch.setattr("verigym.trainer.engines.vllm.receiver.most_bytes", lambda state: 100)
    receiver, engine = Receiver(application), Engine("")

    def put(part: str, size: int, version: str = "new-1") -> int:
        status, told = ask(receiver, engine, "PUT", f"/verigym/weights/{version}/{part}.safetensors", b"x" * size)
        assert status == 200 or "more than the 100 bytes of this server's model in fp32" in told["error"]
        return status

    assert [put("a", 60), put("b", 50), put("b", 40)] == [200, 413, 200]
    assert [put("a", 60), put("a", 61), put("a", 60)] == [200, 413, 200], "a part that comes again takes the other's place"
    assert receiver.folder is not None
    assert sorted(file.name for file in receiver.folder.rglob("*")) == ["a.safetensors", "b.safetensors", "new-1"]
    assert put("a", 100, "new-2") == 200, "what a push that was given up has left does not count"
    assert [file.name for file in receiver.folder.iterdir()] == ["new-2"]
    assert ask(receiver, engine, "POST", "/verigym/weights/new-2", b'{"parts": ["a.safetensors"]}')[0] == 200
    assert receiver.sizes == {}
    assert put("a", 100, "new-3") == 200


def test_a_load_that_is_asked_for_again_is_done_once() -> None:
    receiver, engine = Receiver(application), Engine("slow")
    load = ("POST", "/verigym/weights/new-1", b'{"parts": ["a.safetensors"]}')

    async def both() -> list[tuple[int, dict[str, Any]]]:
        await request(receiver, engine, "PUT", "/verigym/weights/new-1/a.safetensors", b"x")
        first = asyncio.create_task(request(receiver, engine, *load))
        while not engine.loads:
            await asyncio.sleep(0)
        # The trainer gave up waiting, and sends everything again.
        await request(receiver, engine, "PUT", "/verigym/weights/new-1/a.safetensors", b"x")
        engine.may_end.set()
        return [await first, await request(receiver, engine, *load), await request(receiver, engine, *load)]

    state = {"boot": receiver.boot, "version": "new-1"}
    assert asyncio.run(both()) == [(200, state)] * 3
    assert engine.loads == 1
    assert receiver.folder is None


def test_a_shared_folder_holds_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIGYM_WEIGHTS_DIR", str(tmp_path))
    receiver, engine, folder = Receiver(application), Engine(""), tmp_path / "run"

    def load(*parts: str) -> int:
        body = json.dumps({"parts": parts, "folder": str(folder)}).encode()
        return ask(receiver, engine, "POST", "/verigym/weights/new-1", body)[0]

    assert load("a.safetensors") == 503, "other machines see a folder a little later"
    folder.mkdir()
    assert load("a.safetensors") == 503
    (folder / "a.safetensors").touch()
    (folder / "model.bin").touch()
    assert load("a.safetensors") == 400
    assert load("a.safetensors", "model.bin") == 400
    assert engine.loads == 0
    (folder / "model.bin").unlink()
    assert load("a.safetensors") == 200


def test_a_request_that_names_no_version_is_passed_on() -> None:
    assert ask(Receiver(application), Engine(""), "POST", "/v1/completions")[0] == 200
    assert ask(Receiver(application), Engine(""), "GET", "/health")[0] == 200


def test_nothing_stays_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    receiver, engine = Receiver(application), Engine("")

    def push(version: str, load: bool = True) -> None:
        assert ask(receiver, engine, "PUT", f"/verigym/weights/{version}/a.safetensors", b"x")[0] == 200
        assert len(list(tmp_path.rglob("a.safetensors"))) == 1
        if load:
            assert ask(receiver, engine, "POST", f"/verigym/weights/{version}", b'{"parts": ["a.safetensors"]}')[0] == 200

    assert not list(tmp_path.iterdir()), "a server that never gets weights makes no folder"
    for version in ("new-1", "new-2"):
        push(version)
        assert receiver.version == version and not list(tmp_path.iterdir())
    push("new-3", load=False)
    assert len(list(tmp_path.iterdir())) == 1, "what another push has left goes when the next begins"
    push("new-4", load=False)
    receiver = Receiver(application)
    assert not list(tmp_path.iterdir()), "what was never loaded goes with the server"
