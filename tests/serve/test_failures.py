"""Failures of our side: none is a reward, none is kept for ever, and none takes the place of an episode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_process import HEADERS, Running

from verigym import load
from verigym.serve.app import Service
from verigym.serve.problems import Problem
from verigym.serve.schemas import EndedEpisode, GeneratedTask, OpenEpisode
from verigym.serve.settings import ServiceLimits
from verigym.serve.tokens import Tokens

TALK = {"environment": "talking", "prompt": "?"}


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    errors = tmp_path_factory.mktemp("talking") / "errors.txt"
    served = ["--env", "counting_env:Counting", "--env", "counting_env:Talking"]
    running = Running([*served, "--port", "0", "--workers", "1"], {}, errors)
    try:
        running.wait_until_ready()
        yield running
        assert running.stop() == 0
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.ended()


def ask(service: Running, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    content = json.dumps(body).encode()
    answer = httpx.post(f"{service.url}{path}", content=content, headers={**HEADERS, **headers}, timeout=600, trust_env=False)
    assert answer.content.isascii()
    return answer.status_code, answer.json()


def test_an_episode_of_half_surrogates_is_answered(talking: Running) -> None:
    status, opened = ask(talking, "/episodes", {**TALK, "prompt": "what is \ud800?"})
    assert status == 201 and opened["messages"][0]["content"] == "what is \ud800?", opened
    path = f"/episodes/{opened['episode']}"
    assert ask(talking, f"{path}/turns", {"turn": 0, "text": "\udfff said"})[0] == 200
    state = httpx.get(f"{talking.url}{path}", trust_env=False)
    assert state.status_code == 200 and state.json()["messages"][1]["content"] == "\udfff said"
    status, ended = ask(talking, f"{path}/end", {})
    assert status == 200 and ended["completion"]["text"] == "\udfff said" and ended["score"]["reward"] == 1.0


def test_a_turn_that_cannot_be_answered_ends_the_episode_without_a_reward(talking: Running) -> None:
    path = f"/episodes/{ask(talking, '/episodes', TALK)[1]['episode']}"
    status, reply = ask(talking, f"{path}/turns", {"turn": 0, "text": "forge"})
    assert status == 200 and reply["done"] and reply["failure"]["kind"] == "internal", reply
    assert "the role 'assistant'" in reply["failure"]["message"]
    assert ask(talking, f"{path}/turns", {"turn": 1, "text": "more"})[0] == 409
    ended = ask(talking, f"{path}/end", {})[1]
    assert ended["score"]["reward"] is None and ended["completion"]["finish_reason"] == "abort"


def test_a_failure_that_passes_is_not_kept_for_its_key(talking: Running, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.touch()
    item = {"environment": "counting", "prompt": "?", "reference": {"fails_while": str(away)}, "completion": "text"}
    status, score = ask(talking, "/score", item, **{"Idempotency-Key": "away"})
    assert status == 200 and score["reward"] is None and score["error"]["retryable"]
    away.unlink()
    assert ask(talking, "/score", item, **{"Idempotency-Key": "away"})[1]["reward"] == 1.0


@pytest.mark.parametrize(("retryable", "refused"), [(True, 503), (False, 500)])
def test_a_task_that_our_side_cannot_make(talking: Running, retryable: bool, refused: int) -> None:
    task = {"prompt": "?", "reference": {"down": retryable}}
    status, score = ask(talking, "/score", {"environment": "counting", "completion": "text", **task})
    assert status == 200 and score["reward"] is None
    assert (score["error"]["kind"], score["error"]["retryable"]) == ("backend", retryable)
    before = talking.metric("verigym_episodes_open")
    status, problem = ask(talking, "/episodes", {"environment": "talking", **task})
    assert status == refused and "the tasks cannot be reached" in problem["message"]
    assert talking.metric("verigym_episodes_open") == before and talking.metric("verigym_items_pending") == 0


def test_an_environment_goes_by_its_class_too(talking: Running) -> None:
    item = {"environment": "counting_env:Counting", "prompt": "?", "reference": {}, "completion": "text"}
    assert ask(talking, "/score", item)[1]["reward"] == 1.0
    status, opened = ask(talking, "/episodes", {**TALK, "environment": "counting_env:Talking"})
    assert (status, opened["environment"]) == (201, "talking")
    assert ask(talking, "/score", {**item, "environment": "counting_env:Other"})[0] == 422


@pytest.mark.slow
def test_places_of_episodes_are_taken_before_they_are_waited_for() -> None:
    limits = ServiceLimits(episodes=2)
    service = Service({"number_guessing": load("number_guessing")}, tokens=Tokens([]), limits=limits, workers=1)
    episodes = service.episodes
    assert episodes is not None
    request = OpenEpisode(environment="number_guessing", task=GeneratedTask(index=3))

    async def play() -> None:
        found = await asyncio.gather(*[episodes.open(request, None) for _ in range(8)], return_exceptions=True)
        opened = [one.episode for one in found if not isinstance(one, BaseException)]
        assert len(opened) == len(episodes) == 2
        assert [one.code for one in found if isinstance(one, Problem)] == ["overloaded"] * 6
        # An episode that has its verdict takes no place, and no more of them are kept than may be open.
        first = opened[0]
        for _ in range(3):
            assert isinstance(await episodes.end(opened.pop(0), "turns"), EndedEpisode)
            opened.append((await episodes.open(request, None)).episode)
        assert (len(episodes), episodes.kept) == (2, 2)
        with pytest.raises(Problem, match="no such episode"):
            episodes.state(first)

    try:
        service.start()
        asyncio.run(play())
    finally:
        service.close()
