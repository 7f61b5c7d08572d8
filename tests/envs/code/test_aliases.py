# ruff: noqa: E501, programs are data
"""Containers that test and program both hold, and what a program's classes may call themselves."""

import pytest
from judged import scored

from verigym.sandbox.inside.aliases import Aliases

LOGGER = """
class Logger:
    def __init__(self, log):
        self.log = log
        self.own = {"lines": [[]]}

    def add(self, line):
        self.log.append(line)
        self.own["lines"][0].append(line)

    def seen(self):
        return len(self.log), len(self.own["lines"][0])

    def both(self, act):
        self.log.append("before")
        act()
        self.log.append(f"after {len(self.log)}")
"""


@pytest.mark.parametrize(
    "test",
    [
        "log = []\nlogger = Logger(log)\nlogger.add(1)\nassert log == [1] and logger.log is log",
        "log = []\nlogger = Logger(log)\nlog.append(0)\nassert logger.seen() == (1, 0)\nlog.clear()\n"
        "assert logger.seen() == (0, 0)",
        "log = []\none, two = Logger(log), Logger(log)\none.add(1)\ntwo.add(2)\none.add(3)\nassert log == [1, 2, 3]",
        "logger = Logger([])\nlogger.own['lines'][0].append(5)\nassert logger.seen() == (0, 1)\nlines = logger.own\n"
        "logger.add(6)\nassert lines == {'lines': [[5, 6]]}",
        "log = []\nLogger(log).both(lambda: log.append('within'))\nassert log == ['before', 'within', 'after 2']",
        "log = list(range(20_000))\nlogger = Logger(log)\nassert logger.seen() == (20_000, 0)",
    ],
    ids=["kept", "changed by the test", "kept twice", "read", "called back", "too large"],
)
def test_what_both_hold_is_one(test: str) -> None:
    score = scored(LOGGER, test)
    assert score.status == "correct", score.reason


@pytest.mark.parametrize(
    "program,test",
    [
        # A copy is no alias.
        (LOGGER.replace("self.log = log", "self.log = list(log)"), "log = []\nLogger(log).add(1)\nassert log == [1]"),
        (LOGGER.replace("self.log.append(line)", "pass"), "log = []\nLogger(log).add(1)\nassert log == [1]"),
        # What the test has not given is not the program's to change.
        (
            "import gc\nclass Logger:\n    def __init__(self, log): self.log = log\n    def add(self, x): self.log = [x]",
            "log, expected = [], [1]\nlogger = Logger(log)\nlogger.add(1)\nassert log == expected",
        ),
    ],
    ids=["copied", "not changed", "put in its place"],
)
def test_what_only_one_holds_is_its_own(program: str, test: str) -> None:
    assert scored(program, test).status == "incorrect"


@pytest.mark.parametrize(
    ("program", "test", "status"),
    [
        (
            "class C:\n    def __init__(self): self.items = [1]\n    def get(self): return self.items",
            "c = C()\nc.get().append(9)\nassert c.get() == [1]",
            "incorrect",
        ),
        (
            "class C:\n    def __init__(self): self.items = [1]\n    def get(self): return list(self.items)",
            "c = C()\nc.get().append(9)\nassert c.get() == [1]",
            "correct",
        ),
        ("def dedup(xs): return xs", "a = [1, 2]\nr = dedup(a)\nassert r is not a", "incorrect"),
        (
            "def dedup(xs): return list(xs)",
            "a = [1, 2]\nr = dedup(a)\nr.append(3)\nassert r is not a and a == [1, 2]",
            "correct",
        ),
        ("def new(d={}): return d", "a, b = new(), new()\na['x'] = 1\nassert b == {}", "incorrect"),
        ("def new(): return {}", "a, b = new(), new()\na['x'] = 1\nassert b == {} and a is not b", "correct"),
        (
            "LOG = []\ndef note(x): LOG.append(x)",
            "from solution import LOG\nnote(3)\nassert LOG == [3]\nLOG.clear()\nnote(4)\nassert LOG == [4]",
            "correct",
        ),
        (
            "def countdown(n):\n    if n < 0: raise ValueError\n    yield n",
            "try:\n    countdown(-1)\n    assert False\nexcept ValueError:\n    pass",
            "incorrect",
        ),
        (
            "def process(xs, log):\n    for x in xs:\n        log.append(x)\n        yield x",
            "log = []\nprocess([1, 2], log)\nassert log == [1, 2]",
            "incorrect",
        ),
        (
            "def process(xs, log):\n    for x in xs:\n        log.append(x)\n        yield x",
            "log = []\nit = process([1, 2, 3], log)\nassert next(it) == 1 and log == [1]\nassert list(it) == [2, 3] and log == [1, 2, 3]",
            "correct",
        ),
        (
            "def squares():\n    n = 0\n    while True:\n        yield n * n\n        n += 1",
            "import itertools\nassert sum(itertools.islice(squares(), 5000)) == sum(n * n for n in range(5000))",
            "correct",
        ),
        (
            "def late(n):\n    yield from range(n)\n    raise KeyError('end')",
            "got = []\ntry:\n    for x in late(100): got.append(x)\nexcept KeyError:\n    pass\nassert got == list(range(100))",
            "correct",
        ),
    ],
)
def test_what_is_returned_is_what_it_is(program: str, test: str, status: str) -> None:
    score = scored(program, test)
    assert score.status == status, score.reason


