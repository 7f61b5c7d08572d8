# ruff: noqa: E501, programs are data
"""Containers that test and program both hold, and what a program's classes may call themselves."""

from typing import Any

import pytest
from judged import scored

from verigym.sandbox.inside.wire.shared_containers import SharedContainers

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


def test_both_sides_agree() -> None:
    here, there = SharedContainers(sign=1), SharedContainers(sign=-1)

    def cross(values: list[Any], one: SharedContainers, other: SharedContainers, holder: list[Any] | None = None) -> list[Any]:
        data, met = one.write(values)
        said = one.send(met, holder)
        del met
        found, met = other.read(data)
        other.receive(said, met)
        return found

    inner: list[Any] = [1]
    outer: dict[str, Any] = {"a": inner, "b": (inner, [2])}
    found = cross([outer, inner], here, there)
    assert found == [outer, inner] and found[0]["a"] is found[1] is found[0]["b"][0]
    found[0]["a"].append(found[0]["b"][1])
    assert cross([], there, here) == [] and inner == [1, [2]] and inner[1] is outer["b"][1]
    inner.append({3})
    cross([], here, there)
    assert found[1] == [1, [2], {3}]
    # Of what is given back both hold what one of them keeps.
    kept: list[Any] = []
    given: list[Any] = [[kept, []]]
    back = cross(given, there, here, given)
    kept.append(4)
    given[0][1].append(5)
    cross([], there, here)
    assert back == [[[4], []]]


def test_what_nobody_needs_is_forgotten() -> None:
    both = SharedContainers()
    kept, inner = [1], [list(range(500))]
    data, met = both.write([kept, [inner]])
    both.send(met)
    del data, met
    assert len(both._held) == 3  # nothing holds the list around it
    inner.append([])
    assert both.send([]).keys() == {"changed"}
    assert {id(both.get(number)) for number in both._held} == {id(kept), id(inner), *map(id, inner)}
    del inner
    both._few = 0
    assert len(both.send([])["gone"]) == 3
    assert [held[0] for held in both._held.values()] == [kept]


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"changed": {}},
        {"changed": [[1]]},
        {"held": [1, None]},
        {"held": ["1", None]},
        {"held": [-1, [5]]},
        {"changed": [[1, {"d": []}, None]]},
        {"changed": [[1, [{"a": 7}], None]]},
        {"changed": [[1, [{"=": 0}], None]]},
    ],
)
def test_accounts_of_another_form(said: object) -> None:
    both = SharedContainers()
    _, met = both.write([[1]])
    both.send(met)
    with pytest.raises(ValueError, match=r"\w"):
        both.receive(said, [[]])


ROWS = "class G:\n    def __init__(self): self.rows = [[0], [0]]\n    def copy(self): return COPY\n    def get(self, i): return self.rows[i][0]\n"
SHARING = {
    "rows that are one": (
        "def grid(r, c): return [[0] * c] * r",
        "def grid(r, c): return [[0] * c for _ in range(r)]",
        "g = grid(2, 2)\ng[0][0] = 1\nassert g == [[1, 0], [0, 0]]",
    ),
    "values that are one": (
        "def groups(keys): return dict.fromkeys(keys, [])",
        "def groups(keys): return {key: [] for key in keys}",
        "d = groups('ab')\nd['a'].append(1)\nassert d == {'a': [1], 'b': []}",
    ),
    "a shallow copy": (
        "def copied(g): return list(g)",
        "import copy\ndef copied(g): return copy.deepcopy(g)",
        "g = [[1], [2]]\nh = copied(g)\nassert h == g and h[0] is not g[0]\nh[0][0] = 9\nassert g == [[1], [2]]",
    ),
    "a deep copy": (
        "import copy\ndef copied(g): return copy.deepcopy(g)",
        "def copied(g): return list(g)",
        "g = [[1], [2]]\nh = copied(g)\nassert h is not g and h[0] is g[0]",
    ),
    "one list in each item": (
        "def heads(n):\n    now = []\n    for i in range(n):\n        now.append(i)\n        yield now",
        "def heads(n):\n    now = []\n    for i in range(n):\n        now.append(i)\n        yield now[:]",
        "assert list(heads(3)) == [[0], [0, 1], [0, 1, 2]]",
    ),
    "inner lists of an object": (
        ROWS.replace("COPY", "list(self.rows)"),
        ROWS.replace("COPY", "[list(row) for row in self.rows]"),
        "g = G()\nr = g.copy()\nr[0][0] = 5\nassert g.get(0) == 0",
    ),
    "inner lists of a large object": (
        ROWS.replace("COPY", "list(self.rows)").replace("[[0], [0]]", "[[0] * 200 for _ in range(200)]"),
        ROWS.replace("COPY", "[list(row) for row in self.rows]").replace("[[0], [0]]", "[[0] * 200 for _ in range(200)]"),
        "g = G()\nr = g.copy()\nr[0][0] = 5\nassert g.get(0) == 0",
    ),
    "a remembered tuple": (
        "M = {}\ndef f(n): return M.setdefault(n, ([n], n))",
        "def f(n): return [n], n",
        "a = f(1)\na[0].append(2)\nassert f(1) == ([1], 1)",
    ),
    "inner lists of an argument": (
        "class Q:\n    def __init__(self, rows): self.rows = list(rows)\n    def put(self): self.rows[0][0] = 7",
        "class Q:\n    def __init__(self, rows): self.rows = [list(row) for row in rows]\n    def put(self): self.rows[0][0] = 7",
        "r = [[1], [2]]\nQ(r).put()\nassert r == [[1], [2]]",
    ),
    "an argument's own inner list": (
        "def first(g): return g[0][:]",
        "def first(g): return g[0]",
        "g = [[1], [2]]\nfirst(g).append(5)\nassert g == [[1, 5], [2]]",
    ),
    "inner lists that change places": (
        "def swap(g): g[0], g[1] = g[1][:], g[0][:]",
        "def swap(g): g[0], g[1] = g[1], g[0]",
        "a, b = [1], [2]\ng = [a, b]\nswap(g)\nassert g == [[2], [1]] and a == [1] and g[0] is b and g[1] is a",
    ),
    "one list given twice": (
        "def move(a, b):\n    a = list(a)\n    b.append(a.pop())",
        "def move(a, b): b.append(a.pop())",
        "x = [1, 2]\nmove(x, x)\nassert x == [1, 2]",
    ),
    "both of a pair": (
        "def pair():\n    x = []\n    return x, x",
        "def pair(): return [], []",
        "a, b = pair()\na.append(1)\nassert b == []",
    ),
    "what an iterator does for an item": (
        "log = []\ndef seen(): return len(log)\ndef f():\n    for i in range(30): log.append(i)\n    yield from range(30)",
        "log = []\ndef seen(): return len(log)\ndef f():\n    for i in range(30):\n        log.append(i)\n        yield i",
        "it = f()\nfor _ in range(20): next(it)\nassert seen() == 20",
    ),
}


@pytest.mark.parametrize(("wrong", "honest", "test"), SHARING.values(), ids=SHARING)
def test_containers_in_containers_are_shared_as_in_plain_python(wrong: str, honest: str, test: str) -> None:
    assert scored(wrong, test).status == "incorrect"
    score = scored(honest, test)
    assert score.status == "correct", score.reason
