"""Example tasks with several tests each, so that some can be public. `verigym check code_with_feedback` runs them."""

from __future__ import annotations

from typing import Any

Example = tuple[str, dict[str, Any]]

_LIMITS = {"wall_s": 4.0, "cpu_s": 4.0}
_ASK = "Answer with one fenced block of Python. If a test fails, you are told and may write the program again."

EXAMPLES: tuple[Example, ...] = (
    (
        f"Write a function `middle(xs)` that returns the median of a list of an odd number of integers. {_ASK}",
        {
            "tests": [
                {"type": "call", "function": "middle", "args": [xs], "expected": expected}
                for xs, expected in (([3, 1, 2], 2), ([5], 5), ([9, 9, 1, 1, 4], 4), ([-1, -7, -3], -3), ([8, 6, 7, 5, 3], 6))
            ],
            "solution": "def middle(xs):\n    return sorted(xs)[len(xs) // 2]\n",
            "limits": _LIMITS,
        },
    ),
    (
        f"Write a program that reads one word per line and prints how often the most frequent one occurs. {_ASK}",
        {
            "tests": [
                {"type": "stdio", "stdin": stdin, "stdout": stdout}
                for stdin, stdout in (
                    ("a\nb\na\n", "2\n"),
                    ("x\n", "1\n"),
                    ("u\nu\nu\nv\nv\n", "3\n"),
                    ("q\nq\nz\nz\nq\nz\nz\n", "4\n"),
                )
            ],
            "solution": "import sys\n\nwords = sys.stdin.read().split()\nprint(max(map(words.count, words)))\n",
            "limits": _LIMITS,
        },
    ),
    (
        f"Write a function `double(n)` that returns twice its argument. {_ASK}",
        {
            "tests": [{"type": "assert", "code": f"assert double({n}) == {2 * n}"} for n in (3, -4, 10, 0)],
            "solution": "def double(n):\n    result = 2 * n\n    return result\n",
            "limits": _LIMITS,
        },
    ),
)
"""Question and fields of the reference."""