@pytest.mark.parametrize("name", ["int", "dict", "list", "str", "ValueError", "deque"])
def test_a_class_is_no_other_of_its_name(name: str) -> None:
    program = f"class {name}:\n    pass\nclass Own({name}):\n    pass\ndef f(x):\n    return Own()"
    home = "from collections import deque\n" if name == "deque" else ""
    assert scored(program, f"{home}assert isinstance(f(3), {name})").status == "incorrect"
    named = f'Own = type("builtins.{name}", (), {{}})\ndef f(x): return Own()'
    assert scored(named, f"{home}assert isinstance(f(3), {name})").status == "incorrect"


@pytest.mark.parametrize(
    "program,test,status",
    [
        ("class Wallet:\n    def total(self, unit):\n        return 6", "assert Wallet(1).total('USD') == 6", "incorrect"),
        (
            "class Wallet:\n    def __init__(self, n): self.n = n\n    def total(self, unit):\n        return self.n",
            "assert Wallet(6).total('USD') == 6",
            "correct",
        ),
        # Yes and no from what might be meant as a text: the object would be told what is expected.
        (
            "class Slug:\n    def __init__(self, t): pass\n    def startswith(self, t):\n        return True",
            "assert Slug('Foo').startswith('foo')",
            "incorrect",
        ),
        (
            "class Own:\n    def total(self, unit):\n        return 6\ndef wallet(n): return Own()",
            "assert wallet(1).total('USD') == 6",
            "incorrect",
        ),
        # An item of several keys tells the object nothing that it could confirm.
        (
            "class Grid:\n    def __getitem__(self, key): return key[0] * 10 + key[1]\ndef f(x): return Grid()",
            "assert Grid()[0, 1] == 1 and f(3)[1, 2] == 12",
            "correct",
        ),
        (
            "class P:\n    x = property(lambda self: 3)\ndef f(x): return P()",
            "p = f(3)\ntry:\n    p.x = 4\nexcept AttributeError:\n    pass\nassert p.x == 3",
            "correct",
        ),
        (
            "import functools\n@functools.lru_cache\ndef f(x): return x",
            "assert f(3) == 3\nassert f.cache_info().misses == 1",
            "correct",
        ),
        (
            "class Own(Exception):\n    pass\nclass Box:\n    Wrong = Own\n    def last(self): return Own('x')",
            "box = Box()\nassert isinstance(box.last(), box.Wrong) and not isinstance(box.last(), ValueError)",
            "correct",
        ),
    ],
)
def test_what_objects_are_told(program: str, test: str, status: str) -> None:
    score = scored(program, test)
    assert score.status == status, score.reason


def test_what_nobody_else_holds_is_forgotten() -> None:
    both = Aliases()
    kept, gone = [1], [2]
    numbers = both.hold(kept), both.hold(gone)
    gone.append(3)
    del gone
    assert both.changes() == [[numbers[1], [2, 3]]]
    kept.append(4)
    assert both.changes() == [[numbers[0], [1, 4]]]
    assert both.get(numbers[1] or 0) is None and both.get(numbers[0] or 0) is kept
    both.apply([[numbers[0], [7]], [numbers[1], [8]]], lambda data: data)
    assert kept == [7] and both.changes() == []


@pytest.mark.parametrize("changes", [{}, [[1]], [["1", []]], [1]])
def test_changes_of_another_form(changes: object) -> None:
    with pytest.raises(ValueError, match="change"):
        Aliases().apply(changes, lambda data: data)
