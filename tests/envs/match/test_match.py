import json
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from needs import require

from verigym.envs import Completion, Status, UsageError
from verigym.envs.match.environment import KINDS, MatchEnvironment
from verigym.envs.match.sql import same_rows
from verigym.envs.match.text import normalised

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "match.jsonl").read_text().splitlines()]
PACKAGE = {"regex": ["re2"], "chess": ["chess"]}


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    require(*PACKAGE.get(case["reference"]["kind"], ()))
    env = MatchEnvironment()
    completion = Completion(text=case["completion"], finish_reason=case.get("finish_reason", "stop"))
    score = env.score(env.prompt(case.get("question", "q"), **case["reference"]), completion)
    assert score.status == case["expected"], score.reason
    assert score.reward == float(case["expected"] == "correct")


def test_every_kind_has_cases_of_both_sorts() -> None:
    for kind in KINDS:
        seen = {case["expected"] for case in CASES if case["reference"]["kind"] == kind}
        assert {"correct", "incorrect"} <= seen, kind


@cases("case", CASES, ids=lambda case: case["why"])
def test_golds_score_the_maximum_and_prompts_survive_json(case: dict[str, Any]) -> None:
    require(*PACKAGE.get(case["reference"]["kind"], ()))
    env = MatchEnvironment()
    prompt = env.prompt("q", **case["reference"])
    assert env.load_prompt(json.loads(json.dumps(prompt.model_dump(mode="json")))) == prompt
    gold = env.gold(prompt)
    if gold is not None:
        assert env.score(prompt, gold).status is Status.CORRECT


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"kind": "exakt", "answer": "a"}, "did you mean 'exact'"),
        ({"kind": "exact"}, "answer"),
        ({"kind": "exact", "answer": "a", "tolerance": 0.5}, "does not use it"),
        ({"kind": "numeric", "answer": "many"}, "a number"),
        ({"kind": "numeric", "answer": True}, "a number"),
        ({"kind": "choice", "answer": "D", "choices": ("x", "y")}, "one of the letters"),
        ({"kind": "choice", "answer": "x", "choices": ("x", "X.")}, "by='letter'"),
        ({"kind": "choice", "answer": "A", "choices": ("B", "A")}, "the letter of another"),
        ({"kind": "list", "answer": []}, "a list"),
        ({"kind": "list", "answer": [1, 2], "ordered": False, "tolerance": 0.5}, "drop the tolerance"),
        ({"kind": "regex"}, "pattern"),
        ({"kind": "sql", "answer": "select 1"}, "setups"),
        ({"kind": "sudoku", "puzzle": "123"}, "81 cells"),
        ({"kind": "sudoku", "puzzle": "12.. 3.1. .1.3 ..21", "example": "1111 1111 1111 1111"}, "no solution"),
        ({"kind": "queens", "size": 3}, "board of 4"),
        ({"kind": "chess"}, "FEN"),
    ],
)
def test_references_are_checked(reference: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MatchEnvironment().prompt("q", **reference)


def test_patterns_that_need_backtracking_are_refused() -> None:
    require("re2")
    with pytest.raises(UsageError, match="RE2"):
        MatchEnvironment().prompt("q", kind="regex", pattern="(?=a)b")


def test_a_position_without_mate_is_refused() -> None:
    require("chess")
    with pytest.raises(UsageError, match="no move reaches"):
        MatchEnvironment().prompt("q", kind="chess", goal="mate", puzzle="8/8/8/8/8/8/k7/7K w - - 0 1")
    with pytest.raises(UsageError, match="no position"):
        MatchEnvironment().prompt("q", kind="chess", puzzle="nonsense")


@pytest.mark.parametrize("broken", [{"setups": ("create tabel t",)}, {"answer": "select nothing"}])
def test_a_broken_gold_is_our_failure(broken: dict[str, Any]) -> None:
    env = MatchEnvironment()
    prompt = env.prompt("q", **{"kind": "sql", "answer": "select 1", "setups": ("create table t (a)",), **broken})
    score = env.score(prompt, "```\nselect 1\n```")
    assert score.reward is None
    assert score.error is not None and score.error.kind == "gold_invalid"


@pytest.mark.parametrize("size", range(4, 40))
def test_the_queens_placement_is_right_for_every_size(size: int) -> None:
    env = MatchEnvironment()
    prompt = env.prompt("q", kind="queens", size=size)
    assert env.score(prompt, env.gold(prompt) or "").status is Status.CORRECT


def test_rows_are_compared_as_multisets_of_typed_values() -> None:
    assert same_rows([(1,), (2.0,)], [(2,), (1.0,)], ordered=False)
    assert not same_rows([(1,), (2,)], [(2,), (1,)], ordered=True)
    assert same_rows([(0.1 + 0.2,)], [(0.3,)], ordered=True)
    assert not same_rows([("1",)], [(1,)], ordered=True)
    assert not same_rows([(None,)], [(0,)], ordered=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("The  Cat!", "cat"), ("e-mail", "email"), ("3.14", "3.14"), ("-5", "-5"), ("1,000", "1,000"), ("x: 3", "x 3"), ("", "")],
)
def test_normalised(text: str, expected: str) -> None:
    assert normalised(text) == expected


def test_the_answer_is_looked_for_where_the_options_say() -> None:
    env = MatchEnvironment(answer_in=("label", "all"))
    prompt = env.prompt("q", kind="exact", answer="bank")
    assert env.score(prompt, "Answer: bank").status is Status.CORRECT
    assert env.score(prompt, "bank").status is Status.CORRECT
    assert env.score(prompt, "\\boxed{bank}").status is Status.INCORRECT
