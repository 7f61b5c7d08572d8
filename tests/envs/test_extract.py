import json
import time
from pathlib import Path
from typing import Any

import pytest

from verigym.envs.extract import METHODS, box_spans, extract, last_box, strip_thinking

CASES = [json.loads(line) for line in (Path(__file__).parents[1] / "cases" / "extract.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['method']}: {case['why']}")
def test_cases(case: dict[str, Any]) -> None:
    found = extract(case["text"], (case["method"],))
    assert (None if found is None else found.text) == case["expected"]


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
    assert extract(text, ("boxed", "label")) == ("4", "boxed")
    assert extract(text, ("label", "boxed")) == ("3", "label")
    assert extract("A: 3", ("boxed", "label")) == ("3", "label")
    assert extract("A: 3 \\boxed{}", ("boxed", "label")) == ("", "boxed")  # an empty box is not overruled
    assert extract("nothing") is None


def test_box_spans_are_outermost_and_in_order() -> None:
    text = r"\boxed{a\boxed{b}} \boxed{c}"
    assert [text[start:end] for _, start, end in box_spans(text)] == [r"a\boxed{b}", "c"]


HOSTILE = {
    "opened boxes": r"\boxed{" * 200_000,
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
    "final answers": "final answer is " * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("method", METHODS)
def test_linear_on_hostile_text(text: str, method: Any) -> None:
    start = time.process_time()
    extract(text, (method,))
    assert time.process_time() - start < 2.0  # linear takes about 0.1; quadratic would take minutes


def test_opened_boxes_are_no_answer() -> None:
    assert last_box(HOSTILE["opened boxes"]) is None
