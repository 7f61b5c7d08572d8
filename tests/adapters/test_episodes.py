"""Episodes for other trainers: turns, replies, limits and failures, and the same scores as our own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from adapter_environments import WITH_TOOLS

from verigym.adapters import Always, Scorer
from verigym.adapters.episodes import Episodes, refuse_other_formats, with_tools_told, written_calls
from verigym.envs import Prompt, UsageError, run_episode
from verigym.envs.tools.hermes import read_calls

GAME = {"sources": [{"environment": "number_guessing", "options": {"guesses": 3}}]}


@pytest.fixture(scope="module")
def tools() -> Iterator[Episodes]:
    with Scorer(WITH_TOOLS, workers=0, retries=0) as scorer:
        made = Episodes(scorer, max_turns=3)
        yield made
        made.close()


def task(episodes: Episodes, label: str) -> tuple[str, Prompt]:
    return label, episodes.scorer.sources.first(label)


def calls(expression: str) -> str:
    return written_calls([("calculator", {"expression": expression})])


@pytest.mark.parametrize("kind", ["turn", "aturn"])
def test_an_episode_is_that_of_run_episode_and_has_its_score(tools: Episodes, kind: str) -> None:
    label, prompt = task(tools, "tools")
    environment: Any = tools.scorer.sources.environments[label]
    gold = environment.gold(prompt)
    texts = [calls("2*21"), calls("1/0"), gold]

    async def play() -> tuple[Any, list[list[str]]]:
        episode = tools.open((label, prompt), "0")
        read = [episode.turn(text) if kind == "turn" else await episode.aturn(text) for text in texts]
        assert episode.over and episode.turns == 3
        return episode.completion(), [[message.content for message in one] for one in read]

    done, read = asyncio.run(play())
    said = iter(texts)
    assert done == run_episode(environment, prompt, lambda messages: next(said), seed="0")
    assert [len(one) for one in read] == [1, 1, 0] and read[0] == ["42"]
    assert tools.scorer.score((label, prompt), done).reward == environment.score(prompt, done).reward == 1.0


def test_a_composition_with_tools_judges_the_whole_episode() -> None:
    source = {"environment": "arithmetic", "tools": {"calculator": {}}, "format": {"boxes": 1}}
    with Scorer({"sources": [source]}, workers=0) as scorer:
        (label,) = scorer.sources.environments
        environment: Any = scorer.sources.environments[label]
        episodes, prompt = Episodes(scorer), scorer.sources.first(label)
        gold = environment.gold(prompt)
        for last, reward in ((gold, 1.0), (f"{gold} or {gold}", 0.0)):
            episode = episodes.open((label, prompt), "0")
            assert [message.content for message in episode.turn(calls("6*7"))] == ["42"]
            assert episode.turn(last) == ()
            said = iter([calls("6*7"), last])
            played = run_episode(environment, prompt, lambda messages, said=said: next(said))
            ours = scorer.score((label, prompt), episode.completion())
            assert ours.reward == environment.score(prompt, played).reward == reward
        episodes.close()


def test_the_last_turn_that_is_allowed_ends_it(tools: Episodes) -> None:
    episode = tools.open(task(tools, "tools"), "0")
    assert [len(episode.turn(calls("1+1"))) for _ in range(3)] == [1, 1, 0]
    done = episode.completion()
    assert done.finish_reason == "turns" and done.outcome == {"calls": {"calculator": 3}, "faults": {}}
    with pytest.raises(UsageError, match="the episode is over"):
        episode.turn("more")


@pytest.mark.parametrize("reason", ["length", "context"])
def test_a_turn_that_was_cut_off_is_not_answered(tools: Episodes, reason: Any) -> None:
    episode = tools.open(task(tools, "tools"), "0")
    with pytest.raises(UsageError, match="the episode goes on"):
        episode.completion()
    asyncio.run(episode.aend(reason, "<tool_call>"))
    done = episode.completion((1, 2))
    assert (done.text, done.finish_reason, done.token_ids) == ("<tool_call>", reason, (1, 2))


def test_a_tool_that_fails_leaves_no_reward_and_is_not_graded_again(tools: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    one = task(tools, "away")
    episode = tools.open(one, "0")
    assert episode.turn(written_calls([("away", {"number": 3})])) == () and episode.over
    done = episode.completion()
    assert done.failure is not None and done.failure.message == "the server is away"
    monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waited for an episode that is over"))
    assert tools.scorer.score(one, done).reward is None
    with pytest.raises(RuntimeError, match="the server is away"):
        Always(tools.scorer, "retry").reward(one, done)


def test_an_environment_of_one_turn_is_an_episode_of_one(tools: Episodes) -> None:
    label, prompt = task(tools, "plain")
    episode = tools.open((label, prompt), "0")
    assert episode.turn(r"\boxed{3}") == () and episode.over
    assert (episode.completion((5,)).text, episode.completion().turns) == (r"\boxed{3}", ())
    assert set(tools.playing) == {"tools", "away"}
    cut = tools.open((label, prompt), "0")
    cut.end("abort")
    assert cut.completion().text == ""


def test_games_are_played_by_their_texts() -> None:
    with Scorer(GAME, workers=0) as scorer:
        episodes = Episodes(scorer)
        one = task(episodes, "number_guessing")
        number = scorer.sources.environments["number_guessing"].reference(one[1]).number  # type: ignore[attr-defined]
        episode = episodes.open(one, "0")
        (reply,) = episode.turn(rf"\boxed{{{number - 1}}}")
        assert (reply.role, reply.content) == ("user", "Higher. 2 guesses left.")
        assert episode.turn(rf"\boxed{{{number}}}") == ()
        assert scorer.score(one, episode.completion()).reward == 1.0
        episodes.close()


def test_each_episode_of_a_task_has_a_seed_of_its_own(tools: Episodes, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [task(tools, label)[1] for label in ("tools", "plain")]
    seeds = [tools.next_seed(prompt) for prompt in prompts * 3]
    monkeypatch.setenv("RANK", "1")
    assert len({*seeds, tools.next_seed(prompts[0])}) == 7


@pytest.mark.parametrize("turns", [0, True, 2.5])
def test_the_limit_of_turns_is_a_number(tools: Episodes, turns: Any) -> None:
    with pytest.raises(UsageError, match="expected a whole number of at least 1"):
        Episodes(tools.scorer, max_turns=turns)


def test_calls_are_written_as_sessions_read_them() -> None:
    given = [("search", {"query": 'a "quoted" </tool_call> text\n'}), ("open", {}), ("open", {"id": 3, "é": ["\ud800"]})]
    assert [(call.name, dict(call.arguments), call.fault) for call in read_calls(written_calls(given))] == [
        (name, arguments, None) for name, arguments in given
    ]
    (call,) = read_calls(written_calls([("search", "no object")]))  # type: ignore[list-item]
    assert call.fault == "json"


def test_the_model_is_told_of_its_tools_where_the_template_is_not(tools: Episodes) -> None:
    environments = tools.scorer.sources.environments
    label, prompt = task(tools, "tools")
    user = {"role": "user", "content": "6*7?"}
    told = with_tools_told(prompt, environments[label], [user])
    assert told[0]["role"] == "system" and '"calculator"' in told[0]["content"] and "<tool_call>" in told[0]["content"]
    assert told[1:] == [user]
    system = {"role": "system", "content": "Be brief."}
    assert with_tools_told(prompt, environments[label], [system, user])[0]["content"].startswith("Be brief.\n\nYou may call")
    assert with_tools_told(task(tools, "plain")[1], environments["plain"], [user]) == [user]


def test_another_format_of_calls_is_refused_where_the_trainer_reads_them() -> None:
    source = {"environment": "arithmetic", "tools": {"calculator": {}}, "name": "xml", "tool_options": {"calls": "qwen_xml"}}
    with Scorer({"sources": [source]}, workers=0) as scorer:
        with pytest.raises(UsageError, match="source 'xml': TRL reads the calls itself; leave out calls='qwen_xml'"):
            refuse_other_formats("xml", scorer.sources.environments["xml"], "TRL")
