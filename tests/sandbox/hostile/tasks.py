"""The tasks that hostile and tricky programs are given, and the programs: tests/cases/hostile_programs*.jsonl."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parents[2] / "cases"
STDIN = b"3\n"  # of attack probes

_CHECK = "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(10) == 20\n    assert candidate(-4) == -8\n"
_UNITTEST = """import unittest

class TestF(unittest.TestCase):
    def test_small(self):
        self.assertEqual(f(3), 6)

    def test_large(self):
        self.assertEqual(f(10), 20)

    def test_negative(self):
        self.assertEqual(f(-4), -8)
"""
_PYTEST = """from solution import f

def test_small():
    assert f(3) == 6

def test_large():
    assert f(10) == 20

def test_negative():
    assert f(-4) == -8
"""
_RAISES = """def check(candidate):
    assert candidate(3) == 6
    try:
        candidate(-1)
    except ValueError as error:
        assert "negative" in str(error)
    else:
        raise AssertionError("no ValueError")
"""
_IN_PLACE = "xs = [3, 1, 2]\nf(xs)\nassert xs == [1, 2, 3]\nys = []\nf(ys)\nassert ys == []\n"
_DOUBLES = ((3, 6), (10, 20), (-4, -8))


def _lines(n: int) -> str:
    return "".join(f"{i}\n" for i in range(1, n + 1))


TASKS: dict[str, list[dict[str, Any]]] = {
    "std2x": [{"type": "stdio", "stdin": f"{n}\n", "stdout": f"{m}\n"} for n, m in _DOUBLES],
    "stdsum": [{"type": "stdio", "stdin": "2\n3\n", "stdout": "5\n"}, {"type": "stdio", "stdin": "10\n-4\n", "stdout": "6\n"}],
    "stdseq": [{"type": "stdio", "stdin": f"{n}\n", "stdout": _lines(n)} for n in (3, 1, 5, 60000)],
    "fn2x": [{"type": "call", "function": "f", "args": [n], "expected": m} for n, m in _DOUBLES],
    "fnuniq": [
        {"type": "call", "function": "f", "args": [given], "expected": wanted}
        for given, wanted in (([3, 1, 3], [1, 3]), ([], []), ([5, 5], [5]))
    ],
    "as2x": [{"type": "assert", "code": _CHECK, "entry_point": "f"}],
    "ut2x": [{"type": "unittest", "code": _UNITTEST}],
    "py2x": [{"type": "pytest", "code": _PYTEST, "module": "solution"}],
    "file2x": [{"type": "file", "stdin": f"{n}\n", "path": "output.txt", "content": f"{m}\n"} for n, m in _DOUBLES],
    "asmut": [{"type": "assert", "code": _IN_PLACE}],
    "asraise": [{"type": "assert", "code": _RAISES, "entry_point": "f"}],
}
HONEST = (("std2x", "print(2 * int(input()))\n"), ("fn2x", "def f(n):\n    return 2 * n\n"))
_KEYWORDS = {"time": "time limit", "memory": "memory limit", "output": "output limit", "runtime": "ended|raised|load"}


@dataclass(frozen=True)
class Case:
    """One program and what must come of it."""

    id: str
    title: str
    task: str
    expect: str
    lang: str
    program: str
    why: str

    @property
    def wall_s(self) -> float:
        """Wall and CPU limit: short where a program may run into it, long where time must not decide."""
        if self.expect in ("ACCEPT", "RUN", "REJECT:memory", "REJECT:output", "REJECT:runtime"):
            return 60.0
        if self.id.startswith("X-B") and self.expect == "REJECT:time":
            return 0.6
        return 1.0 if self.id.split("-")[-1][0] == "B" and self.expect.startswith("REJECT") else 2.0

    @property
    def compiled(self) -> bool:
        """Whether a compiler comes first, which has limits of its own."""
        return self.lang in ("c", "cpp")

    @property
    def completion(self) -> str:
        """What a model would have written."""
        end = "" if self.program.endswith("\n") else "\n"
        return f"```{self.lang}\n{self.program}{end}```\n"

    def reference(self) -> dict[str, Any]:
        """Return the reference of the task under the limits of the set."""
        limits = {"wall_s": self.wall_s, "cpu_s": self.wall_s, "memory_mb": 256, "processes": 32, "output_kb": 1024}
        return {"language": self.lang, "tests": TASKS[self.task], "limits": limits}

    def mismatch(self, reward: float | None, status: str, reason: str) -> str:
        """Return how the verdict differs from what is expected; nothing where it does not."""
        verdict = f"{status} (reward {reward}: {reason})"
        if reward is None:
            return f"an infrastructure fault instead of a verdict: {verdict}"
        wanted, _, kind = self.expect.partition(":")
        if wanted == "ACCEPT":
            return "" if reward == 1.0 and status == "correct" else f"honest and not accepted: {verdict}"
        if wanted == "EITHER":
            return "" if reward in (0.0, 1.0) else f"half a verdict: {verdict}"
        if reward != 0.0 or status == "correct":
            return f"accepted: {verdict}"
        if kind:
            limit = kind != "runtime"
            if (status == "limit") is not limit or not re.search(_KEYWORDS[kind], reason):
                return f"classified as {verdict}, not as {kind}"
        return ""


def load_cases() -> list[Case]:
    """Return all cases in the order of the files."""
    cases = []
    for name in ("hostile_programs.jsonl", "hostile_programs_own.jsonl"):
        with open(CASES / name, encoding="utf-8") as file:
            cases += [Case(**json.loads(line)) for line in file]
    return cases
