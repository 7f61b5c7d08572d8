"""What is equal to the gold and yet no answer: the question handed back or rewritten, work left to do; and forms that are."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from verigym.envs.math.environment import MathEnvironment
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.judging.guards.reduced import is_reduced
from verigym.envs.math.judging.question import computations, matrices
from verigym.envs.math.judging.shapes import shape
from verigym.envs.math.reading.parse import parse

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "math_guards.jsonl").read_text(encoding="utf-8").splitlines()
]


@cases("case", CASES, ids=lambda case: f"{case['question']} | {case['answer']}")
def test_cases(case: dict[str, Any]) -> None:
    env = MathEnvironment()
    score = env.score(env.prompt(case["question"], answer=case["gold"]), rf"\boxed{{{case['answer']}}}")
    assert score.reward == (1.0 if case["expected"] else 0.0), score.reason
    assert case.get("said", "") in (score.reason or "")


@cases("case", [case for case in CASES if not case["expected"]], ids=lambda case: case["answer"])
def test_what_is_refused_is_equal(case: dict[str, Any]) -> None:
    env = MathEnvironment(echo="accept", unworked="accept")
    score = env.score(env.prompt(case["question"], answer=case["gold"]), rf"\boxed{{{case['answer']}}}")
    assert score.reward == 1.0, score.reason


@pytest.mark.parametrize(
    ("text", "reduced"),
    [
        (r"2\sqrt{3}", True),
        (r"\frac{3\pi}{4}", True),
        (r"\frac{1}{\sqrt2}", True),
        (r"2^{10}", True),
        (r"\frac{\sqrt6+\sqrt2}{4}", True),
        (r"\sqrt{2+\sqrt3}", True),
        (r"2x+3y", True),
        (r"\sqrt{8}", False),
        (r"\sqrt{24/2}", False),
        (r"\sqrt{\frac{1}{4}}\pi", False),
        (r"\sqrt2\sqrt3", False),
        (r"\frac{2\pi}{4}", False),
        (r"2\cdot3\pi", False),
        (r"2x+3x", False),
        (r"x^2\cdot x", False),
        (r"3!\pi", False),
    ],
)
def test_reduced_forms(text: str, reduced: bool) -> None:
    assert is_reduced(shape(parse(text)), WorkBudget(100_000)) is reduced


@pytest.mark.parametrize(
    ("question", "computation"),
    [
        ("What is $17*23$?", "17*23"),
        ("What is 2 to the power of 10?", "2^{10}"),
        ("The square root of 12?", r"\sqrt{12}"),
    ],
)
def test_computations_in_words(question: str, computation: str) -> None:
    assert shape(parse(computation)) in computations(question)


def test_matrices_are_found_without_dollars() -> None:
    text = r"\begin{bmatrix}1&2\\3&4\end{bmatrix}"
    assert matrices(f"Square {text}.") == matrices(f"Square ${text}$.") == {shape(parse(text))}
    assert matrices(r"Square \begin{bmatrix}1&2") == frozenset()
