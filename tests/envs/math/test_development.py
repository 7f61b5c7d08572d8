"""The development cases: pairs from public graders' tests and issues, with the wanted verdicts."""

import json
from pathlib import Path
from typing import Any

import pytest
from needs import require

from verigym.envs.math.environment import MathEnvironment

FILE = Path(__file__).parents[4] / "shared" / "data" / "math_equivalence" / "cases.jsonl"
QUESTION = ""  # bare pairs, as `verigym bench` grades them: whether two answers are equal

# Rows that are graded otherwise than wanted, and why. Line numbers count from 0.
MISSES = {
    7: "`Soucis : 2,74 $ a..`: an invoice line in a box; commas=decimal and a label that is no answer's would be needed",
    99: "`x=1/3\\approx1.3`: the chain says that 1/3 is about 1.3, which it is not (chains=last accepts it)",
    166: "the box says 255, the sentence after it 10,455: the box counts (extract=final accepts it)",
}
# Equal to the gold, but not worked out: refused as soon as something is asked, by the option `unworked`.
UNWORKED = {
    34: "`\\frac3{3}` for 1",
    267: "`x^2 - x^2` for 0",
    357: "`\\frac{8}{2}` for 4.0",
    372: "`3+2` for 5",
    385: "`\\sqrt{\\sqrt{16}}` for 2",
    427: "`3 \\cdot 4` for 12",
}
UNBOXED_MISSES = {
    32: "`\\frac{1}{2} \\$ = \\frac{10}{9}`: an escaped dollar within the formula",
    57: "the completion ends in an apology and a note, whose last number is no answer",
}

# For each policy row an option that decides it: the options that accept the pair, and the options that refuse it.
DECISIONS: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {
    5: ({"commas": "decimal"}, {}),
    6: ({"commas": "decimal"}, {}),
    28: ({"labels": True}, {}),
    29: ({"labels": True}, {}),
    30: ({"extract": "last"}, {}),
    31: ({"extract": "last"}, {}),
    94: ({"chains": "last"}, {}),
    96: ({"chains": "last"}, {}),
    109: ({"chains": "last"}, {}),
    127: ({"tolerance": 0.01}, {}),
    133: ({"tolerance": 0.01}, {}),
    178: ({}, {"symmetry": "strict"}),
    179: ({}, {"symmetry": "gold"}),
    182: ({"escapes": True}, {}),
    183: ({"gold_boxes": "all"}, {}),
    184: ({}, {"gold_boxes": "all"}),
    185: ({}, {"gold_boxes": "all"}),
    208: ({}, {"name": "required"}),
    241: ({"gold_boxes": "all"}, {}),
    350: ({}, {"unsimplified": "refuse"}),
    403: ({"tolerance": 0.01}, {}),
    404: ({"tolerance": 0.01}, {}),
    405: ({}, {"symmetry": "gold"}),
    415: ({}, {"percent": "value"}),
    417: ({}, {"symmetry": "gold"}),
    433: ({}, {"unsimplified": "refuse"}),
    435: ({}, {"unsimplified": "refuse"}),
    451: ({}, {"name": "required"}),
    455: ({}, {"units": "require"}),
    456: ({}, {"words": "exact"}),
    458: ({}, {"percent": "number"}),
    461: ({}, {"unsimplified": "refuse"}),
}
UNDECIDED = {
    59: "doubled backslashes, which are mended: right under any option",
    104: r"the gold `1 = \zzz = x = 0` holds a command that nobody knows: gold_invalid under any option",
    124: "one and the same text: right under any option",
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    require("shared data")
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def completion(row: dict[str, Any]) -> str:
    """Wrap an answer as the data's README says."""
    pred = row["pred"].strip()
    if row["level"] != "answer" or "\\boxed" in pred:
        return str(row["pred"])
    return rf"\boxed{{{pred.strip('$') if len(pred) > 1 and pred[0] == pred[-1] == '$' else pred}}}"


def accepts(row: dict[str, Any], question: str = QUESTION, **options: Any) -> bool:
    env = MathEnvironment(**options)
    return env.score(env.prompt(question, answer=row["gold"]), completion(row)).reward == 1.0


def wrongly_graded(rows: list[dict[str, Any]], unboxed: bool, **options: Any) -> set[int]:
    return {
        number
        for number, row in enumerate(rows)
        if not row["policy"] and row["level"].endswith("unboxed") is unboxed and accepts(row, **options) is not row["expected"]
    }


def test_boxed_answers(rows: list[dict[str, Any]]) -> None:
    missed = wrongly_graded(rows, unboxed=False)
    assert {number for number in missed if not rows[number]["expected"]} == set()
    assert missed == set(MISSES)
    assert len(missed) <= 0.015 * 290


def test_where_something_is_asked_a_number_is_worked_out(rows: list[dict[str, Any]]) -> None:
    missed = wrongly_graded(rows, unboxed=False, question="What is it?")
    assert missed == set(MISSES) | set(UNWORKED)
    assert wrongly_graded(rows, unboxed=False, question="What is it?", unworked="arithmetic") == set(MISSES)


def test_unboxed_answers(rows: list[dict[str, Any]]) -> None:
    missed = wrongly_graded(rows, unboxed=True, extract="last")
    assert missed == set(UNBOXED_MISSES)
    assert all(rows[number]["expected"] for number in missed)


def test_verdicts_do_not_need_the_string_tier(rows: list[dict[str, Any]]) -> None:
    missed = wrongly_graded(rows, unboxed=False, string_tier=False)
    assert {number for number in missed if not rows[number]["expected"]} == set()
    assert len(missed) <= 6


@pytest.mark.parametrize("number", DECISIONS)
def test_an_option_decides_each_policy_row(rows: list[dict[str, Any]], number: int) -> None:
    accepting, refusing = DECISIONS[number]
    assert rows[number]["policy"]
    assert accepts(rows[number], **accepting)
    assert not accepts(rows[number], **refusing)


def test_every_policy_row_has_its_option(rows: list[dict[str, Any]]) -> None:
    policy = {number for number, row in enumerate(rows) if row["policy"]}
    assert policy == set(DECISIONS) | set(UNDECIDED)
