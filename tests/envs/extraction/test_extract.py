import json
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from cpu_time import within

from verigym.envs.extraction.boxes import MARK, MAX_BOXES, box_spans, scan
from verigym.envs.extraction.gold import cut
from verigym.envs.extraction.methods import METHODS, Extraction, extract, last_box, strip_thinking

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "extract.jsonl").read_text().splitlines()]


@cases("case", CASES, ids=lambda case: f"{case['method']}: {case['why']}")
def test_cases(case: dict[str, Any]) -> None:
    body = strip_thinking(case["text"]) if case.get("thinking") else case["text"]
    found = None if body is None else extract(body, (case["method"],))
    assert (None if found is None else found.text) == case["expected"]
    if found is None:
        return
    if case["method"] == "boxed":
        row = found.row and {"boxes": list(found.row.boxes), "joiner": found.row.joiner, "loose": found.row.loose}
        assert row == case.get("row")
        assert bool(found.part) is case.get("part", False), found.part
    if "after" in case:
        assert found.after == case["after"]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 150


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("plain", "plain"),
        ("<think>a</think>b", "b"),
        ("a</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>a", None),
        ("<think>a</think>b<think>c", None),
        ("a</think>", ""),
    ],
)
def test_strip_thinking(text: str, rest: str | None) -> None:
    assert strip_thinking(text) == rest


def test_methods_are_tried_in_order_of_trust() -> None:
    text = "A: 3\nso \\boxed{4}"
    assert extract(text, ("boxed", "label")) == Extraction("4", "boxed")
    assert extract(text, ("label", "boxed")) == Extraction("3", "label")
    assert extract("A: 3", ("boxed", "label")) == Extraction("3", "label")
    assert extract("A: 3 \\boxed{}", ("boxed", "label")) == Extraction("", "boxed")  # an empty box is not overruled
    assert extract("nothing") is None


def test_a_box_that_is_a_part_says_of_what() -> None:
    found = extract(r"so $x = 3 - \boxed{5}^2$")
    assert found and found.text == "5" and found.part == "x = 3 - [box]^2$"
    final = extract(r"The final answer is \boxed{5}/2.", ("final",))
    assert final and final.text == r"\boxed{5}/2"
    loose = extract(r"$x = 3 + \boxed{2}$ papers, and $\boxed{7}$ bins")
    assert loose and (loose.text, loose.row, loose.part) == ("7", None, "")


def test_a_row_as_one_text() -> None:
    both = extract(r"\boxed{1} and \boxed{2}")
    either = extract(r"\boxed{1} or \boxed{2}")
    assert both and both.row and both.row.text == "1, 2"
    assert either and either.row and either.row.text == "1 or 2"
    assert both.row.boxes == ("1", "2")
    alone = extract(r"\boxed{1}")
    assert alone and alone.row is None


@pytest.mark.parametrize("text", [r"a \boxed{4} b", r"\boxed 4", r"\fbox{\boxed{4}}", r"\boxed{3} \boxed{4"])
def test_golds_are_cut_where_answers_are_found(text: str) -> None:
    gold, (_, start, end) = cut(text), box_spans(text)[-1]
    assert gold.answer == text[start:end]
    assert gold.holding(gold.answer) == text
    assert len(MARK.findall(text)) >= len(scan(text))


def test_box_spans_are_outermost_and_in_order() -> None:
    text = r"\boxed{a\boxed{b}} \boxed{c}"
    assert [text[start:end] for _, start, end in box_spans(text)] == [r"a\boxed{b}", "c"]


HOSTILE = {
    "opened boxes": r"\boxed{" * 200_000,
    "braces around a box": "{" * 200_000 + r"\boxed{5}" + "}" * 200_000,
    "closed braces around a box": "}" * 200_000 + r"\boxed{5}" + "{" * 200_000,
    "parentheses around a box": "-" + "(" * 200_000 + r"\boxed{5}" + ")" * 200_000,
    "signs around a box": "-" * 200_000 + r"\boxed{5}" + "!" * 200_000,
    "dollars around a box": "$" * 100_001 + r"\boxed{5}^2" + "$" * 100_001,
    "spaces around a box": "-" + " " * 200_000 + r"\boxed{5}" + " " * 200_000 + "/2",
    "cells around a box": "$" + "- & " * 60_000 + r"\boxed{5}" + " & (1)" * 60_000 + "$",
    "parentheses behind a box": r"$\boxed{5}" + "(x>0)" * 60_000 + "$",
    "opened parentheses behind a box": r"$\boxed{5}" + "(x>" * 60_000 + "$",
    "units behind a box": r"$\boxed{5}" + r"\frac{m}{s}" * 30_000 + "$",
    "colors before a box": "$-" + r"\color{r}\quad" * 30_000 + r"\boxed{5}$",
    "boxes behind colors": r"$-\color{r}\quad\boxed{5}\Omega (x>0), $" * 10_000,
    "boxes with signs": r"$-\boxed{5}, $" * 20_000,
    "nested boxes": r"\boxed{" * 100_000 + "}" * 100_000,
    "boxes without brace": ("\\boxed" + " " * 50) * 10_000,
    "backslashes": "\\" * 200_001,
    "braces": "{" * 200_000 + "}" * 200_000,
    "dollars": "$" * 200_001,
    "opened spans": "\\(" * 200_000,
    "closed spans": "\\)" * 200_000,
    "digits and commas": "1," * 200_000,
    "labels": "A:\n" * 100_000,
    "label prefixes": "*" * 400_000,
    "spaces": " " * 400_000,
    "nested boxes alone": r"\boxed{" * 50_000 + "5" + "}" * 50_000,
    "boxes in a row": r"\boxed{1}, " * 20_000 + r"\boxed{2}",
    "boxes on lines": "\\boxed{1}\n" * 20_000 + r"\boxed{2}",
    "boxed fractions without braces": r"\boxed\frac{1" * 15_000,
    "boxed words without braces": r"\boxed\text{" * 15_000,
    "boxed roots": r"\boxed\sqrt[" * 15_000,
    "bare boxes": r"\boxed 1" * 25_000,
    "box before spaces": "\\boxed" + " " * 200_000,
    "box before digits": "\\boxed " + "1," * 100_000,
    "box before letters": r"\boxed{1}" + "a " * 100_000,
    "thoughts": "<think>" * 30_000 + "</think>" * 30_000,
    "angle brackets": "< " * 100_000,
    "channels": "<|channel|>" * 20_000,
    "final answers": "final answer is " * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_linear_on_hostile_text(text: str, method: Any) -> None:
    for _ in within(2.0):  # linear takes about 0.1; quadratic would take minutes
        extract(strip_thinking(text) or text, (method,))


def test_long_rows_are_cut() -> None:
    many = extract(r"\boxed{1}, " * 1_000 + r"\boxed{2}")
    assert many and many.row and many.row.boxes == ("...", *("1",) * (MAX_BOXES - 1), "2")
    long = extract(rf"\boxed{{{'7' * 5_000}}}, \boxed{{2}}")
    assert long and long.row and long.row.boxes == ("...", "2")
    same = extract(r"\boxed{2}, " * 10 + r"\boxed{2}")
    assert same and same.row is None


def test_opened_boxes_are_no_answer() -> None:
    assert last_box(HOSTILE["opened boxes"]) is None
