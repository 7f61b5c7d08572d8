"""A server that fails is asked again; when it goes on failing there is no score, and never a reward."""

import email.utils
import os
import socket
import time
from typing import Any

import pytest
from chat_server import Step, compare_texts, drip, drop, half, hang, raw, say, serving, status, user

from verigym.envs import EnvironmentFailure, UsageError
from verigym.envs.grading import Grader
from verigym.envs.judge.environment import JudgeEnvironment
from verigym.envs.judge.prompts import AGAIN

TROUBLES: dict[str, tuple[Step, str]] = {
    "429": (status(429), "unavailable"),
    "500": (status(500), "unavailable"),
    "503 in HTML": (status(503, b"<html>busy</html>"), "unavailable"),
    "timeout": (hang, "timeout"),
    "a byte at a time": (drip, "timeout"),
    "dropped": (drop, "unavailable"),
    "dropped half way": (half, "unavailable"),
    "no HTTP body": (raw(b""), "protocol"),
    "garbage for JSON": (raw(b'{"choices": ['), "protocol"),
    "JSON of another kind": (raw(b'{"choices": []}'), "protocol"),
    "JSON nested deeply": (raw(b"[" * 100_000), "protocol"),
    "bytes": (raw(bytes(range(256))), "protocol"),
    "no content": (say(lambda _: None), "protocol"),  # type: ignore[arg-type, return-value]
    "a reply that is no object": (say("It is the same."), "protocol"),
    "a reply cut off": (say('{"reasoning": "', finish="length"), "protocol"),
}


def quick(url: str, **options: Any) -> JudgeEnvironment:
    """Return an environment that is patient for fractions of a second."""
    return JudgeEnvironment(
        **{"base_url": url, "model": "tiny", "timeout_s": 60.0, "total_s": 300.0, "backoff_s": 0.01, **options}
    )


def score(env: JudgeEnvironment, text: str = "Paris") -> Any:
    return env.score(env.prompt("Capital of France?", answer="Paris"), text)


@pytest.mark.parametrize("name", TROUBLES)
def test_a_second_try_succeeds(name: str) -> None:
    step, kind = TROUBLES[name]
    with serving(say(compare_texts), [step]) as server:
        found = score(quick(server.url, timeout_s=2.0 if kind == "timeout" else 60.0))
        assert (found.status, found.reward) == ("correct", 1.0), found.reason
        assert found.components["requests"] == 2.0
        assert len(server.seen) == 2


@pytest.mark.parametrize("name", TROUBLES)
def test_a_server_that_goes_on_gives_no_score(name: str) -> None:
    step, kind = TROUBLES[name]
    with serving(step) as server:
        found = score(quick(server.url, tries=3, timeout_s=0.5 if kind == "timeout" else 60.0))
        assert found.reward is None and found.status == "error"
        assert found.error.kind == kind
        assert found.error.retryable is (kind != "protocol")
        assert "after 3 requests" in found.reason
        assert len(server.seen) == 3 or kind == "timeout"  # a busy machine may not get to read all that it let wait


def test_nobody_at_the_port() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        env = quick(url, tries=2)
        found = score(env)
        assert (found.reward, found.error.kind) == (None, "unavailable")
        with pytest.raises(EnvironmentFailure, match="no server answers.*set base_url"):
            env.check()


def test_retry_after_is_obeyed() -> None:
    with serving(say(compare_texts), [status(429, Retry_After="1")]) as server:
        start = time.monotonic()
        assert score(quick(server.url)).status == "correct"
        assert time.monotonic() - start >= 1.0


def test_retry_after_may_be_a_date() -> None:
    later = email.utils.formatdate(time.time() + 10 * 24 * 3600, usegmt=True)
    for value in ("3600", later):
        with serving(say(compare_texts), [status(503, Retry_After=value)]) as server:
            found = score(quick(server.url))
            assert (found.reward, found.error.kind, found.error.retryable) == (None, "unavailable", True)
            assert len(server.seen) == 1  # there is no use in waiting for what comes after the deadline


@pytest.mark.parametrize("value", ["", "soon", "-5", "\u00b2", "Mon, 99 Foo 2020", "9" * 500])
def test_a_senseless_retry_after_does_no_harm(value: str) -> None:
    with serving(say(compare_texts), [status(429, Retry_After=value.encode("utf-8").decode("latin-1"))]) as server:
        found = score(quick(server.url))
        assert found.reward == (None if value.isdigit() and value.isascii() else 1.0)


@pytest.mark.parametrize("code", [401, 403, 404, 405, 302])
def test_a_mistake_in_the_settings_is_not_tried_again(code: int) -> None:
    with serving(status(code, Location="http://127.0.0.1:1/")) as server:
        found = score(quick(server.url))
        assert (found.reward, found.error.kind, found.error.retryable) == (None, "unavailable", False)
        assert f"HTTP {code}" in found.reason
        assert len(server.seen) == 1


def test_a_request_that_is_refused_always_is_our_fault() -> None:
    with serving(status(400)) as server:
        found = score(quick(server.url, structured="off"))
        assert (found.reward, found.error.kind) == (None, "internal")


def test_a_text_that_is_refused_while_a_control_is_not_gets_the_floor() -> None:
    def picky(handler: Any, request: Any) -> None:
        (status(400) if "forbidden word" in user(request) else say(compare_texts))(handler, request)

    with serving(picky) as server:
        found = score(quick(server.url), "the forbidden word")
        assert (found.status, found.reward) == ("limit", 0.0)


