import json
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from needs import require

from verigym.envs import Completion, Status, UsageError
from verigym.envs.format.environment import FormatEnvironment

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "format.jsonl").read_text().splitlines()]
OWN = {"completion", "expected", "why", "rule", "finish_reason"}


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = FormatEnvironment(**{name: value for name, value in case.items() if name not in OWN})
    completion = Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop"))
    score = env.score(env.prompt("q"), completion)
    assert score.status == case["expected"], score.reason
    assert score.reward == (1.0 if case["expected"] == "correct" else 0.0)
    assert case["rule"] in score.reason
    if score.status is Status.CORRECT:
        assert set(score.components.values()) == {1.0}
    elif case["rule"]:
        assert score.components[case["rule"]] == 0.0


@cases("tags", [(), ("think",), ("think", "answer")])
@cases("outside", ["after", "anywhere", "nowhere"])
@cases("boxes", [None, 0, 1, 3])
@cases("box_in", ["after", "anywhere", "answer"])
@cases("opened", [False, True])
def test_the_gold_has_the_layout(tags: tuple[str, ...], outside: str, boxes: int | None, box_in: str, opened: bool) -> None:
    options = {"tags": tags, "outside": outside, "boxes": boxes, "box_in": box_in, "opened_by_prompt": opened}
    contradictory = (
        (box_in == "answer" and "answer" not in tags)
        or (bool(boxes) and box_in == "after" and outside == "nowhere")
        or (opened and not tags)
    )
    if contradictory:
        with pytest.raises(UsageError, match="format"):
            FormatEnvironment(**options)
        return
    env = FormatEnvironment(**options)
    prompt = env.prompt("q")
    assert env.score(prompt, env.gold(prompt)).status is Status.CORRECT


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tags": ["<think>"]}, "without brackets"),
        ({"tags": ["a", "a"]}, "twice"),
        ({"box_in": "answer"}, "box_in"),
        ({"boxes": -1}, "boxes"),
        ({"tag": "think"}, "did you mean 'tags'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FormatEnvironment(**options)


def test_one_tag_may_be_given_as_text() -> None:
    assert FormatEnvironment(tags="think").grader == FormatEnvironment().grader


def test_a_preset_gives_way_to_options_beside_it() -> None:
    options = FormatEnvironment(preset="r1-zero", outside="anywhere").options
    assert (options.tags, options.outside, options.boxes) == (("think", "answer"), "anywhere", None)


@pytest.mark.parametrize(
    "options",
    [{"preset": name} for name in ("r1", "r1-zero", "boxed", "json")]
    + [{"preset": "r1", "fence": "python"}, {"preset": "r1-zero", "json_answer": True}, {"preset": "json", "fence": "json"}],
)
def test_presets_have_a_gold(options: dict[str, Any]) -> None:
    env = FormatEnvironment(**options)
    prompt = env.prompt("q")
    gold = env.gold(prompt)
    assert gold is not None
    assert env.score(prompt, gold).status is Status.CORRECT


def test_graded_gives_the_share_of_the_rules() -> None:
    env = FormatEnvironment(graded=True, tags=("think", "answer"), outside="nowhere", boxes=1, box_in="answer")
    prompt = env.prompt("q")
    score = env.score(prompt, "<think>a</think> so <answer>5</answer>")
    assert (score.status, score.reward) == (Status.PARTIAL, 2 / 5)  # tags and filled; text outside, no box, none in place
    assert env.score(prompt, "nothing of it").reward == 0
    assert env.score(prompt, env.gold(prompt) or "").reward == 1


def test_rules_that_ask_nothing_do_not_count() -> None:
    env = FormatEnvironment(graded=True, preset="json")
    assert env.score(env.prompt("q"), "no JSON").reward == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "r2"}, "preset"),
        ({"answer_in": "answer"}, "answer_in"),
        ({"preset": "r1-zero", "answer_in": "after", "json_answer": True}, "outside='nowhere' forbids"),
        ({"json_schema": {"type": "strange"}}, "no JSON Schema"),
        ({"json_schema": {"$ref": "https://example.org/schema"}}, "inside the schema"),
        ({"json_schema": {"properties": {"a": {"patternProperties": {}}}}}, "patternProperties"),
        ({"json_schema": {"pattern": "(?=a)"}}, "RE2"),
        ({"pattern": "a("}, "RE2"),
    ],
)
def test_what_is_asked_of_the_answer_is_checked(options: dict[str, Any], message: str) -> None:
    require("re2", "jsonschema")
    with pytest.raises(UsageError, match=message):
        FormatEnvironment(**options)


def test_a_property_may_be_called_as_a_keyword() -> None:
    schema = {"type": "object", "properties": {"format": {"type": "string"}, "pattern": {"const": "("}}}
    env = FormatEnvironment(preset="json", json_schema=schema)
    assert env.score(env.prompt("q"), '{"format": "x", "pattern": "("}').status is Status.CORRECT
