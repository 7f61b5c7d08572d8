import json
import time
from pathlib import Path
from typing import Any

import pytest
from cases import cases

from verigym.envs.extraction.fences import blocks, find_program

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "code_fences.jsonl").read_text().splitlines()]
MEGABYTE = 1 << 20


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    found = find_program(case["text"], case.get("language", "python"), case.get("method", "fenced"))
    assert found.program == case["program"], found.reason
    assert bool(found.reason) is (case["program"] is None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "`" * MEGABYTE,
        "```\n" * (MEGABYTE // 4),
        "```a\n" * (MEGABYTE // 5),
        "```a\n" * (MEGABYTE // 10) + "```\n" * (MEGABYTE // 10),
        "~~~```\n" * (MEGABYTE // 7),
        " " * MEGABYTE,
        " \t" * (MEGABYTE // 2) + "```",
        (" " * 1000 + "```\n") * (MEGABYTE // 1000),
        "\n" * MEGABYTE,
        "\r\n" * (MEGABYTE // 2),
        "<think>" * (MEGABYTE // 7),
        "</think>" * (MEGABYTE // 8),
        "< " * (MEGABYTE // 2),
        "```<think>\n" * (MEGABYTE // 11),
        "```python\nx\n```\n" * (MEGABYTE // 16),
        "```" + "p" * MEGABYTE,
        "```" + "{" * MEGABYTE + "\nA\n```",
        "\n".join("`" * (3 + n % 500) for n in range(4000)),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("method", ["fenced", "fenced_or_all"])
def test_a_hostile_megabyte_is_read_quickly(text: str, method: Any) -> None:
    start = time.process_time()
    find_program(text, "python", method)
    assert time.process_time() - start < 5.0


def test_time_grows_with_the_text_and_not_faster() -> None:
    def cost(times: int) -> float:
        text = ("```a\n" * 200 + "x\n" + "```\n" * 200) * times
        costs = []
        for _ in range(3):
            start = time.process_time()
            find_program(text, "python", "fenced")
            costs.append(time.process_time() - start)
        return min(costs)  # other work on the machine only adds

    cost(2)
    assert cost(80) < 80 * max(cost(4), 0.002)  # 20 times as much text; 400 if it grew with the square


def test_blocks_know_where_they_stand() -> None:
    text = "a\n```py x\nA\n```\nb\n~~~\nB\n~~~\n"
    found, unclosed = blocks(text)
    assert not unclosed
    assert [(block.tag, block.code(text), text[block.start : block.end]) for block in found] == [
        ("py", "A\n", "```py x\nA\n```"),
        ("", "B\n", "~~~\nB\n~~~"),
    ]