def test_a_server_without_schemas_is_asked_without_and_remembered() -> None:
    def old(handler: Any, request: Any) -> None:
        (status(400) if "response_format" in request else say(compare_texts))(handler, request)

    with serving(old) as server:
        env = quick(server.url)
        assert score(env).status == "correct"
        assert score(env, "Rome").status == "incorrect"
        assert ["response_format" in request for request in server.seen] == [True, False, False]
        assert score(quick(server.url, structured="schema")).reward is None
    with serving(say(compare_texts)) as server:
        assert score(quick(server.url, structured="off")).status == "correct"
        assert "response_format" not in server.seen[0]


def test_what_is_sent() -> None:
    with serving(say(compare_texts)) as server:
        score(quick(server.url, extra_body={"max_tokens": None, "max_completion_tokens": 99}))
        request = server.seen[0]
    assert request["model"] == "tiny" and request["temperature"] == 0.0 and request["max_completion_tokens"] == 99
    assert "max_tokens" not in request
    schema = request["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["verdict"]["enum"] == ["same", "different"]
    assert schema["additionalProperties"] is False


def test_after_garbage_the_judge_is_reminded() -> None:
    with serving(say(compare_texts), [say("hm")]) as server:
        assert score(quick(server.url)).status == "correct"
        assert user(server.seen[1]) == user(server.seen[0]) + AGAIN


def test_cost_and_tokens_are_those_of_all_replies() -> None:
    with serving(say(compare_texts, (1000, 20)), [say("hm", (1000, 500)), status(500)]) as server:
        found = score(quick(server.url, price_in=0.5, price_out=2.0))
    assert dict(found.components) == {"requests": 3, "tokens_in": 2000, "tokens_out": 520, "cost_usd": pytest.approx(0.00204)}


@pytest.mark.parametrize("usage", [None, (-1, 5), ("many", 5), (True, 5)])
def test_what_the_server_does_not_say_is_unknown_and_not_nothing(usage: Any) -> None:
    def step(handler: Any, request: Any) -> None:
        body: dict[str, Any] = {"choices": [{"message": {"content": compare_texts(request)}}]}
        if usage:
            body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        handler.answer(200, body)

    with serving(step) as server:
        found = score(quick(server.url, price_in=1.0, price_out=1.0))
    assert found.status == "correct"
    assert found.components["tokens_in"] is None and found.components["cost_usd"] is None


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_TEST_KEY", "sk-very-secret")
    with serving(say(compare_texts), [status(401, b"no such key: sk-very-secret")]) as server:
        env = quick(server.url, api_key_env="JUDGE_TEST_KEY")
        refused = score(env)
        assert "HTTP 401: no such key: ***" in refused.reason and "check api_key_env" in refused.reason
        good = score(env)
        assert server.keys == ["Bearer sk-very-secret"] * 2
    for text in (refused.model_dump_json(), good.model_dump_json(), repr(env), env.options.model_dump_json(), repr(vars(env))):
        assert "very-secret" not in text
    monkeypatch.delenv("JUDGE_TEST_KEY")
    with pytest.raises(EnvironmentFailure, match="JUDGE_TEST_KEY .* is not set"):
        env.check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"api_key_env": "sk-secret-123"}, "name of an environment variable"),
        ({"base_url": "http://me:secret-123@host/v1"}, "holds a user name"),
        ({"base_url": "http://host/v1?key=secret-123"}, "holds a user name, a query"),
        ({"base_url": "localhost:8000"}, "not an http or https URL"),
        ({"base_url": "http://host:port"}, "base_url is not a URL"),
        ({"base_url": "http://host/\r\nX: secret-123"}, "base_url"),
        ({"template": "{submision}"}, r"template has the field \{submision\}"),
        ({"template": "{question}"}, r"template lacks \{submission\}"),
        ({"template": "{submission}", "mode": "pairwise"}, r"template lacks \{first\}"),
        ({"scale": (5, 5)}, "scale"),
        ({"extra_body": {"messages": []}}, "extra_body holds 'messages'"),
        ({"total_s": 1.0}, "total_s"),
        ({"price_in": 1.0}, "go together"),
        ({"modell": "x"}, "did you mean 'model'"),
    ],
)
def test_options_are_checked_and_no_key_is_repeated(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        JudgeEnvironment(**options)
    assert "secret-123" not in str(caught.value)


def test_what_a_mode_needs_is_asked_for() -> None:
    for options, field in (
        ({}, "answer"),
        ({"mode": "rubric"}, "rubric"),
        ({"mode": "pairwise", "opponents": "baseline"}, "baseline"),
    ):
        with pytest.raises(UsageError, match=f"field '{field}' is missing"):
            JudgeEnvironment(**options).prompt("q")


def test_check_asks_for_the_model() -> None:
    with serving(say("")) as server:
        quick(server.url).check()
        with pytest.raises(EnvironmentFailure, match="has no model 'huge'; it has tiny"):
            quick(server.url, model="huge").check()
        with pytest.raises(EnvironmentFailure, match="set the option model"):
            quick(server.url, model="").check()
        assert score(quick(server.url, model="")).error.kind == "unavailable"


def test_the_grader_s_workers_judge_and_keep_verdicts(tmp_path: Any) -> None:
    with serving(say(compare_texts), [status(500)]) as server:
        env = quick(server.url)
        prompt = env.prompt("Capital of France?", answer="Paris")
        for _ in range(2):
            with Grader(env, workers=1, cache=tmp_path / "verdicts") as grader:
                assert [found.reward for found in grader.grade([(prompt, "Paris"), (prompt, "Rome")])] == [1.0, 0.0]
        assert len(server.seen) == 3
    assert os.path.exists(tmp_path / "verdicts")
