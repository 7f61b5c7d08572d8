import json
import time
from pathlib import Path
from typing import Any

import pytest
from cases import cases
from cpu_time import within

from verigym.envs.extraction.fences import blocks, find_program

CASES = [json.loads(line) for line in (Path(__file__).parents[2] / "cases" / "code_fences.jsonl").read_text().splitlines()]
SIZE = 1 << 18


@cases("case", CASES, ids=lambda case: case["why"])
def test_cases(case: dict[str, Any]) -> None:
    found = find_program(case["text"], case.get("language", "python"), case.get("method", "fenced"))
    assert found.program == case["program"], found.reason
    assert bool(found.reason) is (case["program"] is None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "`" * SIZE,
        "```\n" * (SIZE // 4),
        "```a\n" * (SIZE // 5),
        "```a\n" * (SIZE // 10) + "```\n" * (SIZE // 10),
        "~~~```\n" * (SIZE // 7),
        " " * SIZE,
        " \t" * (SIZE // 2) + "```",
        (" " * 1000 + "```\n") * (SIZE // 1000),
        "\n" * SIZE,
        "\r\n" * (SIZE // 2),
        "<think>" * (SIZE // 7),
        "</think>" * (SIZE // 8),
        "< " * (SIZE // 2),
        "```<think>\n" * (SIZE // 11),
        "```python\nx\n```\n" * (SIZE // 16),
        "```" + "p" * SIZE,
        "```" + "{" * SIZE + "\nA\n```",
        "\n".join("`" * (3 + n % 500) for n in range(4000)),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("method", ["fenced", "fenced_or_all"])
def test_a_hostile_text_is_read_quickly(text: str, method: Any) -> None:
    for _ in within(1.5):
        find_program(text, "python", method)


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
