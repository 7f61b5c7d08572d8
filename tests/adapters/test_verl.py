"""verl: `compute_score` as verl calls it, rows, refusals; and verl's own reward managers and agent loop."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_environments import MIXTURE, WITH_TOOLS, Raises
from adapter_venv import real_run
from needs import lacking

from verigym.adapters import Scorer, UnscoredError, open_sources, verl
from verigym.adapters.episodes import Episodes
from verigym.envs import UsageError


def test_each_row_is_scored_by_its_source() -> None:
    score = verl.compute_score(MIXTURE, unscored=-0.5, workers=0, retries=0)
    assert inspect.iscoroutinefunction(score), "or verl runs it in a thread"
    sources = open_sources(MIXTURE)
    for row in map(json.loads, map(json.dumps, verl.rows(sources, 12))):
        assert set(row) == {"data_source", "prompt", "reward_model", "extra_info", "agent_name"}
        label, task = sources.task(row["extra_info"]["verigym"])
        for text in (str(sources.environments[label].gold(task)), "3", "4", ""):
            given = {"extra_info": row["extra_info"], "data_source": label, "reward_router_address": "there"}
            told = asyncio.run(score(solution_str=text, ground_truth=row["reward_model"]["ground_truth"], **given))
            ours = sources.environments[label].score(task, text)
            assert told == {
                "score": -0.5 if ours.reward is None else ours.reward,
                "acc": float(ours.status.value == "correct"),
                "unscored": float(ours.reward is None),
            }


@pytest.mark.filterwarnings("ignore:raises. its judge raises:UserWarning")
def test_what_stands_in_for_a_withheld_reward_is_logged_as_that() -> None:
    score = verl.compute_score(Raises(), columns={}, unscored=-0.5, workers=0, stop_after=None)
    told = [asyncio.run(score("raises", "raise", "", {"question": "q"})) for _ in range(30)]
    assert [one["unscored"] for one in told] == [float(one["score"] == -0.5) for one in told] == [0.0] * 19 + [1.0] * 11


def test_stop_stops() -> None:
    score = verl.compute_score(MIXTURE, unscored="stop", workers=0, retries=0)
    sources = open_sources(MIXTURE)
    row = next(row for row in verl.rows(sources, 12) if row["data_source"] == "half")
    task = sources.task(row["extra_info"]["verigym"])[1]
    failing = next(text for text in map(str, range(100)) if sources.environments["half"].score(task, text).reward is None)
    with pytest.raises(UnscoredError, match="half of all texts fail"):
        asyncio.run(score("half", failing, "", row["extra_info"]))


def test_rows_of_verl_s_own_examples() -> None:
    score = verl.compute_score("math", columns={"answer": "ground_truth"}, unscored="stop", workers=0)
    given: dict[str, Any] = {"data_source": "openai/gsm8k", "ground_truth": "4", "extra_info": {"question": "2+2?", "index": 0}}
    assert asyncio.run(score(solution_str=r"\boxed{4}", **given))["score"] == 1.0
    with pytest.raises(ValueError, match="the row has no prompt"):
        asyncio.run(score("openai/gsm8k", "4", "4"))


def test_episodes_are_for_the_agent_loop() -> None:
    rows = {row["data_source"]: row for row in verl.rows(WITH_TOOLS, 12)}
    assert {label: row["agent_name"] for label, row in rows.items()} == {
        "tools": "verigym",
        "away": "verigym",
        "plain": "single_turn_agent",
    }
    score = verl.compute_score(WITH_TOOLS, unscored="stop", workers=0)
    with pytest.raises(UsageError, match="source 'tools' has episodes.*agent_name: verigym"):
        asyncio.run(score("tools", "7", "", rows["tools"]["extra_info"]))


def test_unscored_has_no_default() -> None:
    with pytest.raises(TypeError, match="unscored"):
        verl.compute_score("math")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="expected 'stop', 'retry' or a number"):
        verl.compute_score("math", unscored=None)  # type: ignore[arg-type]


class Scripted:
    """What the agent loop's base class of verl gives: a server that says one text after another, one token a character."""

    eos_token_id, pad_token_id = 0, None

    def __init__(self, texts: list[str], response_length: int) -> None:
        self.texts = iter(texts)
        self.rollout_config = SimpleNamespace(response_length=response_length)
        self.loop = SimpleNamespace(time=lambda: 0.0)
        self.server_manager = self.tokenizer = self

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return "".join(map(chr, ids))

    async def generate(self, **asked: Any) -> Any:
        ids = [ord(one) for one in next(self.texts)]
        return SimpleNamespace(token_ids=ids, log_probs=None, num_preempted=None, extra_fields={})

    async def ct_build_initial_tokens(self, messages: Any, tools: Any) -> list[int]:
        return [7]

    async def ct_merge_assistant_token(self, ids: Any, new: Any, mask: Any, logprobs: Any, assistant_logprobs: Any) -> Any:
        return SimpleNamespace(token_ids=[*ids, *new]), [*mask, *[1] * len(new)], logprobs


@pytest.mark.parametrize(
    ("text", "response_length", "reason"),
    [("42\0", 4, "stop"), ("42\0", 3, "stop"), ("423", 3, "length"), ("42\0", 2, "length")],
)
def test_a_turn_that_ends_with_the_last_token_is_whole(text: str, response_length: int, reason: str) -> None:
    with Scorer({"sources": [{"environment": "arithmetic", "tools": {"calculator": {}}}]}, workers=0) as scorer:
        episodes = Episodes(scorer)
        (label,) = scorer.sources.environments
        one = label, scorer.sources.first(label)
        played = verl._Played(Scripted([text], response_length), one, "r", [])
        asyncio.run(played.play(episodes.open(one, "0"), {}, 0))
        episodes.close()
    assert played.completion.finish_reason == reason and len(played.tokens(response_length)["response_ids"]) <= response_length


@lacking("elsewhere", importlib.util.find_spec("verl") is not None, "verl is installed")
def test_the_extra_is_named_where_it_is_missing() -> None:
    with pytest.raises(UsageError, match=r"verl's agent loop needs the package verl.*verigym\[verl\]"):
        verl.agent_loop(MIXTURE, unscored="stop")


@pytest.mark.slow
def test_verl_s_own_classes() -> None:
    found = real_run("verl", also=["cachetools", "uvicorn", "fastapi"], timeout_s=1200)
    assert found["version"] == "0.9.1"
    managers = found["managers"]
    assert managers["scored"] == managers["equal"] == 2 * 32 * 6 and managers["unscored"] > 20
    assert managers["stops"].startswith("UnscoredError: a completion has no reward (half of all texts fail)")
    for part in ("agent_loop", "cut_off"):
        played = found[part]
        assert played["episodes"] == played["equal"] == played["masked"] == 12 and played["template_has_tools"], found
    assert (found["agent_loop"]["read"], found["agent_loop"]["unscored"], found["agent_loop"]["right_with_tool"]) == (4, 4, 4)
    assert found["cut_off"]["read"] == 0
    # With three guesses the fourth row's last guess comes too late.
    assert found["games"] == {"episodes": 4, "equal": 4, "turns": [2, 4, 6, 6], "read": 3}
    print(f"verl {found}")
