"""The Kimina client against a real local server that misbehaves. Its replies have the shape of the server's own models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.lean.backends.kimina import KiminaOptions, KiminaScreen
from verigym.envs.lean.task import LeanReference
from verigym.envs.lean.toolchain import Toolchain

REFERENCE = LeanReference(name="target", statement="theorem target : 1 + 1 = 2", header="import Mathlib")
TOOLCHAIN = Toolchain("/bin/sh", "4.0.0", "")


class Handler(BaseHTTPRequestHandler):
    """Answers as `server.answer(request)` says: a status and a body, or None to hang up."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server: Any = self.server
        server.seen.append((self.path, dict(self.headers), body))
        answer = server.answer(body)
        if answer is None:
            self.connection.close()
            return
        status, data = answer
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw) + server.promises))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Any]:
    made: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.seen, made.promises = [], 0
    made.handle_error = lambda *args: None
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def screen(server: Any, **more: Any) -> KiminaScreen:
    url = f"http://127.0.0.1:{server.server_address[1]}/api/check"
    return KiminaScreen(TOOLCHAIN, KiminaOptions(url=url, **more))


def said(**response: Any) -> tuple[int, Any]:
    return 200, {"results": [{"id": "target", "time": 0.1, "response": response}]}


def test_the_whole_file_is_sent_with_its_limit(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMINA_KEY", "secret")
    server.answer = lambda body: said(env=0)
    assert screen(server, timeout_s=7, api_key_env="KIMINA_KEY").reject(REFERENCE, "rfl") is None
    ((path, headers, body),) = server.seen
    assert path == "/api/check" and headers["Authorization"] == "Bearer secret"
    assert body["timeout"] == 7 and body["snippets"][0]["id"] == "target"
    assert body["snippets"][0]["code"] == "import Mathlib\n\ntheorem target : 1 + 1 = 2 :=\nrfl\n"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(said(messages=[{"severity": "error", "data": "no"}]), "error: no", id="an error"),
        pytest.param(said(sorries=[{"goal": "g"}]), "axiom:sorryAx", id="a placeholder"),
        pytest.param(said(messages=[{"severity": "warning", "data": "error sorry failed"}]), None, id="only words"),
        pytest.param((200, {"results": [{"id": "target", "error": "timed out", "response": None}]}), None, id="its timeout"),
        pytest.param((200, {"results": [{"id": "other", "response": {"sorries": [1]}}]}), None, id="another's answer"),
        pytest.param((200, {"results": []}), None, id="no result"),
        pytest.param((200, {"results": [1, 2]}), None, id="two results"),
        pytest.param((200, [1]), None, id="a list"),
        pytest.param((200, b"half {"), None, id="no JSON"),
        pytest.param((200, b"[" * 100_000), None, id="deep"),
        pytest.param((200, b"\xff\xfe"), None, id="no text"),
        pytest.param((500, b"broken"), None, id="500"),
        pytest.param((429, b"later"), None, id="429"),
        pytest.param(None, None, id="hangs up"),
        pytest.param((200, b"x" * (5 << 20)), None, id="too long"),
    ],
)
def test_only_a_clear_answer_rejects(server: Any, answer: Any, expected: str | None) -> None:
    server.answer = lambda body: answer
    assert screen(server).reject(REFERENCE, "rfl") == expected


def test_a_broken_promise_is_no_answer(server: Any) -> None:
    server.promises = 10
    server.answer = lambda body: said(sorries=[1])
    assert screen(server, timeout_s=60).reject(REFERENCE, "rfl") is None


def test_it_is_not_waited_for_longer_than_its_limit(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verigym.envs.lean.backends.kimina._GRACE_S", 0.2)
    release = threading.Event()

    def slow(body: Any) -> Any:
        release.wait(600)
        return said(sorries=[1])

    server.answer = slow
    try:
        assert screen(server, timeout_s=0.3).reject(REFERENCE, "rfl") is None
    finally:
        release.set()


@pytest.mark.parametrize("status", [401, 403, 404, 422])
def test_a_refusal_is_our_failure(server: Any, status: int) -> None:
    server.answer = lambda body: (status, b"no")
    with pytest.raises(EnvironmentFailure, match=f"HTTP {status}; check url and key"):
        screen(server).reject(REFERENCE, "rfl")


def test_no_server_and_no_key_are_our_failures(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(EnvironmentFailure, match="no Kimina server answers.*backend=process") as caught:
        screen(server).reject(REFERENCE, "rfl")
    assert caught.value.retryable
    monkeypatch.delenv("KIMINA_KEY", raising=False)
    with pytest.raises(EnvironmentFailure, match="KIMINA_KEY .api_key_env. is not set"):
        KiminaScreen(TOOLCHAIN, KiminaOptions(api_key_env="KIMINA_KEY"))
