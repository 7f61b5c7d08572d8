"""verifiers: what is judged of a trace, and verifiers' own Env, Rollout and Task, both ways."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_environments import MIXTURE
from adapter_venv import real_run
from needs import lacking

from verigym.adapters import verifiers
from verigym.adapters.verifiers import EPISODE, completion_of_trace
from verigym.adapters.verifiers_environment import VerifiersEnvironment
from verigym.envs import Completion, UsageError


@lacking("elsewhere", importlib.util.find_spec("verifiers") is not None, "verifiers is installed")
def test_the_extra_is_named_where_it_is_missing() -> None:
    for make in (lambda: verifiers.plugin(MIXTURE), lambda: VerifiersEnvironment(taskset="gsm8k-v1")):
        with pytest.raises(UsageError, match=r"needs the package verifiers.*verigym\[verifiers\]"):
            make()


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match="eval_split='dev' has no effect without evaluate=True"):
        verifiers.plugin(MIXTURE, eval_split="dev")
    with pytest.raises(UsageError, match="floor 2.0 is not below maximum 1.0"):
        VerifiersEnvironment(taskset="sums", floor=2.0)
    with pytest.raises(UsageError, match="'taskset' is missing"):
        VerifiersEnvironment()


def trace(*texts: str, ended: str | None = "stop", root: str | None = None, **info: Any) -> Any:
    return SimpleNamespace(
        info=info,
        assistant_messages=[SimpleNamespace(content=text) for text in texts],
        calls=[SimpleNamespace(error=None, finish_reason=ended), SimpleNamespace(error="503", finish_reason=None)],
        root_reply=root,
    )


@pytest.mark.parametrize(
    ("given", "judged"),
    [
        (trace("first", " last\n"), Completion(text=" last\n", finish_reason="stop")),
        (trace("cut of", ended="length"), Completion(text="cut of", finish_reason="length")),
        (trace("called", ended="tool_calls"), Completion(text="called")),
        (trace("a part's", root="the root's"), Completion(text="the root's", finish_reason="stop")),
        (trace(), Completion(text="", finish_reason="stop")),
    ],
)
def test_the_last_text_is_judged(given: Any, judged: Completion) -> None:
    assert completion_of_trace(given) == judged


def test_an_episode_is_judged_as_it_was_played() -> None:
    played = Completion(text="4", finish_reason="turns", outcome={"found": False})
    assert completion_of_trace(trace("other", **{EPISODE: played.model_dump(mode="json")})) == played


@pytest.mark.slow
def test_verifiers_own_classes_both_ways() -> None:
    found = real_run("verifiers", timeout_s=900)
    once, missing, episodes, theirs = found["one turn"], found["no reward"], found["episodes"], found["theirs"]
    assert once["verifiers"] == once["env.score"] and all(once["ok"]) and {0.0, 1.0} == set(once["verifiers"])
    assert missing["verifiers"] == missing["env.score"] and None in missing["env.score"]
    assert missing["ok"] == [one is not None for one in missing["env.score"]]
    assert [error.partition("NoReward: ")[2] for error in missing["errors"]] == ["half of all texts fail"]
    assert episodes["verifiers"] == episodes["env.score"] == [1.0] * 3 and min(episodes["turns"]) > 1
    tools = found["tools"]
    assert tools["verifiers"] == tools["env.score"] and tools["tool said"] == ["<tool_response>\n42\n</tool_response>"]
    assert {(source, reward) for source, reward in zip(tools["sources"], tools["env.score"], strict=True)} == {
        ("tools", 1.0),
        ("plain", 1.0),
        ("away", None),
    }
    assert theirs["rewards"] == [1.0, 0.8, 0.2, 0.0, None] and theirs["rollouts"] == theirs["rewards"][:3]
    assert theirs["status"] == ["correct", "partial", "partial", "limit", "error"]
    assert (theirs["error"][-1], theirs["retryable"]) == ("backend", True)
    assert theirs["components"] == {"right": 1.0, "polite": 1.0, "words": 2.0}
    assert theirs["reloaded"] and theirs["system"] == "system"
    assert theirs["episode"] == theirs["in a loop"] == 1.0
    boxed, played, unknown = theirs["refused"]
    assert "polite need a sandbox" in boxed and "an Env of its own (Played)" in played and "cannot be opened" in unknown
    print(f"verifiers {found}")
