"""Example tasks, one for each type of test; `verigym check code` judges them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

Example = tuple[str, dict[str, Any]]

_LIMITS = {"wall_s": 4.0, "cpu_s": 4.0}
_DOUBLE = """
def double(n):
    result = 2 * n
    return result
"""


def examples() -> Iterator[Example]:
    """Yield question and reference of each task."""
    yield _task(
        "Write a program that reads one integer per line and prints their sum.",
        """
        import sys

        total = 0
        for line in sys.stdin:
            total += int(line)
        print(total)
        """,
        {"type": "stdio", "stdin": "2\n3\n", "stdout": "5\n"},
        {"type": "stdio", "stdin": "10\n-4\n1\n", "stdout": "7\n"},
    )
    yield _task(
        "Write a function `unique(xs)` that returns the distinct items of a list in ascending order.",
        """
        class Solution:
            def unique(self, xs: List[int]) -> List[int]:
                found = set(xs)
                return sorted(found)
        """,
        {"type": "call", "function": "unique", "args": [[3, 1, 3]], "expected": [1, 3]},
        {"type": "call", "function": "unique", "args": [[]], "expected": []},
    )
    question = "Write a function `double(n)` that returns twice its argument."
    check = "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(-4) == -8"
    yield _task(
        question,
        _DOUBLE,
        {"type": "assert", "code": check, "entry_point": "double"},
        {"type": "assert", "code": "assert double(10) == 20"},
    )
    case = """
    import unittest
    from solution import double

    class DoubleTest(unittest.TestCase):
        def test_integers(self):
            self.assertEqual(double(3), 6)
            self.assertEqual(double(-4), -8)
    """
    yield _task(question, _DOUBLE, {"type": "unittest", "code": dedent(case)})
    if importlib.util.find_spec("pytest") is not None:
        case = "from solution import double\n\ndef test_double():\n    assert double(3) == 6\n    assert double(-4) == -8\n"
        yield _task(question, _DOUBLE, {"type": "pytest", "code": case})
    yield _task(
        "Write a program that reads an integer n and writes the numbers from 1 to n, one per line, to the file `output.txt`.",
        """
        n = int(input())
        with open("output.txt", "w") as file:
            for number in range(1, n + 1):
                print(number, file=file)
        """,
        {"type": "file", "stdin": "3\n", "path": "output.txt", "content": "1\n2\n3\n"},
    )
    checker = """
    def check(stdin, stdout):
        first, second = map(int, stdout.split())
        return first > 1 and second > 1 and first * second == int(stdin)
    """
    yield _task(
        "Write a program that reads a composite number and prints two factors of it, both above 1.",
        """
        n = int(input())
        factor = 2
        while n % factor:
            factor += 1
        print(factor, n // factor)
        """,
        {"type": "checker", "code": dedent(checker), "stdin": "91\n"},
    )


def _task(question: str, solution: str, *tests: dict[str, Any]) -> Example:
    text = f"{question} Answer with one fenced block of Python."
    return text, {"tests": tests, "solution": dedent(solution).lstrip(), "limits": _LIMITS}
