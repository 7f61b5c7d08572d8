"""OpenRLHF: function and endpoint by their wire format, and OpenRLHF's own executor that calls them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from adapter_environments import MIXTURE, WITH_TOOLS, Raises
from adapter_venv import real_run
from needs import needs

from verigym.adapters import Always, Scorer, UnscoredError, open_sources, openrlhf
from verigym.envs import UsageError

END = "<|im_end|>"


def items(count: int, texts: tuple[str, ...]) -> tuple[list[str], list[str], list[str], list[float | None]]:
    """Queries, prompts and labels as OpenRLHF has them, and our rewards."""
    sources = open_sources(MIXTURE)
    queries, prompts, labels, rewards = [], [], [], []
    for row in sources.rows(count):
        label, task = sources.task(row["verigym"])
        prompt = f"<|im_start|>user\n{row['prompt'][-1]['content']}{END}\n<|im_start|>assistant\n"
        for text in (str(sources.environments[label].gold(task)), *texts):
            queries.append(f"{prompt}{text}{END}")
            prompts.append(prompt)
            labels.append(row["verigym"])
            rewards.append(sources.environments[label].score(task, text).reward)
    return queries, prompts, labels, rewards


def test_the_function_gives_tensors_for_lists() -> None:
    reward_func = openrlhf.reward_func(MIXTURE, unscored=-0.5, workers=0, retries=0)
    *given, rewards = items(6, ("3", "", "4"))
    found = reward_func(*given, images=None)
    assert found["rewards"].tolist() == pytest.approx([-0.5 if one is None else one for one in rewards], abs=1e-6)
    assert found["scores"].tolist() == found["rewards"].tolist()
    assert found["extra_logs"]["unscored"].tolist() == [float(one is None) for one in rewards]
    assert None in rewards and set(found["extra_logs"]) == {"correct", "unscored"}


def test_labels_may_be_references() -> None:
    reward_func = openrlhf.reward_func("math", columns={"answer": "label"}, unscored="stop", workers=0)
    assert reward_func([r"2+2? \boxed{4}</s>"], ["2+2? "], ["4"])["rewards"].tolist() == [1.0]
    with pytest.raises(ValueError, match="unequal lengths: query 1, prompts 1, labels 0"):
        reward_func(["q"], ["q"], [])


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Q: yes<|im_end|>", "yes"),
        ("<s> Q: yes</s></s>", "yes"),
        ("Q: ", ""),
        ("Q: Q: again", "Q: again"),
        ("Q: a</s> b", "a</s> b"),
    ],
)
def test_the_completion_is_what_follows_the_prompt(query: str, text: str) -> None:
    assert openrlhf.completion_text(query, "Q: ") == text


def test_a_prompt_that_was_cut_is_no_guess() -> None:
    with pytest.raises(UsageError, match="does not begin with its prompt.*raise its limits of length"):
        openrlhf.completion_text("end of Q: yes", "The end of Q: ")
    with pytest.raises(UsageError, match="does not begin with its prompt"):
        openrlhf.completion_text("x" * 65 + "Q: yes", "Q: ")


def test_episodes_are_refused() -> None:
    with pytest.raises(UsageError, match="source 'tools' has episodes, and OpenRLHF's reward function gets one text"):
        openrlhf.reward_func(WITH_TOOLS, unscored="stop", workers=0)


def posted(application: Any, body: bytes, path: str = "/get_reward") -> tuple[int, Any]:
    """Status and JSON of a request to an ASGI application."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", "root_path": ""}
    asyncio.run(application(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body)


@needs("starlette")
def test_the_endpoint_answers_one_item_by_numbers_and_more_by_lists() -> None:
    application = openrlhf.app(MIXTURE, unscored=-0.5, workers=0, retries=0)
    queries, prompts, labels, rewards = items(3, ("3",))
    told = [-0.5 if one is None else one for one in rewards]
    status, found = posted(application, json.dumps({"query": queries, "prompts": prompts, "labels": labels}).encode())
    assert (status, found["rewards"], found["scores"]) == (200, told, told)
    one = {"query": queries[:1], "prompts": prompts[:1], "labels": labels[:1]}
    assert posted(application, json.dumps(one).encode(), "/")[1] == {
        "rewards": told[0],
        "scores": told[0],
        "extra_logs": {"correct": 1.0, "unscored": 0.0},
    }


@needs("starlette")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "Expecting property name"),
        (b"[]", "a mapping of the fields"),
        (b"[" * 100_000, "nested deeper"),
        (b"\xff", "decode"),
        (b'{"query": [], "query": []}', "occurs twice"),
        (b'{"query": ["q"]}', "'prompts'"),
        (b'{"query": "q", "prompts": ["q"], "labels": ["l"]}', "'query'"),
        (b'{"query": ["q"], "prompts": ["q"], "labels": ["l"]}', "holds no JSON"),
        (b'{"query": [1], "prompts": [2], "labels": [3]}', "'query"),
    ],
)
def test_what_the_endpoint_cannot_use_is_a_400(body: bytes, message: str) -> None:
    status, found = posted(openrlhf.app(MIXTURE, unscored="stop", workers=0), body)
    assert status == 400 and message in found["error"], found


