"""Typed comparison: pairs with the wanted verdict, and what a judgement says."""

import json
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st

from verigym.envs.math.environment import MathEnvironment
from verigym.envs.math.judging.compare import Judgement, judge_answer
from verigym.envs.math.judging.policy import Policy
from verigym.envs.math.reading.parse import ParseError, parse

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "math_pairs.jsonl").read_text(encoding="utf-8").splitlines()
]


def judge(gold: str, answer: str, question: str = "", **options: Any) -> Judgement:
    return judge_answer(parse(gold), parse(answer), Policy(**options), question=question)


@cases("string_tier", [True, False], ids=["with the string tier", "without the string tier"])
@cases("pair", PAIRS, ids=lambda pair: f"{pair['gold']} | {pair['answer']} | {pair['why']}")
def test_pairs(pair: dict[str, Any], string_tier: bool) -> None:
    env = MathEnvironment(string_tier=string_tier, **pair.get("options", {}))
    prompt = env.prompt(pair.get("question", "What is it?"), answer=pair["gold"])
    score = env.score(prompt, rf"\boxed{{{pair['answer']}}}")
    assert score.reward is not None, score.error
    assert (score.reward == 1.0) is pair["expected"], score.reason


def test_pairs_are_many_and_of_both_kinds() -> None:
    right = sum(pair["expected"] for pair in PAIRS)
    assert len(PAIRS) >= 150
    assert min(right, len(PAIRS) - right) >= 70
    assert len({json.dumps({**pair, "why": ""}) for pair in PAIRS}) == len(PAIRS)


def test_every_option_is_tried_in_pairs() -> None:
    tried = {option for pair in PAIRS for option in pair.get("options", {})}
    assert set(Policy.model_fields) - {"max_values", "echo", "chains"} <= tried


def test_the_reason_names_the_tier_and_the_policies_that_decided() -> None:
    assert judge("1/2", "0.5") == Judgement(True, "equal (exact)", "exact")
    assert judge("1/3", "0.333333").reason == "equal (exact); decimals=six"
    assert judge("28\\%", "28").reason == "equal (exact); percent=gold"
    assert judge("5 \\text{ cm}", "5 \\text{ m}").reason == "not equal: the unit is 'm', not 'cm'; units=match"
    assert judge("1,2", "2,1", order="gold").reason == "not equal: another order; order=gold"
    assert judge("(0,1)", "0<x<1", symmetry="strict").reason.endswith("; symmetry=strict")
    assert judge("1, 2", "1").reason == "not equal: one value where 2 are asked"
    assert judge("5", "x = 4 = 5").correct is False


def test_the_policy_that_did_not_decide_is_not_named() -> None:
    assert ";" not in judge("5", "6").reason
    assert ";" not in judge("x+1", "1+x").reason


def test_an_enumeration_is_refused_before_it_is_read() -> None:
    values = ", ".join(map(str, range(500)))
    found = judge("7", rf"x \in \{{{values}\}}")
    assert (found.correct, found.tier) == (False, "limit")
    assert judge(values, values + ", 500").correct is False
    assert judge(values, ", ".join(map(str, reversed(range(500))))).correct is True


@pytest.mark.parametrize(
    ("question", "answer", "correct"),
    [
        ("What is $17 \\times 23$?", "17 \\cdot 23", False),
        ("What is $17 \\times 23$?", "23 \\cdot 17 \\cdot 1", False),
        ("What is 17 * 23?", "\\sqrt{(17*23)^2}", False),
        ("What is $17 \\times 23$?", "17 \\cdot 23 = 391", True),
        ("What is $17 \\times 23$?", "391", True),
        ("What is $17 \\times 23$?", "400 - 9", False),
        ("Which is more, 391 or 390?", "391", True),
        ("", "17 \\cdot 23", True),
    ],
)
def test_the_question_is_no_answer(question: str, answer: str, correct: bool) -> None:
    assert judge("391", answer, question).correct is correct
    assert judge("391", answer, question, echo="accept", unworked="accept").correct is True


def test_arithmetic_is_an_answer_by_option_and_for_a_bare_pair() -> None:
    question = "How many eggs are in 17 boxes of 23?"
    assert judge("391", "17*23", question).reason.startswith("refused: a number is asked")
    assert judge("391", "17*23", question, unworked="arithmetic").correct is True
    assert judge("391", r"\sum_{i=1}^{17} 23", question, unworked="arithmetic").correct is False
    assert judge("391", "17*23").correct is True


def test_a_name_that_the_question_speaks_of() -> None:
    assert judge("5", "x^2 = 5", "What is $x^2$?").correct is True
    assert judge("5", "x^2 = 5", "What is $x$?").correct is False


_TEXTS = st.text(alphabet="0123456789.,+-*/^_=<>(){}[]|\\ xyabi%:!$frcsqtpml", max_size=30)


@given(_TEXTS, _TEXTS)
def test_any_two_trees_get_a_judgement(gold: str, answer: str) -> None:
    try:
        one, two = parse(gold), parse(answer)
    except ParseError:
        return
    assert isinstance(judge_answer(one, two, Policy()), Judgement)
    assert judge_answer(one, one, Policy()).correct is True
