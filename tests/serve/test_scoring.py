"""Items over HTTP: verdicts, batches, and what is refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from cases import cases
from service_process import HEADERS, Running, math_item

from verigym import Score, load


def post(service: Running, path: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{service.url}{path}", content=content, headers={**HEADERS, **headers}, timeout=600, trust_env=False)


def lines(response: httpx.Response) -> dict[int, dict[str, Any]]:
    assert response.status_code == 200, response.text
    found = [json.loads(line) for line in response.text.splitlines()]
    assert len({one["index"] for one in found}) == len(found)
    return {one["index"]: one for one in found}


def test_a_score_is_that_of_the_library(service: Running) -> None:
    response = post(service, "/score", math_item(4, 4))
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    environment = load("math")
    here = environment.score(environment.prompt("2+2?", answer="4"), "It is \\boxed{4}.")
    there = Score.model_validate(response.json())
    assert there.model_copy(update={"seconds": 0.0}) == here.model_copy(update={"seconds": 0.0})
    assert post(service, "/score", math_item(4, 5)).json()["reward"] == 0.0


def test_prompts_and_completions_in_every_form(service: Running) -> None:
    answer = {"role": "assistant", "content": "\\boxed{4}"}
    forms = [
        {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]},
        {"completion": [answer]},
        {"completion": {"text": "\\boxed{4}", "finish_reason": "stop"}},
        {"completion": {"text": "\\boxed{4}", "turns": [{"role": "assistant", "text": "\\boxed{4}"}]}},
        {"completion": {"message": answer, "finish_reason": "stop"}},
    ]
    for form in forms:
        assert post(service, "/score", {**math_item(), **form}).json()["status"] == "correct", form
    generated = {"environment": "arithmetic", "task": {"index": 3, "seed": 5}, "completion": "?"}
    environment: Any = load("arithmetic")
    prompt = environment.prompt_at("train", 5, 3)
    assert post(service, "/score", generated).json()["reward"] == 0.0
    assert post(service, "/score", {**generated, "completion": environment.gold(prompt)}).json()["reward"] == 1.0


def test_a_failure_of_ours_has_no_reward_and_is_no_error_of_http(service: Running) -> None:
    failed = {"text": "", "turns": [], "failure": {"kind": "backend", "message": "the tool was down"}}
    response = post(service, "/score", math_item(completion=failed))
    assert response.status_code == 200
    assert response.json()["reward"] is None and response.json()["error"]["message"] == "the tool was down"


def test_a_batch_answers_each_item_under_its_id(service: Running) -> None:
    items = [math_item(number, number + number % 2, id=f"n{number}") for number in range(120)]
    as_list = lines(post(service, "/score/batch", items))
    ndjson = "\n\n".join(map(json.dumps, items)).encode() + b"\n"
    as_lines = lines(post(service, "/score/batch", ndjson, **{"Content-Type": "application/x-ndjson; charset=utf-8"}))
    for found in (as_list, as_lines):
        assert sorted(found) == list(range(120))
        assert all(one["id"] == f"n{index}" and one["score"]["reward"] == 1 - index % 2 for index, one in found.items())


def test_a_row_that_does_not_fit_its_environment_costs_itself_only(service: Running) -> None:
    items = [math_item(), math_item(reference={"anwser": "4"}), math_item(completion={"content": 7}), math_item()]
    found = lines(post(service, "/score/batch", items))
    assert [found[index]["score"]["reward"] for index in (0, 3)] == [1.0, 1.0]
    assert found[1]["problem"]["message"].startswith("reference of 'math': unknown field 'anwser'; did you mean 'answer'?")
    assert found[2]["problem"]["error"] == "invalid" and "score" not in found[2]


def test_a_bug_of_an_environment_costs_one_item(service: Running) -> None:
    bad = {"environment": "counting", "prompt": "?", "reference": {"confuses": True}, "completion": ""}
    response = post(service, "/score", bad, **{"Idempotency-Key": "bug"})
    assert (response.status_code, response.json()["error"]) == (500, "internal")
    assert response.json()["message"] == "counting: the item could not be read: KeyError: 'a bug of the environment'"
    found = lines(post(service, "/score/batch", [math_item(), bad]))
    assert found[0]["score"]["reward"] == 1.0 and found[1]["problem"]["error"] == "internal"
    assert service.metric("verigym_items_pending") == 0


def test_text_that_no_encoding_takes_is_graded_and_comes_back(service: Running) -> None:
    body = json.dumps(math_item(completion="\ud800 \\boxed{\udfff}")).encode()
    response = post(service, "/score", body)
    assert response.status_code == 200 and response.json()["reward"] == 0.0
    assert response.content.isascii()


@cases(
    "body, status, sentence",
    [
        (b"", 422, "is not JSON"),
        (b"{", 422, "is not JSON"),
        (b"[" * 100_000, 422, "deeper than 100 levels"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, 422, "deeper than 100 levels"),
        (b"\xff\xfe", 422, "not UTF-8"),
        (b"null", 422, "the body: null; expected an object with the fields"),
        (b"3", 422, "a number"),
        (b'"text"', 422, "a text"),
        (b'{"environment": "math", "environment": "math"}', 422, "occurs twice"),
        (b'{"environment": NaN}', 422, "NaN is not JSON"),
        (b'{"environment": 1e999}', 422, "too large"),
        (b'{"environment": ' + b"9" * 5000 + b"}", 422, "is not JSON that is taken"),
        (math_item(environment=3), 422, "'environment': Input should be a valid string"),
        (math_item(environment="maths"), 422, "did you mean 'math'?"),
        (math_item(environment="\ud800" * 9), 422, "is not served here"),
        (math_item(prompt=None), 422, "prompt: null; leave it out"),
        ({"environment": "math", "completion": ""}, 422, "either prompt, with reference, or task"),
        (math_item(prompt=[]), 422, "at least one message"),
        (math_item(prompt=[{"role": "tool", "content": ""}]), 422, "role"),
        (math_item(prompt=[{"role": "user", "content": None}]), 422, "content"),
        (math_item(task={"index": 0}), 422, "got both"),
        ({"environment": "math", "task": {"index": 0}, "completion": ""}, 422, "'math' generates no tasks"),
        ({"environment": "arithmetic", "task": {"index": -1}, "completion": ""}, 422, "greater than or equal to 0"),
        ({"environment": "arithmetic", "task": {"index": 10**30}, "completion": ""}, 422, "less than or equal"),
        ({"environment": "arithmetic", "task": {"index": 1.5}, "completion": ""}, 422, "valid integer"),
        ({"environment": "arithmetic", "task": {"index": True}, "completion": ""}, 422, "valid integer"),
        (math_item(reference=[]), 422, "reference"),
        (math_item(reference={"answer": {}}), 422, "answer"),
        (math_item(reference={"answer": "4", "metadata": {}}), 422, "unknown field 'metadata'"),
        (math_item(reference={"text": "again"}), 422, "unknown field 'text'"),
        (math_item(completion=7), 422, "completion"),
        (math_item(completion=[]), 422, "completion"),
        (math_item(completion={}), 422, "expected text"),
        (math_item(completion={"text": "a", "turns": [{"role": "assistant", "text": "b"}]}), 422, "last turn"),
        (math_item(completion=[{"role": "user", "content": "hm"}]), 422, "assistant's"),
        (math_item(extra=1), 422, "unknown field 'extra'"),
        (math_item(id="a"), 422, "unknown field 'id'"),
    ],
)
def test_what_is_no_item_is_refused_with_a_sentence(service: Running, body: Any, status: int, sentence: str) -> None:
    response = post(service, "/score", body)
    assert response.status_code == status, response.text
    assert sentence in response.json()["message"]
    assert response.json().keys() == {"error", "message"}


@cases(
    "body, kind, status, sentence",
    [
        (b"[]", "json", 422, "holds no item"),
        (b"\n \n", "x-ndjson", 422, "holds no item"),
        (b"{}", "json", 422, "expected a list of items"),
        (b"[1]", "json", 422, "item 0: a number"),
        (json.dumps([math_item(), math_item(key="")]).encode(), "json", 422, "item 1: field 'key'"),
        (json.dumps([math_item(key="a b")]).encode(), "json", 422, "item 0: field 'key'"),
        (json.dumps([math_item(environment="nath")]).encode(), "json", 422, "item 0: environment 'nath' is not served"),
        (json.dumps(math_item()).encode() + b"\n\n{]", "x-ndjson", 422, "line 3 is not JSON"),
        (json.dumps(math_item()).encode() + b"\n[]", "x-ndjson", 422, "line 2: a list"),
        (b"\n".join([json.dumps(math_item()).encode()] * 201), "x-ndjson", 413, "201 items; at most 200"),
        (json.dumps([math_item()] * 201).encode(), "json", 413, "201 items; at most 200"),
        (b"[]", "xml", 415, "Content-Type: application/json or application/x-ndjson"),
    ],
)
def test_a_batch_with_something_else_is_refused_whole(
    service: Running, body: bytes, kind: str, status: int, sentence: str
) -> None:
    response = post(service, "/score/batch", body, **{"Content-Type": f"application/{kind}"})
    assert response.status_code == status and sentence in response.json()["message"], response.text
    assert service.metric("verigym_items_pending") == 0


def test_other_paths_methods_and_types_are_refused_with_a_sentence(service: Running) -> None:
    found = httpx.get(f"{service.url}/scores", trust_env=False)
    assert (found.status_code, found.json()["error"]) == (404, "not_found")
    found = httpx.get(f"{service.url}/score", trust_env=False)
    assert (found.status_code, found.headers["allow"], found.json()["error"]) == (405, "POST", "method_not_allowed")
    found = post(service, "/score", math_item(), **{"Content-Type": "text/plain"})
    assert (found.status_code, found.json()["error"]) == (415, "media_type")
    found = post(service, "/score", math_item(), **{"Idempotency-Key": "a b"})
    assert (found.status_code, found.json()["error"]) == (422, "invalid")


def test_environments_are_described(service: Running) -> None:
    listed = httpx.get(f"{service.url}/environments", trust_env=False).json()["environments"]
    by_name = {one["name"]: one for one in listed}
    assert set(by_name) == {"math", "arithmetic", "number_guessing", "counting"}
    assert by_name["math"]["grader"] == load("math").grader
    assert "answer" in by_name["math"]["reference"]["properties"]
    assert [by_name[name]["interactive"] for name in ("math", "number_guessing")] == [False, True]
    assert [by_name[name]["generates_tasks"] for name in ("math", "arithmetic")] == [False, True]


def test_metrics_count_requests_and_verdicts(service: Running) -> None:
    start = 'verigym_items_total{environment="math",status="incorrect"}'
    post(service, "/score", math_item(4, 5))
    before = service.metric(start)
    post(service, "/score", math_item(4, 6))
    assert service.metric(start) == before + 1
    assert service.metric('verigym_requests_total{method="POST",route="/score",status="200"}') >= 2
    assert service.metric("verigym_ready") == 1
    assert service.metric("verigym_grader_worker_deaths_total") == 0


def test_a_repeated_key_is_answered_alike_and_graded_once(service: Running, tmp_path: Path) -> None:
    log = tmp_path / "log"
    item = {"environment": "counting", "prompt": "?", "reference": {"log": str(log)}, "completion": "once"}
    first = post(service, "/score", item, **{"Idempotency-Key": "k1"})
    again = post(service, "/score", item, **{"Idempotency-Key": "k1"})
    assert first.status_code == 200 and first.content == again.content
    (line,) = lines(post(service, "/score/batch", [{**item, "key": "k1"}])).values()
    assert line["score"] == first.json()
    assert log.read_text() == "once\n"
    other = post(service, "/score", {**item, "completion": "other"}, **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["error"]) == (409, "conflict")
    (line,) = lines(post(service, "/score/batch", [{**item, "completion": "other", "key": "k1"}])).values()
    assert line["problem"]["error"] == "conflict"


def test_a_key_of_a_batch_is_a_key_for_each_item(service: Running, tmp_path: Path) -> None:
    log = tmp_path / "log"
    item = {"environment": "counting", "prompt": "?", "reference": {"log": str(log)}}
    batch = [{**item, "completion": f"c{number}"} for number in range(5)]
    first = lines(post(service, "/score/batch", batch, **{"Idempotency-Key": "whole"}))
    again = lines(post(service, "/score/batch", batch, **{"Idempotency-Key": "whole"}))
    assert first == again
    assert sorted(log.read_text().split()) == [f"c{number}" for number in range(5)]


def test_a_key_that_is_being_graded_is_graded_once(service: Running, tmp_path: Path) -> None:
    log = tmp_path / "log"
    slow = {"environment": "counting", "prompt": "?", "reference": {"log": str(log), "seconds": 0.3}, "completion": "slow"}
    found = lines(post(service, "/score/batch", [{**slow, "key": "twin"}, {**slow, "key": "twin"}]))
    assert found[0]["score"] == found[1]["score"]
    assert log.read_text() == "slow\n"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health(service: Running, path: str) -> None:
    assert httpx.get(f"{service.url}{path}", trust_env=False).status_code == 200