@needs("starlette")
def test_half_a_surrogate_in_a_completion_is_graded() -> None:
    queries, prompts, labels, _ = items(1, ())
    query = queries[0].removesuffix(END) + "\ud800" + END
    given = json.dumps({"query": [query], "prompts": prompts[:1], "labels": labels[:1]})
    status, found = posted(openrlhf.app(MIXTURE, unscored="stop", workers=0), given.encode())
    assert (status, found["extra_logs"]["unscored"]) == (200, 0.0), found


def test_the_items_of_a_call_are_graded_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    submitted: list[Any] = []
    submit, after = Scorer.submit, Always.after

    def counted(self: Scorer, *item: Any) -> Any:
        submitted.append(item)
        return submit(self, *item)

    def seen(self: Always, *more: Any) -> Any:
        waited.append(len(submitted))
        return after(self, *more)

    monkeypatch.setattr(Scorer, "submit", counted)
    monkeypatch.setattr(Always, "after", seen)
    *given, rewards = items(4, ())
    openrlhf.reward_func(MIXTURE, unscored=0.0, workers=0, retries=0)(*given)
    assert waited == [len(rewards)] * len(rewards), "all are queued before the first is waited for"


@pytest.mark.filterwarnings("ignore:raises. its judge raises:UserWarning")
def test_what_stands_in_for_a_withheld_reward_is_logged_as_that() -> None:
    reward_func = openrlhf.reward_func(Raises(), columns={}, unscored=-0.5, workers=0, stop_after=None)
    found = reward_func(["q: raise"] * 30, ["q: "] * 30, [{}] * 30)
    stood_in = [float(reward == -0.5) for reward in found["rewards"].tolist()]
    assert sum(stood_in) == 11 and found["extra_logs"]["unscored"].tolist() == stood_in


@needs("starlette")
def test_no_reward_is_a_503_where_the_run_is_to_stop() -> None:
    queries, prompts, labels, rewards = items(6, ("3", "4", "5", "6"))
    place = rewards.index(None)
    one = {"query": queries[place : place + 1], "prompts": prompts[place : place + 1], "labels": labels[place : place + 1]}
    status, found = posted(openrlhf.app(MIXTURE, unscored="stop", workers=0, retries=0), json.dumps(one).encode())
    assert status == 503 and "half of all texts fail" in found["error"]
    with pytest.raises(UnscoredError):
        openrlhf.reward_func(MIXTURE, unscored="stop", workers=0, retries=0)(*one.values())


@pytest.mark.slow
def test_openrlhf_s_own_executor() -> None:
    alone = ["torch", "transformers", "aiohttp", "pylatexenc", "starlette", "uvicorn"]
    found = real_run("openrlhf", also=alone, without_dependencies=["openrlhf==0.11.2"], timeout_s=600)
    assert found["version"] == "0.11.2"
    for kind in ("function", "endpoint"):
        assert found[kind]["scored"] == found[kind]["equal"] == found[kind]["logged"] == 72 and found[kind]["unscored"] > 5
        assert found[f"{kind}_stops"] == {"reward": None}, "OpenRLHF's step fails on it"
    print(f"OpenRLHF {found}")
