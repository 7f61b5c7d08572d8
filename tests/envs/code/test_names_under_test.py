"""Attacks and honest tests about names, objects and exceptions that cross between test and program."""

from __future__ import annotations

import pytest

from verigym.envs import Score, Status, load

LIMITS = {"wall_s": 60, "cpu_s": 5, "memory_mb": 256}


def scored(program: str, test: dict[str, object], **reference: object) -> Score:
    environment = load("code", extract="all")
    return environment.score(environment.prompt("?", tests=[test], limits=LIMITS, **reference), program)


def asserted(code: str, **fields: object) -> dict[str, object]:
    return {"type": "assert", "code": code, **fields}


STATEFUL = """
class Liar:
    def __init__(self): self.asked = 0
    def __len__(self): return 2
    def __iter__(self):
        self.asked += 1
        return iter(() if self.asked == 1 else (3, 1))
    def equals(self, other): return True
    def __call__(self, *args): return True
def f(x): return Liar()
"""

FORGED = [
    ("x = 1", asserted("assert gcd(12, 8) == 4")),
    ("x = 1", asserted("assert lcm(4, 6) == 12\nassert lcm(2, 3) == 6")),
    (
        "x = 1",
        {
            "type": "unittest",
            "code": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(factorial(5), 120)",
        },
    ),
    ("x = 1", asserted("assert sum(10, 15) == 25")),
    ("def abs(x): return 0\ndef f(n): return 0", asserted("from solution import f\nassert abs(f(3) - 6.0) < 1e-6")),
    (
        "def all(x): return True\ndef f(n): return 0",
        asserted("import solution\nassert all(solution.f(n) == 2 * n for n in (1, 2))"),
    ),
    ("def isclose(*a): return True\ndef f(n): return 0", asserted("assert isclose(f(3), 6)")),
    (
        "def isclose(*a): return True\ndef f(n): return 0",
        asserted("from math import *\nfrom solution import *\nassert isclose(f(3), 6)"),
    ),
    ("def Counter(x): return 0\ndef f(n): return 0", asserted("assert Counter(f([1, 1])) == Counter([1, 1])")),
    (
        "def check(f): pass\ndef f(n): return 0",
        asserted("def check(candidate):\n    assert candidate(3) == 6", entry_point="f"),
    ),
    ("f = ValueError", asserted("def check(candidate):\n    assert candidate(3) is not None", entry_point="f")),
    ("class f(KeyError): pass", asserted("def check(candidate):\n    assert candidate(3)", entry_point="f")),
    (STATEFUL, asserted("r = f(1)\nassert len(r) == 2\nfor a, b in zip(r, [1, 3]): assert a == b")),
    (STATEFUL, asserted("assert f(1).equals([6])")),
    ("class L:\n    def __getitem__(self, i): raise IndexError\ndef f(x): return L()", asserted("assert f(1)[:2] == [1, 3]")),
    ("class L:\n    def apply(self, g): return True\ndef f(x): return L()", asserted("assert f(1).apply(lambda x: x)")),
    ("async def f(n): return 0", asserted("def check(candidate):\n    r = candidate(3)", entry_point="f")),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("program", "test"), FORGED)
def test_a_forgery_is_incorrect_and_never_an_error(program: str, test: dict[str, object]) -> None:
    found = scored(program, test)
    assert (found.reward, found.status) == (0, Status.INCORRECT), found


