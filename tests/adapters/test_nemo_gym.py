"""NeMo Gym: rows and endpoints by the shapes of the Responses API, and NeMo Gym's own server and agent over HTTP."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_environments import MIXTURE, WITH_TOOLS, Half
from adapter_venv import real_run
from needs import lack, lacking

from verigym.adapters import Scorer, UnscoredError, nemo_gym, open_sources
from verigym.adapters.nemo_gym import Endpoints
from verigym.envs import UsageError


@lacking("elsewhere", importlib.util.find_spec("nemo_gym") is not None, "nemo_gym is installed")
def test_the_extra_is_named_where_it_is_missing() -> None:
    with pytest.raises(UsageError, match=r"needs the package nemo_gym.*verigym\[nemo-gym\]"):
        nemo_gym.server(MIXTURE, unscored="mask")


def message(text: str) -> Any:
    return SimpleNamespace(type="message", role="assistant", content=[SimpleNamespace(type="output_text", text=text)])


def response(*output: Any, cut: bool = False) -> Any:
    return SimpleNamespace(output=list(output), incomplete_details=SimpleNamespace(reason="max_output_tokens") if cut else None)


CALL = SimpleNamespace(type="function_call", name="calculator", arguments="{}")


def test_rows_are_those_of_the_responses_api(tmp_path: Path) -> None:
    sources = open_sources(WITH_TOOLS)
    assert nemo_gym.write_rows(sources, sources.rows(12), tmp_path / "rows.jsonl", agent="mine") == 12
    for row in map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines()):
        label, prompt = sources.task(row["verigym"])
        asked = row["responses_create_params"]
        assert asked["input"] == [{"role": one.role, "content": one.content} for one in prompt.messages]
        assert row["agent_ref"] == {"type": "responses_api_agents", "name": "mine"} and row["source"] == label
        tools = [(one["type"], one["name"], one["strict"]) for one in asked.get("tools", [])]
        assert (
            tools == {"tools": [("function", "calculator", False)], "away": [("function", "away", False)], "plain": []}[label]
        )


def test_verdicts_are_the_environment_s() -> None:
    with Scorer(MIXTURE, workers=0, retries=0, stop_after=None) as scorer:
        ours = Endpoints(scorer, "mask", 4, 30.0)
        for row in scorer.sources.rows(12):
            label, prompt = scorer.sources.task(row["verigym"])
            environment = scorer.sources.environments[label]
            for text in (environment.gold(prompt) or "", "no", "1"):
                told = asyncio.run(ours.verdict("s", row["verigym"], response(message(text))))
                score = environment.score(prompt, text)
                assert told["mask_sample"] is (score.reward is None)
                assert told["reward"] == (0.0 if score.reward is None else score.reward)
                assert told["status"] == score.status.value and ("error" in told) is (score.error is not None)


def test_what_stands_for_no_reward_has_to_be_chosen() -> None:
    with Scorer(Half(), workers=0, retries=0) as scorer:
        cell = next(scorer.sources.rows(1))["verigym"]
        told = asyncio.run(Endpoints(scorer, -1.0, 4, 30.0).verdict("s", cell, response(message("1"))))
        assert (told["reward"], told["mask_sample"], told["error"]["kind"]) == (-1.0, False, "backend")
        with pytest.raises(UnscoredError):
            asyncio.run(Endpoints(scorer, "stop", 4, 30.0).verdict("s", cell, response(message("1"))))
        with pytest.raises(UsageError, match="expected 'stop', 'retry' or a number"):
            Endpoints(scorer, "masks", 4, 30.0)


@pytest.mark.parametrize(
    ("answer", "text", "reason"),
    [
        (response(message("first"), CALL, message("last")), "last", "stop"),
        (response(message("first"), CALL), "", "turns"),
        (response(message("cut of"), cut=True), "cut of", "length"),
        (response(), "", "turns"),
    ],
)
def test_the_last_message_is_the_answer(answer: Any, text: str, reason: str) -> None:
    assert nemo_gym.answer_of(answer) == (text, reason)


def test_tools_are_called_in_the_session_s_episode() -> None:
    with Scorer(WITH_TOOLS, workers=0, retries=0, stop_after=None) as scorer:
        ours = Endpoints(scorer, "mask", 3, 30.0)
        rows = {row["source"]: row["verigym"] for row in scorer.sources.rows(12)}
        golds = {label: scorer.sources.environments[label].gold(scorer.sources.task(cell)[1]) for label, cell in rows.items()}

        async def play(label: str, *calls: tuple[str, Any], text: str | None = None) -> tuple[list[str], dict[str, Any]]:
            await ours.begin(label, rows[label])
            said = [await ours.call(label, *call) for call in calls]
            answer = response(message(golds[label] or "" if text is None else text))
            return said, await ours.verdict(label, rows[label], answer)

        product = ("calculator", {"expression": "6*7"})
        said, told = asyncio.run(play("tools", product, ("abacus", {}), product))
        assert (said[0], said[2], told["reward"]) == ("42", "42", 1.0) and "no tool 'abacus'" in said[1]
        said, told = asyncio.run(play("tools", product, *[product] * 3))
        assert said == ["42"] * 3 + ["Error: the episode is over."], "three calls, and a turn is left for the answer"
        said, told = asyncio.run(play("away", ("away", {"number": 3})))
        assert (told["reward"], told["mask_sample"], told["error"]["kind"]) == (0.0, True, "unavailable")
        said, told = asyncio.run(play("plain", product))
        assert said == ["Error: there is no tool 'calculator' here."] and told["reward"] == 1.0
        asyncio.run(ours.begin("other", rows["away"]))
        assert asyncio.run(ours.call("other", "away", [1])) == "Error: the arguments are no JSON object."
        told = asyncio.run(ours.verdict("never begun", rows["tools"], response(message("4"))))
        assert told["mask_sample"] and told["error"]["kind"] == "protocol"
        with pytest.raises(UsageError, match="about another task"):
            asyncio.run(ours.verdict("other", rows["tools"], response(message("4"))))


def test_environments_that_talk_are_refused() -> None:
    with Scorer("number_guessing", workers=0) as scorer, pytest.raises(UsageError, match="agents only call tools"):
        Endpoints(scorer, "mask", 4, 30.0)


@pytest.mark.slow
def test_nemo_gym_s_own_server_and_agent() -> None:
    try:
        subprocess.run(["python3.13", "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        lack("adapters", "NeMo Gym needs Python 3.12 or newer: python3.13")
    found = real_run("nemo_gym", python="python3.13", constraints=False, timeout_s=900)
    mixture, missing = found["mixture"], found["no reward"]
    assert mixture["nemo gym"] == mixture["env.score"] and not any(mixture["masked"])
    assert mixture["tools"].count(True) == 5 and mixture["tool said 42"] and mixture["mean"] == pytest.approx(0.5)
    expected = missing["env.score"]
    assert missing["mask"] == missing["stop"] == expected and missing["http"] == [500]
    assert missing["number"] == [-1.0 if one is None else one for one in expected]
    assert missing["aggregated"] == [expected.count(None), pytest.approx(missing["mean"])]
    print(f"NeMo Gym {found}")
