"""The hub is asked once whether it answers; where it does not, its libraries read their caches alone."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import huggingface_hub as hub
import huggingface_hub.constants
import pytest

from verigym.envs.hub import hub_or_cache, no_answer


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set back what all tests have."""
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", False)


class Refusing(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_error(403)

    def log_message(self, format: str, *values: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_refusal_is_an_answer(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert no_answer(server) == ""
    monkeypatch.setattr(hub.constants, "ENDPOINT", server)
    with hub_or_cache("a model") as silence:
        assert silence == "" and not hub.constants.HF_HUB_OFFLINE


def test_one_that_is_silent_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert "timed out" in no_answer(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.2)


def test_only_within_the_context_caches_alone_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(KeyError), hub_or_cache("a model") as silence:
        assert "refused" in silence and hub.constants.HF_HUB_OFFLINE
        raise KeyError
    assert not hub.constants.HF_HUB_OFFLINE


def test_who_works_offline_is_not_asked_for_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with hub_or_cache("a model") as silence:
        assert silence == "the hub is not asked (HF_HUB_OFFLINE is set)"
