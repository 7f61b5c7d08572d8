# ruff: noqa: E501, programs are data
"""Attacks on what is known of a program's objects without asking them: the states in which they came; and honest uses of it."""

from __future__ import annotations

import pytest

from verigym.envs import Status, load

LIMITS = {"wall_s": 60, "cpu_s": 5, "memory_mb": 256}
YES = "    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    def __hash__(self): return 1\n"
SINGLETON = (
    "class P(list):\n    only = None\n    def __new__(cls, *a):\n        cls.only = cls.only or list.__new__(cls)\n"
    "        return cls.only\n" + YES + "def f(n): return P([0])"
)

FORGED = [
    # Of a class built upon a plain type: its content, as it was when it came, is what the test gave, or the two are not equal.
    (f"class P(list):\n{YES}def f(n): return P([0])", "assert f(3) == P([3, 6])"),
    (f"class P(list):\n{YES}def f(n): return P()", "assert f(3) == P([3, 6])"),
    (f"class P(list):\n{YES}def f(n): return P([0])", "assert f(3) == P()"),
    (f"class P(list):\n{YES}def f(n): return P(['6 '])", "assert f(3) == P(['6'])"),
    (f"class P(dict):\n{YES}def f(n): return P(a=0)", "assert f(3) == P({'a': 6})"),
    (
        f"class P(tuple):\n    def __new__(cls, x, y): return tuple.__new__(cls, (0, 0))\n{YES}def f(n): return P(0, 0)",
        "assert f(3) == P(3, 6)",
    ),
    (f"class P(str):\n{YES}def f(n): return P('x')", "assert f(3) == P('6')"),
    (SINGLETON, "assert f(3) == P([3, 6])"),
    (SINGLETON, "assert P([3, 6]) == f(3)"),
    (
        f"class P(list):\n    n = 0\n    def __iter__(self):\n        P.n += 1\n        return iter([0] if P.n == 1 else [3, 6])\n"
        f"{YES}def f(n): return P([0])",
        "assert f(3) == P([3, 6])",
    ),
    (f"class P(list):\n{YES}def f(n): return P([0])\ndef g(n): return P([1])", "assert f(3) == g(3) == P([6])"),
    (f"class P(set):\n{YES}def f(n): return P([0])", "assert f(3) == {3, 6}"),
    (f"class P(set):\n{YES}def f(n): return P([0])", "assert f(3) == set()"),
    # Arguments by any name.
    (f"class P:\n    def __init__(self, **given): self.given = given\n{YES}def f(n): return P()", "assert f(3) == P(a=6)"),
    (f"class P:\n    def __init__(self, **given): pass\n{YES}def f(n): return P()", "assert f(3) == P(a=6)"),
    (
        f"class P:\n    def __init__(self, **given): self.given = given\n{YES}def f(n): return P(a=6, b=1)",
        "assert f(3) == P(a=6)",
    ),
    # What the test changes in place may still be what a function returned.
    (
        "class F:\n    def __init__(self, n): pass\n    def __isub__(self, other): return self\n    def __bool__(self): return False",
        "x = F(3)\nx -= 6\nassert not x",
    ),
    (
        "class Find:\n    def __init__(self, n): pass\n    def startswith(self, s): return True",
        "assert Find(3).startswith('ab')",
    ),
    (
        "class FIND_IT(list):\n    def __init__(self, n): pass\n    def count(self, s): return 2",
        "r = FIND_IT(3)\nr.append(4)\nassert r.count(4) == 1",
    ),
    # What the test writes into a returned object comes back as if it had been there.
    (
        "class O:\n    value = property(lambda self: self.wanted)\ndef f(n): return O()",
        "r = f(3)\nr.wanted = 6\nassert r.value == r.wanted",
    ),
    # A judges' name stays theirs where all that the test takes of it is theirs.
    (
        "class Counter:\n    fromkeys = elements = 1\n    def __init__(self, x): pass\n    def most_common(self, n): return [(1, 2)]\n"
        "def f(n): return 0",
        "assert Counter.elements\nassert Counter(f([1, 1])).most_common(1) == [(1, 2)]",
    ),
]


def status(program: str, test: str) -> Status:
    env = load("code", extract="all")
    return env.score(env.prompt("?", tests=[{"type": "assert", "code": test}], limits=LIMITS), program).status


@pytest.mark.parametrize(("program", "test"), FORGED)
def test_what_an_object_says_is_not_believed(program: str, test: str) -> None:
    assert status(program, test) == Status.INCORRECT


VECTOR = "class V(list):\n    def __add__(self, other): return V(a + b for a, b in zip(self, other))\n"
WALK = (
    "class Walk:\n    def __init__(self, xs): self.xs = iter(xs)\n    def __eq__(self, other): return self is other\n"
    "    def take(self): return next(self.xs)\n"
)

HONEST = [
    (VECTOR, "assert V([1, 2]) + V([3, 4]) == V([4, 6])\nassert V([1]) + [2] != V([4])"),
    ("class P(tuple):\n    def __new__(cls, x, y): return tuple.__new__(cls, (x, y))\n    def up(self): return P(self[0], self[1] + 1)\n"
     "    def __add__(self, o): return P(self[0] + o[0], self[1] + o[1])", "assert P(1, 2).up() == P(1, 3) == P(1, 1) + (0, 2)"),
    (WALK, "w = Walk([1, 2, 3])\nassert w.take() == 1\nassert w.take() == 2"),
    ("class Counter:\n    @staticmethod\n    def make(): return 3", "assert Counter.make() == 3"),
    ("class Bag(list):\n    def __len__(self): return list.__len__(self)", "b = Bag([1])\nb.append(2)\nb += [2]\nassert b.count(2) == 2"),
    ("class D:\n    'Said.'\ndef f(): return D()", "assert f().__doc__ == 'Said.'"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "test"), HONEST)
def test_honest_objects_are_accepted(program: str, test: str) -> None:
    assert status(program, test) == Status.CORRECT
