import json
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import Completion, Status, UsageError
from verigym.envs.format import FormatEnvironment

CASES = [json.loads(line) for line in (Path(__file__).parents[1] / "cases" / "format.jsonl").read_text().splitlines()]
OWN = {"completion", "expected", "why", "rule", "finish_reason"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
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


@pytest.mark.parametrize("tags", [(), ("think",), ("think", "answer")])
@pytest.mark.parametrize("outside", ["after", "anywhere", "nowhere"])
@pytest.mark.parametrize("boxes", [None, 0, 1, 3])
@pytest.mark.parametrize("box_in", ["after", "anywhere", "answer"])
@pytest.mark.parametrize("opened", [False, True])
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