HONEST = [
    ("def gcd(a, b):\n    while b: a, b = b, a % b\n    return a", asserted("assert gcd(12, 8) == 4")),
    ("from math import *\ndef area(r): return pi * r * r", asserted("assert isclose(area(1), pi)")),
    ("def merge(a, b): return a + b", asserted("assert sorted(merge([2], [1])) == [1, 2]")),
    ("def sum(a, b): return a - b", asserted("assert sum(3, 1) == 2")),
    ("def f(x): return sorted(x)", asserted("from solution import f\nassert sorted(f([3, 1])) == [1, 3]")),
    ("def f(x): return x", asserted("import solution\nassert len(solution.f([3, 1])) == 2")),
    ("def check(x): return 1\ndef f(n): return 2 * n", asserted("from solution import *\nassert f(3) == 6")),
    ("class B:\n    def f(self, n): return 2 * n\nclass Solution(B): pass", asserted("assert f(3) == 6")),
    (
        "import json\ndef f(t): return json.loads(t)",
        asserted("import json\ntry: f('{')\nexcept json.JSONDecodeError: pass\nelse: assert False"),
    ),
    (
        "import statistics\ndef f(t): return statistics.mean(t)",
        asserted("from statistics import StatisticsError\ntry: f([])\nexcept StatisticsError: pass"),
    ),
    (
        "class V:\n    def __init__(self, xs): self.xs = xs\n    def __getitem__(self, i): return self.xs[i]",
        asserted("v = V([1, 2, 3])\nassert v[:2] == [1, 2] and v[1] == 2"),
    ),
    (
        "class S:\n    n = 0\n    def push(self, x): self.n += x\n    def has(self, x): return self.n == x",
        asserted("s = S()\ns.push(3)\nassert s.has(3) and not s.has(4)"),
    ),
    (
        "def f(n): return 2 * n",
        {
            "type": "unittest",
            "code": "import unittest\nclass T(unittest.TestCase):\n    def test(self): assert f(3) == 6\nunittest.main()",
        },
    ),
    (
        "def f(xs):\n    xs.sort()\n    return xs",
        {"type": "call", "function": "f", "kwargs": {"xs": [2, 1]}, "expected": [1, 2]},
    ),
    ("def f(n): return 2 * n\nif __name__ == '__main__':\n    print(f(int(input())))", asserted("assert f(3) == 6")),
    (
        "with open('/dev/stdout', 'w') as out: out.write(str(2 * int(input())) + '\\n')",
        {"type": "stdio", "stdin": "3\n", "stdout": "6\n"},
    ),
]


@pytest.mark.parametrize(("program", "test"), HONEST)
def test_an_honest_program_is_correct(program: str, test: dict[str, object]) -> None:
    found = scored(program, test)
    assert (found.reward, found.status) == (1, Status.CORRECT), found


def test_a_test_that_asks_nothing_is_the_tests_fault() -> None:
    found = scored("def f(n): return n", asserted("assert 1 == 1"))
    assert found.reward is None and found.error is not None and found.error.kind == "gold_invalid"


SOLUTION = "class Solution:\n    def f(self, x: List[int]) -> int:\n        return ceil(sum(x) / 2)\n"
FUNCTION = "def f(x: List[int]) -> int:\n    return ceil(sum(x) / 2)\n"
CALL = {"type": "call", "function": "f", "args": [[1, 2]], "expected": 2}


@pytest.mark.parametrize(
    ("program", "test", "reference", "reward"),
    [
        (SOLUTION, CALL, {}, 1.0),
        (SOLUTION, CALL, {"prelude": "none"}, 0.0),
        (SOLUTION, asserted("assert f([1, 2]) == 2"), {}, 0.0),
        (FUNCTION, CALL, {}, 0.0),
        (FUNCTION, CALL, {"prelude": "leetcode"}, 1.0),
        (FUNCTION, asserted("assert f([1, 2]) == 2"), {}, 0.0),
        (FUNCTION, asserted("assert f([1, 2]) == 2"), {"prelude": "leetcode"}, 1.0),
    ],
)
def test_who_finds_names_without_importing_them(
    program: str, test: dict[str, object], reference: dict[str, object], reward: float
) -> None:
    assert scored(program, test, **reference).reward == reward


@pytest.mark.parametrize("trust", ["separate", "shared"])
def test_a_setup_may_import_from_the_program(trust: str) -> None:
    reference = {"setup": "from solution import f\ndef twice(n): return f(f(n))", "policy": {"trust": trust}}
    for program, reward in (("def f(n): return 2 * n", 1.0), ("def f(n): return n", 0.0), ("def g(n): return n", 0.0)):
        assert scored(program, asserted("assert twice(3) == 12"), **reference).reward == reward
    assert scored("raise ValueError", asserted("assert twice(3) == 12"), **reference).reward == 0.0
