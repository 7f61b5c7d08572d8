import json
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from verigym.envs import Completion, Status, UsageError, load
from verigym.envs.conformance import check_env
from verigym.envs.process.environment import ProcessEnvironment

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "process.jsonl").read_text().splitlines()]
OWN = {"completion", "expected", "why", "rewards", "reward", "finish_reason"}
TASK = "Tom has 3 boxes of 4 pens and gets 5 more."


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    env = ProcessEnvironment(**{name: value for name, value in case.items() if name not in OWN})
    completion = Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop"))
    score = env.score(env.prompt(TASK), completion)
    assert score.status == case["expected"], score.reason
    assert score.reward == pytest.approx(case.get("reward", 1.0 if case["expected"] == "correct" else 0.0))
    assert [step.reward for step in score.steps or ()] == pytest.approx(case["rewards"])


def test_steps_and_reason_name_the_place() -> None:
    env = load("process")
    text = "We begin.\n\n2 + 3 = 5\n\n5 * 2 = 11\n\n11 + 1 = 13"
    score = env.score(env.prompt(TASK), text)
    assert [(text[step.start : step.end].strip(), step.reward) for step in score.steps] == [
        ("2 + 3 = 5", 1.0),
        ("5 * 2 = 11", 0.0),
        ("11 + 1 = 13", 0.0),
    ]
    assert score.reason == "step 3 of 4: 5 * 2 is 10, not 11"
    assert score.steps[1].reason == "5 * 2 is 10, not 11"
    assert dict(score.components) == {"steps": 4, "judged": 3, "min": 0, "first_error": 2, "unjudged": 0}


@pytest.mark.parametrize(("how", "reward"), [("min", 0.0), ("product", 0.0), ("last", 1.0), ("mean", 0.5)])
def test_other_aggregations(how: str, reward: float) -> None:
    env = ProcessEnvironment(aggregate=how)
    assert env.score(env.prompt(TASK), "2 + 2 = 5\n\n2 + 2 = 4").reward == reward


def test_too_much_arithmetic_is_a_limit_and_never_an_error() -> None:
    env = ProcessEnvironment()
    score = env.score(env.prompt(TASK), "1+1=2 " * 5000)
    assert score.status is Status.LIMIT and score.reward == 0.0


@pytest.mark.slow
def test_it_keeps_its_contract() -> None:
    report = check_env(ProcessEnvironment())
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "qwen"}, "needs a model"),
        ({"split": []}, "split holds an empty text"),
        ({"split": [",", ""]}, "split holds an empty text"),
        ({"model": "x"}, "uses no model"),
        ({"kind": "tokens", "model": "x", "tag": ""}, "tag is empty"),
        ({"kind": "tokens", "model": "x", "positive": -1}, "from 0"),
        ({"aggregate": "sum"}, "aggregate"),
        ({"treshold": 0.5}, "did you mean 'threshold'"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ProcessEnvironment(**options)
