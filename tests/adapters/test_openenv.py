"""OpenEnv: a client's episode and a server's tasks, verdicts on episodes of theirs, and OpenEnv's own server and client."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_environments import MIXTURE, WITH_TOOLS, Half
from adapter_venv import real_run
from needs import lacking

from verigym.adapters import Scorer, open_sources, openenv
from verigym.adapters.episodes import Episodes
from verigym.adapters.openenv import Game, Rows
from verigym.adapters.openenv_environment import OpenEnvEnvironment
from verigym.envs import Completion, EnvironmentFailure, Status, UsageError


@lacking("elsewhere", importlib.util.find_spec("openenv") is not None, "openenv is installed")
def test_the_extra_is_named_where_it_is_missing() -> None:
    for make in (lambda: openenv.app(MIXTURE), openenv.types, lambda: openenv.client("http://localhost:1")):
        with pytest.raises(UsageError, match=r"needs the package openenv.*verigym\[openenv\]"):
            make()


@pytest.fixture(scope="module")
def scorer() -> Iterator[Scorer]:
    with Scorer(MIXTURE, workers=0, retries=0, stop_after=None) as scorer:
        yield scorer


def game(scorer: Scorer, rows: int = 12) -> Game:
    return Game(Episodes(scorer), Rows(scorer.sources, rows))


def test_an_episode_of_one_turn_ends_with_the_environment_s_verdict(scorer: Scorer) -> None:
    played = game(scorer)
    for number, row in enumerate(scorer.sources.rows(12)):
        label, prompt = scorer.sources.task(row["verigym"])
        environment = scorer.sources.environments[label]
        for text in (environment.gold(prompt) or "", "no"):
            assert played.begin(None, None, index=number) == [one.model_dump() for one in prompt.messages]
            assert played.task == (label, prompt)
            told, ours = played.take(text), environment.score(prompt, text)
            assert (told["done"], told["reward"], told["status"]) == (True, ours.reward, ours.status.value)
            assert told["error"] == ("" if ours.error is None else ours.error.message)
            with pytest.raises(UsageError, match="the episode is over"):
                played.take(text)


def test_without_a_reward_there_is_none() -> None:
    with Scorer(Half(), workers=0, retries=0) as scorer:
        played = game(scorer, 2)
        played.begin(1, None)
        told = next(told for told in map(played.take, ["1"]))
        assert (told["reward"], told["status"], told["error"]) == (None, "error", "half of all texts fail")


def test_a_text_that_was_cut_off_is_not_answered_and_tools_are() -> None:
    with Scorer(WITH_TOOLS, workers=0, retries=0) as scorer:
        row = next(row for row in scorer.sources.rows(12) if row["source"] == "tools")
        _, prompt = scorer.sources.task(row["verigym"])
        episodes = Episodes(scorer)
        played = Game(episodes, Rows(scorer.sources, 12))
        first = played.begin(None, "mine", cell=row["verigym"])
        assert first[0]["role"] == "system" and "calculator" in first[0]["content"]
        said = played.take('<tool_call>{"name": "calculator", "arguments": {"expression": "6*7"}}</tool_call>')
        assert said == {"messages": [{"role": "tool", "content": "42", "name": "calculator"}]}
        environment = scorer.sources.environments["tools"]
        assert played.take(environment.gold(prompt) or "")["reward"] == 1.0
        played.begin(None, "mine", cell=row["verigym"])
        assert played.take("<tool_call>", "length")["reward"] == 0.0
        episodes.close()


def test_tasks_are_found_by_number_by_seed_and_in_turn(scorer: Scorer) -> None:
    rows = Rows(open_sources(MIXTURE), 12)
    assert (rows.count("train"), rows.count("test")) == (12, 0)
    cells = [rows.cell("train", number, None) for number in range(12)]
    assert cells == [row["verigym"] for row in scorer.sources.rows(12)]
    assert [rows.cell("train", None, None) for _ in range(13)] == [*cells, cells[0]]
    assert rows.cell("train", None, 5) == rows.cell("train", None, 5) in cells
    assert len({rows.cell("train", None, seed) for seed in range(40)}) > 6
    assert rows.told("train", 3)["key"] == next(row["key"] for place, row in enumerate(scorer.sources.rows(12)) if place == 3)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda game: game.begin(None, None, split="dev"), "split='dev': expected 'train' or 'test'"),
        (lambda game: game.begin(None, None, split="test"), "the split 'test' has no tasks"),
        (lambda game: game.begin(None, None, index=12), "index 12 of split 'train', which has 12 tasks"),
        (lambda game: game.begin(None, None, cell="{"), "holds no JSON"),
        (lambda game: game.take("4"), "call reset first"),
    ],
)
def test_what_a_client_cannot_ask_is_told(scorer: Scorer, ask: Any, message: str) -> None:
    with pytest.raises((ValueError, IndexError), match=message):
        ask(game(scorer))


def theirs(**options: Any) -> OpenEnvEnvironment:
    return OpenEnvEnvironment(base_url="http://127.0.0.1:9", **options)


@pytest.mark.parametrize(
    ("outcome", "reward", "status"),
    [
        ({"rewards": [0.25, None, 0.5], "done": True}, 0.75, Status.PARTIAL),
        ({"rewards": [0.5, 0.5], "done": True}, 1.0, Status.CORRECT),
        ({"rewards": [0.7, 0.2, 0.1], "done": True}, 1.0, Status.CORRECT),
        ({"rewards": [None, 0.0], "done": True}, 0.0, Status.INCORRECT),
        ({"rewards": [], "done": False}, 0.0, Status.INCORRECT),
        (None, 0.0, Status.NO_ANSWER),
        ({"rewards": [None], "done": True}, None, Status.ERROR),
        ({"rewards": [2.0], "done": True}, None, Status.ERROR),
    ],
)
def test_episodes_on_a_server_of_theirs_are_judged_by_their_rewards(outcome: Any, reward: float | None, status: Status) -> None:
    env = theirs()
    prompt = env.prompt("Begin.", reset={"seed": 1})
    score = env.score(prompt, Completion(text="x", outcome=outcome, finish_reason="stop"))
    assert (score.reward, score.status) == (reward, status)


def test_a_server_that_is_away_is_our_failure_and_options_are_checked() -> None:
    with pytest.raises(EnvironmentFailure, match="no schema from http://127.0.0.1:9") as raised:
        theirs().action_fields()
    assert (raised.value.kind, raised.value.retryable) == ("unavailable", True)
    with pytest.raises(UsageError, match="base_url"):
        OpenEnvEnvironment(base_url="file:///etc/passwd")
    with pytest.raises(UsageError, match="floor 1.0 is not below maximum 1.0"):
        theirs(floor=1.0)


@pytest.mark.slow
def test_openenv_s_own_server_client_and_environment() -> None:
    found = real_run("openenv", timeout_s=900)
    served, kind, other = found["served"], found["class"], found["theirs"]
    assert served["openenv"] == served["env.score"] and {0.0, 1.0} == set(served["openenv"])
    assert served["same"] and served["cut off"] == [True, 0.0] and max(served["steps"]) > 3
    assert kind["openenv"] == kind["env.score"] and None in kind["openenv"]
    assert kind["errors"] == ["", "half of all texts fail"] and kind["splits"] == ["train"]
    assert len(kind["refused"]) == 2
    assert other["rewards"] == [1.0, 0.0] and other["away"] == "unavailable"
    print(f"OpenEnv {found}")
