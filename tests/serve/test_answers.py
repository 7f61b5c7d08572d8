"""The store of answers by idempotency key, and the settings."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from verigym.cli import main
from verigym.serve.answers import Answers
from verigym.serve.problems import Problem
from verigym.serve.settings import ServiceLimits, ServiceSettings


def no_answer(answer: bytes) -> None:
    raise AssertionError("nobody waits")


def kept(store: Answers, key: str) -> bytes | None:
    """The answer that a store has kept."""
    found: list[bytes] = []
    if store.claim(key, "item", found.append):
        store.abandon(key, b"")
        return None
    return found[0]


def fill(store: Answers, *keys: str, answer: bytes = b"answer") -> None:
    for key in keys:
        assert store.claim(key, "item", no_answer)
        store.settle(key, answer)


def test_the_oldest_answers_go_first() -> None:
    store = Answers(3, 10_000, 100.0)
    fill(store, "a", "b", "c", "d")
    assert [kept(store, key) for key in "abcd"] == [None, b"answer", b"answer", b"answer"]


def test_bytes_and_time_are_limited_too() -> None:
    store = Answers(100, 25, 100.0)
    fill(store, "a", "b", answer=b"0123456789")
    assert len(store) == 2
    fill(store, "c", answer=b"0123456789")
    assert kept(store, "a") is None and kept(store, "c") == b"0123456789"
    short = Answers(100, 10_000, 0.05)
    fill(short, "a")
    time.sleep(0.1)
    assert kept(short, "a") is None


def test_a_key_in_use_is_never_dropped() -> None:
    store = Answers(0, 0, 0.001)
    found: list[bytes] = []
    assert store.claim("open", "item", no_answer)
    fill(store, "a", "b")
    assert not store.claim("open", "item", found.append) and not store.claim("open", "item", found.append)
    with pytest.raises(Problem, match="used for another item"):
        store.claim("open", "other item", no_answer)
    store.settle("open", b"late")
    assert found == [b"late", b"late"] and store.repeated == 2
    assert len(store) == 0


def test_settings() -> None:
    made = ServiceSettings(environments=("math", {"environment": "arithmetic", "options": {"digits": 3}}))
    assert [one.environment for one in made.environments] == ["math", "arithmetic"]
    with pytest.raises(ValueError, match="one request could never be accepted"):
        ServiceLimits(batch_items=100, pending_items=99)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "missing option --env, or --config"),
        (["--env", "nothing"], "no environment is called 'nothing'"),
        (["--env", "math", "--env", "math"], "two are called 'math'"),
        (["--env", "math", "--env", "code", "--option", "a=b"], "--option and --tool are about one --env"),
        (["--env", "math", "--limit", "batch_item=3"], "did you mean 'batch_items'?"),
        (["--env", "math", "--limit", "drain_s=-1"], "limits.drain_s"),
        (["--env", "math", "--host", "no-such-host.invalid"], "which needs a token"),
    ],
)
def test_mistakes_in_the_call(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERIGYM_TOKEN", raising=False)
    assert main(["serve", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_configuration_file_names_its_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERIGYM_TOKEN", raising=False)
    path = tmp_path / "serve.yaml"
    path.write_text("environments: [math]\nlimits:\n  drain: 3\n")
    assert main(["serve", "--config", str(path)]) == 2
    assert f"{path}:3: " in (said := capsys.readouterr().err) and "drain" in said
    path.write_text("environments: [{environment: math, options: {nothing: 1}}]\n")
    assert main(["serve", "--config", str(path), "--limit", "drain_s=3"]) == 2
    assert "unknown field 'nothing'" in capsys.readouterr().err
    path.write_text("environments: [math]\nlimits:\n  drain_s: 3\n")
    assert main(["serve", "--config", str(path), "--limit", "drain_s=-1"]) == 2
    assert capsys.readouterr().err.startswith("error: --limit drain_s: "), "not the file's line, which is fine"


def test_a_taken_port(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VERIGYM_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "--env", "math", "--port", str(taken.getsockname()[1])]) == 2
    assert "Address already in use; another port may be free" in capsys.readouterr().err
