"""inspect_ai: what is judged of a sample, and inspect's own evaluation of our tasks."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_venv import real_run
from needs import SHARED, lacking

from verigym.adapters import inspect_ai
from verigym.adapters.inspect_ai import EPISODE, completion_of
from verigym.envs import Completion, UsageError

MISSING = lacking("elsewhere", importlib.util.find_spec("inspect_ai") is not None, "inspect_ai is installed")


@MISSING
def test_the_extra_is_named_where_it_is_missing() -> None:
    for make in (lambda: inspect_ai.scorer("math"), lambda: inspect_ai.task("arithmetic", count=1)):
        with pytest.raises(UsageError, match=r"needs the package inspect_ai.*verigym\[inspect-ai\]"):
            make()


def state(text: str, reason: str, **store: Any) -> Any:
    return SimpleNamespace(output=SimpleNamespace(completion=text, stop_reason=reason), store=store)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [("stop", "stop"), ("max_tokens", "length"), ("model_length", "context"), ("content_filter", None), ("tool_calls", None)],
)
def test_a_text_is_judged_with_what_ended_it(reason: str, ours: str | None) -> None:
    assert completion_of(state("4", reason)) == Completion(text="4", finish_reason=ours)  # type: ignore[arg-type]


def test_an_episode_is_judged_as_it_was_played() -> None:
    played = Completion(text="4", finish_reason="turns", outcome={"found": False})
    assert completion_of(state("other", "stop", **{EPISODE: played.model_dump(mode="json")})) == played


@pytest.mark.slow
def test_inspect_evaluates_our_tasks() -> None:
    folder = [str(SHARED / "data")] if (SHARED / "data/gsm8k").is_dir() else []
    found = real_run("inspect_ai", *folder, timeout_s=900)
    data, own, missing, episodes = found["data"], found["own"], found["no reward"], found["episodes"]
    assert data["rows"] == 24 and data["scores"] == data["env.score"] and data["mean"] == pytest.approx(1 / 3)
    assert own["scores"] == [1.0, 0.0]
    assert missing["scores"] == missing["env.score"] and missing["mean"]
    assert missing["unscored"] == missing["env.score"].count(None) > 0
    assert missing["told"] == ["scoring_failed", "half of all texts fail", "backend"]
    assert episodes["scores"] == episodes["expected"] and episodes["turns"] == episodes["texts"] > 3
    print(f"inspect_ai {found}")
