"""Episodes over HTTP: numbered turns that are played once, verdicts, limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from service_process import HEADERS, Running

from verigym import Completion, load
from verigym.client import Client, GeneratedTask, RetryPolicy, ServiceError

Serve = Callable[..., Running]
TASK = {"environment": "number_guessing", "task": {"index": 3}}


def post(service: Running, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    content = json.dumps(body).encode()
    answer = httpx.post(f"{service.url}{path}", content=content, headers={**HEADERS, **headers}, timeout=600, trust_env=False)
    return answer.status_code, answer.json()


def opened(service: Running, **more: Any) -> dict[str, Any]:
    status, found = post(service, "/episodes", {**TASK, **more})
    assert status == 201, found
    return found


def test_an_episode_is_played_and_judged(service: Running) -> None:
    environment: Any = load("number_guessing")
    prompt = environment.prompt_at("train", 0, 3)
    with Client(service.url) as client, client.episode("number_guessing", task=GeneratedTask(index=3)) as episode:
        assert [one.model_dump() for one in episode.messages] == [one.model_dump() for one in prompt.messages]
        reply = episode.turn("I guess nothing")
        assert not reply.done and reply.messages
        assert episode.messages[-1] == reply.messages[-1]
        ended = episode.end()
    assert ended.completion.finish_reason == "turns" and ended.score.reward is not None
    again = environment.score(prompt, ended.completion)
    assert again.reward == ended.score.reward and again.status == ended.score.status


def test_a_turn_that_comes_again_is_not_played_twice(service: Running) -> None:
    episode = opened(service)["episode"]
    first = post(service, f"/episodes/{episode}/turns", {"turn": 0, "text": "first"})
    assert first[0] == 200 and first == post(service, f"/episodes/{episode}/turns", {"turn": 0, "text": "first"})
    state = httpx.get(f"{service.url}/episodes/{episode}", trust_env=False).json()
    assert state["turn"] == 1 and not state["done"]
    assert [one["role"] for one in state["messages"]].count("assistant") == 1
    for turn, text in ((0, "another"), (2, "too early")):
        status, problem = post(service, f"/episodes/{episode}/turns", {"turn": turn, "text": text})
        assert (status, problem["error"]) == (409, "conflict"), problem
    assert post(service, f"/episodes/{episode}/turns", {"turn": 1, "text": "second"})[0] == 200
    ended = post(service, f"/episodes/{episode}/end", {})
    assert ended[0] == 200 and ended == post(service, f"/episodes/{episode}/end", {})
    assert [turn["text"] for turn in ended[1]["completion"]["turns"] if turn["role"] == "assistant"] == ["first", "second"]
    assert post(service, f"/episodes/{episode}/end", {"finish_reason": "length"})[0] == 409
    assert post(service, f"/episodes/{episode}/turns", {"turn": 2, "text": "late"})[0] == 409
    assert post(service, f"/episodes/{episode}/turns", {"turn": 1, "text": "second"})[0] == 200
    assert httpx.delete(f"{service.url}/episodes/{episode}", trust_env=False).status_code == 204
    assert post(service, f"/episodes/{episode}/end", {})[0] == 404


def test_an_opening_that_comes_again_opens_one(service: Running) -> None:
    before = service.metric("verigym_episodes_open")
    one, two = (post(service, "/episodes", TASK, **{"Idempotency-Key": "one-episode"}) for _ in range(2))
    assert one == two and service.metric("verigym_episodes_open") == before + 1
    status, problem = post(service, "/episodes", {**TASK, "seed": "1"}, **{"Idempotency-Key": "one-episode"})
    assert (status, problem["error"]) == (409, "conflict")
    ids = {opened(service)["episode"] for _ in range(3)} | {one[1]["episode"]}
    assert len(ids) == 4 and all(len(id) == 32 for id in ids)
    for id in ids:
        httpx.delete(f"{service.url}/episodes/{id}", trust_env=False)
    assert service.metric("verigym_episodes_open") == before


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"environment": "math", "prompt": "?", "reference": {"answer": "4"}}, "'math' has no episodes; those with episodes"),
        ({"environment": "nothing", "task": {"index": 0}}, "is not served here"),
        ({**TASK, "max_turns": 0}, "max_turns"),
        ({**TASK, "turns": [{"role": "user", "text": "?"}]}, "the first is of the role 'user'"),
        ({**TASK, "turns": [{"role": "nobody"}]}, "turns: "),
        ({**TASK, "seed": 3}, "seed"),
    ],
)
def test_what_is_no_episode_is_refused(service: Running, body: Any, sentence: str) -> None:
    status, problem = post(service, "/episodes", body)
    assert status == 422 and sentence in problem["message"]


def test_an_unknown_episode(service: Running) -> None:
    for id in ("A" * 32, "x"):
        assert post(service, f"/episodes/{id}/turns", {"turn": 0, "text": ""})[0] == 404
        assert httpx.get(f"{service.url}/episodes/{id}", trust_env=False).status_code == 404
        assert httpx.delete(f"{service.url}/episodes/{id}", trust_env=False).status_code == 204


def test_a_saved_episode_goes_on(service: Running) -> None:
    with Client(service.url) as client:
        with client.episode("number_guessing", task=GeneratedTask(index=3)) as whole:
            whole.turn("first")
            whole.turn("second")
            expected = whole.end().completion
        turns = [turn for turn in expected.turns][:2]
        with client.episode("number_guessing", task=GeneratedTask(index=3), turns=turns) as resumed:
            assert [one.role for one in resumed.messages][-2:] == ["assistant", "user"]
            resumed.turn("second")
            found: Completion = resumed.end().completion
    assert found == expected


@pytest.mark.slow
def test_episodes_have_limits(serve: Serve) -> None:
    limits = ["episodes=2", "episode_turns=2", "episode_idle_s=8", "body_bytes=2000", "bodies_bytes=4000"]
    service = serve("--env", "number_guessing", *[part for limit in limits for part in ("--limit", limit)])
    first = opened(service, max_turns=50)
    assert first["max_turns"] == 2
    opened(service)
    status, problem = post(service, "/episodes", TASK)
    assert (status, problem["error"]) == (429, "overloaded")
    path = f"/episodes/{first['episode']}"
    assert post(service, f"{path}/turns", {"turn": 0, "text": "a" * 1500})[0] == 200
    assert post(service, f"{path}/turns", {"turn": 1, "text": "b" * 600})[0] == 413
    assert post(service, f"{path}/turns", {"turn": 1, "text": "b"})[0] == 200
    status, problem = post(service, f"{path}/turns", {"turn": 2, "text": "c"})
    assert status == 409 and "has had its 2 turns" in problem["message"]
    assert post(service, f"{path}/end", {})[1]["completion"]["finish_reason"] == "turns"
    end = time.monotonic() + 600
    while service.metric("verigym_episodes_open") or service.metric("verigym_episodes_kept"):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert post(service, f"{path}/end", {})[0] == 404


@pytest.mark.slow
def test_tools_and_an_episode_over_a_restart(serve: Serve) -> None:
    arguments = ["--env", "math", "--tool", "calculator"]
    service = serve(*arguments)
    with Client(service.url, retries=RetryPolicy(longest_s=0.5)) as client:
        episode = client.episode("math_with_tools", prompt="What is 12*12?", reference={"answer": "144"})
        assert [tool.name for tool in episode.tools] == ["calculator"]
        called = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "12*12"}}\n</tool_call>'
        reply = episode.turn(called)
        assert [call.name for call in reply.calls] == ["calculator"] and "144" in reply.messages[0].content
        assert service.stop() == 0
        service = serve(*arguments, "--port", str(service.port))
        reply = episode.turn("It is \\boxed{144}.")
        assert reply.done
        ended = episode.end()
        assert ended.score.reward == 1.0 and len(ended.completion.turns) == 3
        with pytest.raises(ServiceError, match="not_found"):
            episode.turn("more")
