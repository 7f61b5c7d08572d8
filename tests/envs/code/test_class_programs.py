"""Honest programs in the style of classes, all of which plain Python accepts: which of them we do, and which not yet."""

import json
from pathlib import Path
from typing import Any

import pytest

from verigym.envs.code.environment import CodeEnvironment

CASES = [json.loads(line) for line in (Path(__file__).with_name("class_programs.jsonl")).read_text().splitlines()]


@pytest.fixture(scope="module")
def env() -> CodeEnvironment:
    return CodeEnvironment()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.slow] * (n % 5 > 0), id=case["why"]) for n, case in enumerate(CASES)]
)
def test_programs_of_classes(env: CodeEnvironment, case: dict[str, Any]) -> None:
    prompt = env.prompt("Write it.", tests=[{"type": case["type"], "code": case["test"]}], limits={"wall_s": 60})
    score = env.score(prompt, f"~~~python\n{case['program']}\n~~~")
    assert (score.status == "correct") is (case["status"] == "correct"), score.reason


def test_how_many() -> None:
    assert sum(case["status"] == "correct" for case in CASES) >= 0.9 * len(CASES)
