# ruff: noqa: E501, tests are data
"""Tests of many kinds, each sound: `REFERENCE` passes it. Drawn by `blame.py`."""

from __future__ import annotations

import importlib.util
import random
import re
from dataclasses import dataclass, field
from typing import Any

REFERENCE = """
import collections, enum

LIMIT = 10
TABLE = {"a": 1, "b": [2, 3]}

def double(n):
    return 2 * n

def encode(text):
    return [ord(letter) for letter in text]

def decode(codes):
    return "".join(map(chr, codes))

def words(text):
    return dict(collections.Counter(text.split()))

def ordered(items):
    return sorted(items)

def fill(items):
    items.append(len(items))

def apply(function, items):
    return [function(item) for item in items]

def compose(first, second):
    return lambda value: second(first(value))

def divide(a, b):
    if not b:
        raise ValueError("zero")
    return a / b

def upto(n):
    yield from range(n)

def pairs(n):
    return {(i, str(i)): {"at": [i, {i}]} for i in range(n)}

class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __eq__(self, other):
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)
    def __hash__(self):
        return hash((self.x, self.y))
    def __lt__(self, other):
        return (self.x, self.y) < (other.x, other.y)
    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)
    def __repr__(self):
        return f"Point({self.x}, {self.y})"
    def norm(self):
        return abs(self.x) + abs(self.y)

def points(n):
    return [Point(n - i, i) for i in range(n)]

def far(point):
    return point.norm() > 3

class Stack:
    def __init__(self):
        self.items = []
    def push(self, item):
        self.items.append(item)
        return self
    def pop(self):
        return self.items.pop()
    def __len__(self):
        return len(self.items)
    def __iter__(self):
        return iter(self.items)

class Colour(enum.Enum):
    RED = 1
    BLUE = 2

def paint(n):
    return Colour(n)

class Failure(Exception):
    pass

def fail(code):
    raise Failure(f"code {code}")

class held:
    def __init__(self, value):
        self.value = value
    def __enter__(self):
        return [self.value]
    def __exit__(self, *error):
        return False

async def fetch(n):
    import asyncio  # here, for it would be half the time of every run
    await asyncio.sleep(0)
    return n + 1

def matrix(n):
    return [[float(i * j) for j in range(n)] for i in range(n)]
"""

NAMES = re.findall(r"^(?:async )?(?:def|class) (\w+)|^([A-Z]+) =", REFERENCE, re.MULTILINE)
NAMES = [one or other for one, other in NAMES]

# Blocks of a test, independent of each other; each passes with the reference, in a process of its own and in a shared one.
LINES = [
    block.strip("\n")
    for block in """
assert double(3) == 6

assert decode(encode("abc")) == "abc"

assert double(double(3)) == 12

value = encode("ab")
assert value == [97, 98]
assert decode(value) == "ab"

assert encode(decode([97])) == [97]

assert words("a b a") == {"a": 2, "b": 1}

assert ordered(encode("cab")) == [97, 98, 99]

items = [5]
fill(items)
assert items == [5, 1]

items = [[5], {}]
fill(items[0])
assert items[0] == [5, 1]

shared = []
fill(shared)
fill(shared)
assert shared == [0, 1]
assert ordered(shared) == [0, 1]

assert apply(double, [1, 2]) == [2, 4]

assert apply(lambda item: double(item) + 1, [1, 2]) == [3, 5]

assert apply(str, [1, 2]) == ["1", "2"]

seen = []
apply(seen.append, [1, 2])
assert seen == [1, 2]

def plus(item):
    return double(item)
assert apply(plus, encode("a")) == [194]

assert compose(double, double)(3) == 12

assert compose(double, lambda value: value + 1)(3) == 7

assert divide(1, 2) == 0.5

try:
    divide(1, 0)
except ValueError as error:
    assert "zero" in str(error)
else:
    assert False

try:
    divide(1, 0)
    assert False, "no error"
except Exception as error:
    assert type(error) is ValueError
    assert double(error.args[0]) == "zerozero"

assert list(upto(3)) == [0, 1, 2]

assert sum(upto(4)) == 6

assert ordered(upto(3)) == [0, 1, 2]

for number in upto(3):
    assert double(number) == 2 * number

assert [double(number) for number in upto(3)] == [0, 2, 4]

assert {number: double(number) for number in upto(2)} == {0: 0, 1: 2}

assert max(upto(3), key=double) == 2

assert sorted(upto(3), key=lambda number: -double(number)) == [2, 1, 0]

assert pairs(1) == {(0, "0"): {"at": [0, {0}]}}

for key, held_value in pairs(2).items():
    assert double(key[0]) == 2 * held_value["at"][0]

assert Point(1, 2) == Point(1, 2)

assert (Point(1, 2) + Point(1, 1)).x == 2

point = Point(1, 2)
assert point.norm() == 3
assert not far(point)
assert repr(point) == "Point(1, 2)"

assert far(Point(3, 4))

assert far(Point(1, 2) + Point(2, 2))

assert [point.x for point in sorted(points(3))] == [1, 2, 3]

assert sorted(points(2))[0].x == 1

assert {point.x: point.y for point in points(2)} == {2: 0, 1: 1}

assert len({Point(1, 2): 1, Point(1, 3): 2}) == 2

assert f"{points(1)[0]}" == "Point(1, 0)"

assert "%s" % points(1)[0] == "Point(1, 0)"

assert isinstance(points(1)[0], Point)

assert isinstance(double(3), int)

assert isinstance(encode("a"), list) and all(isinstance(code, int) for code in encode("a"))

assert type(double(3)) is int

assert type(encode("a")) == list

assert double(True) is not None

same = Point(1, 2)
assert same is same
assert far(same) is False

stack = Stack()
stack.push(3)
assert len(stack) == 1
assert stack.pop() == 3

stack = Stack()
for number in upto(3):
    stack.push(double(number))
assert list(stack) == [0, 2, 4]

stack = Stack()
stack.push([1])
top = stack.pop()
fill(top)
assert top == [1, 1]

assert paint(1) == Colour.RED

assert paint(2).name == "BLUE"

assert paint(Colour.RED.value) is Colour.RED

assert [colour.name for colour in Colour] == ["RED", "BLUE"]

try:
    fail(3)
except Failure as failure:
    assert "3" in str(failure)
else:
    raise AssertionError("no failure")

with held(3) as inside:
    assert inside == [3]

with held(encode("a")) as inside:
    assert decode(inside[0]) == "a"

import asyncio
assert asyncio.run(fetch(3)) == 4

import asyncio
async def main():
    return await fetch(double(1))
assert asyncio.run(main()) == 3

import asyncio
async def both():
    return await asyncio.gather(fetch(1), fetch(2))
assert asyncio.run(both()) == [2, 3]

import json
assert json.dumps(words("a b")) == '{"a": 1, "b": 1}'

import json
assert json.loads(json.dumps(matrix(2))) == [[0.0, 0.0], [0.0, 1.0]]

assert f"{double(3)}" == "6" and f"{double(3):>3}" == "  6"

assert str(encode("a")) == "[97]"

assert ", ".join(map(str, encode("ab"))) == "97, 98"

assert decode(reversed(encode("ab"))) == "ba"

assert decode(iter(encode("ab"))) == "ab"

assert decode(encode("abc")[1:]) == "bc"

assert decode([*encode("a"), *encode("b")]) == "ab"

assert words(" ".join(words("a b"))) == {"a": 1, "b": 1}

assert ordered(words("b a")) == ["a", "b"]

assert ordered(words("b a").keys()) == ["a", "b"]

assert ordered(words("b a").items()) == [("a", 1), ("b", 1)]

assert ordered(set(encode("aab"))) == [97, 98]

first, second = encode("ab")
assert double(first) == 194 and double(second) == 196

first, *rest = encode("abc")
assert decode(rest) == "bc"

assert double(*encode("a")) == 194

assert divide(**{"a": double(1), "b": 2}) == 1

assert double(n=double(n=1)) == 4

assert LIMIT == 10 and double(LIMIT) == 20

assert TABLE["a"] == 1 and ordered(TABLE) == ["a", "b"]

assert double(TABLE["b"]) == [2, 3, 2, 3]

assert double(len(encode("abc"))) == 6

assert double(encode("ab")[0]) == 194

assert double(words("a a")["a"]) == 4

assert double(words("a").get("a")) == 2

assert double(Point(1, 2).x) == 2

assert double(points(1)[0].norm()) == 2

assert double(paint(1).value) == 2

assert apply(encode, ["a"]) == [[97]]

assert apply(type, [double(1)]) == [int]

assert ordered(apply(abs, [double(-1)])) == [2]

assert ordered(matrix(2)[1]) == [0.0, 1.0]

assert matrix(2) is not None and matrix(0) == []

import copy
assert copy.deepcopy(encode("a")) == encode("a")
assert decode(copy.copy(encode("a"))) == "a"

import functools
assert functools.reduce(lambda a, b: a + double(b), encode("a"), 0) == 194

import functools
assert apply(functools.partial(divide, 4), [double(1)]) == [2.0]

import itertools
assert list(itertools.islice(upto(10), 2)) == [0, 1]
assert ordered(itertools.chain(encode("b"), encode("a"))) == [97, 98]

import math
assert math.isclose(divide(1, 3), 1 / 3)
assert double(math.floor(divide(5, 2))) == 4

import statistics
assert statistics.mean(encode("ac")) == 98

import io, contextlib
out = io.StringIO()
with contextlib.redirect_stdout(out):
    print(double(2))
assert out.getvalue() == "4\\n"

def recurse(n):
    return double(1) if n == 0 else recurse(n - 1)
assert recurse(3) == 2

def table():
    for number in upto(3):
        yield number, double(number)
for given, wanted in table():
    assert double(given) == wanted

def compare(got, wanted):
    assert double(got) == double(wanted), f"{got!r} is not {wanted!r}"
compare(encode("a"), [97])

number = 0
while double(number) < 4:
    number += 1
assert number == 2

if double(1) == 2:
    assert decode(encode("x")) == "x"
else:
    assert decode(memoryview(b'')) == "x"

assert double(1) == 2 or decode(open("nothing")) == 1

value = encode("a") if double(1) == 2 else memoryview(b'')
assert decode(value) == "a"

match encode("a"):
    case [97]:
        assert double(1) == 2
    case other:
        decode(iter([other, memoryview(b'')]))

assert (found := encode("a")) and decode(found) == "a"

check = double(3)
assert check == 6

check = Stack()
assert len(check) == 0

results = [encode(text) for text in ("a", "b")]
assert [decode(result) for result in results] == ["a", "b"]

assert any(double(number) == 4 for number in upto(3))

assert all(far(point) is False for point in points(3))

assert list(map(double, encode("a"))) == [194]

assert list(filter(far, points(3))) == []

assert dict(zip(words("a b"), upto(2))) == {"a": 0, "b": 1}

assert double("ab").upper() == "ABAB"

assert apply(encode("a").count, [97]) == [1]

assert apply(words("a").get, ["a"]) == [1]

assert apply("a".__add__ if double(1) == 3 else str, [decode([97])]) == ["a"]

assert double(encode("a").index(97)) == 0

assert double(vars(Point(1, 2))["x"]) == 2 if hasattr(Point(1, 2), "__dict__") and False else double(1) == 2

assert double(getattr(Point(1, 2), "x")) == 2

assert ordered(dir(words("a")))[:1] != [1]

class Holder:
    def __init__(self, value):
        self.value = value
holder = Holder(encode("a"))
assert decode(holder.value) == "a"

class Counted(list):
    pass
assert double(len(Counted(encode("ab")))) == 4

numbers = (double(number) for number in encode("a"))
assert ordered(numbers) == [194]

try:
    value = decode(encode("a"))
finally:
    last = double(1)
assert (value, last) == ("a", 2)

assert bytes(encode("ab")) == b"ab"

assert int(double("1")) == 11 and float(double(1)) == 2.0 and bool(double(1))

assert hash(double(1)) == hash(2)

assert double(abs(double(-2))) == 8 and double(round(divide(5, 2))) == 4

assert sum(map(sum, matrix(2))) == 1.0

assert decode(sorted(encode("ba"))) == "ab"

assert {*encode("a")} == {97} and {**words("a")} == {"a": 1}

assert double(next(iter(encode("a")))) == 194

assert double(next(upto(1), 5)) == 0

letters = iter(encode("ab"))
assert double(next(letters)) == 194
assert decode(letters) == "b"
""".split("\n\n")
]
# Blocks whose values only a shared process carries.
SHARED_LINES = [
    "assert apply(Stack().push, [1])[0].pop() == 1",
    "assert apply(Point(1, 2).__add__, [Point(1, 1)])[0].x == 2",
    "assert [*compose(upto, list)(3)] == [0, 1, 2]",
    "class Mine(Point):\n    pass\nassert far(Mine(3, 4))",
    "assert decode(value for value in encode('ab')) == 'ab'",
    "assert apply(type(points(1)[0]).norm, points(1)) == [1]",
    "points(1)[0].x = 5\nassert double(5) == 10",
    "assert far(type('P', (), {'norm': lambda self: 4})())",
]
NUMPY_LINES = [
    "import numpy as np\nassert np.allclose(matrix(2), [[0, 0], [0, 1]])",
    "import numpy as np\nassert np.array_equal(np.array(encode('ab')), [97, 98])",
    "import numpy as np\nassert double(np.array(encode('a'))).tolist() == [194]",
    "import numpy as np\nnp.testing.assert_allclose(np.asarray(matrix(2)).sum(), 1.0)",
    "import numpy as np\nassert ordered(np.asarray(encode('ba'))) == [97, 98]",
    "import numpy as np\nassert double(np.sum(encode('a'))) == 194 and double(np.float64(divide(1, 2))) == 1.0",
    "import numpy as np\nassert decode(np.unique(encode('aab')).tolist()) == 'ab'",
]
UNITTEST_LINES = [
    "self.assertEqual(decode(encode('a')), 'a')",
    "with self.assertRaises(ValueError):\n    divide(double(1), 0)",
    "self.assertRaises(ValueError, divide, double(1), 0)",
    "with self.assertRaisesRegex(Failure, 'code 3'):\n    fail(3)",
    "self.assertRaises(Failure, lambda: fail(encode('a')))",
    "for number in upto(2):\n    with self.subTest(number=number):\n        self.assertEqual(double(number), 2 * number)",
    "self.assertAlmostEqual(divide(1, 3), 0.333333, places=5)",
    "self.assertIsInstance(points(1)[0], Point)\nself.assertIn(97, encode('a'))\nself.assertIs(far(Point(1, 2)), False)",
    "self.assertCountEqual(words('b a'), ['a', 'b'])\nself.assertDictEqual(words('a'), {'a': 1})",
    "with self.assertRaises(ValueError) as caught:\n    divide(1, 0)\nself.assertEqual(double(str(caught.exception)), 'zerozero')",
    "self.addCleanup(fill, encode('a'))\nself.assertTrue(double(1))",
    "if double(1) != 2:\n    self.skipTest('odd')\nself.assertLess(double(1), 3)",
]
PYTEST_LINES = [
    "with pytest.raises(ValueError, match='zero'):\n    divide(double(1), 0)",
    "with pytest.raises(Failure):\n    fail(encode('a'))",
    "with pytest.raises(ValueError) as caught:\n    divide(1, 0)\nassert double(str(caught.value)) == 'zerozero'",
    "assert divide(1, 3) == pytest.approx(0.333333, abs=1e-5)",
    "assert decode(encode('abc')) == 'abc', encode('abc')",
    "if double(1) != 2:\n    raise pytest.skip.Exception('odd')\nassert double(2) == 4",
    "value = encode('a')\nif value != [97]:\n    decode(memoryview(b''))\nassert decode(value) == 'a'",
]
# Beside the functions of a file: what is done while it is loaded, and fixtures.
PYTEST_MORE = [
    "@pytest.fixture\ndef codes():\n    return encode('ab')\n\ndef test_codes(codes):\n    assert decode(codes) == 'ab'",
    "@pytest.fixture(params=encode('ab'))\ndef code(request):\n    yield request.param\n    double(request.param)\n\ndef test_code(code):\n    assert double(code) == 2 * code",
    "@pytest.mark.parametrize('given, wanted', [(1, 2), ('a', 'aa'), (double(1), 4)])\ndef test_given(given, wanted):\n    assert double(given) == wanted",
    "@pytest.mark.parametrize('n', upto(3))\ndef test_count(n):\n    assert double(n) == 2 * n",
    "@pytest.mark.parametrize('name', list(words('a b')))\ndef test_name(name):\n    assert decode(encode(name)) == name",
    "MADE = encode('a')\n\ndef test_made():\n    assert decode(MADE) == 'a'",
    "@pytest.mark.xfail(double(1) != 2, reason='odd')\ndef test_maybe():\n    assert double(2) == 4",
    "@pytest.mark.parametrize('function', [double, encode])\ndef test_each(function):\n    assert function('a')",
    "class TestStack:\n    def setup_method(self):\n        self.stack = Stack()\n    def test_push(self):\n        self.stack.push(encode('a'))\n        assert decode(self.stack.pop()) == 'a'",
    "if double(1) == 2:\n    def test_inside():\n        assert double(2) == 4\nelse:\n    pass",
]
# (kind, setup, code): whole tests of forms that blocks cannot have.
WHOLE = [
    ("assert", "HELD = double(2)", "assert HELD == 4"),
    ("assert", "coded = encode('a')\nassert decode(coded) == 'a'", "assert double(2) == 4"),
    ("assert", "def same(got, wanted):\n    assert decode(got) == wanted", "same(encode('a'), 'a')"),
    ("assert", "def run(function, *args):\n    return function(*args)", "assert run(decode, run(encode, 'a')) == 'a'"),
    ("assert", "from solution import *\nBASE = double(1)", "assert double(BASE) == 4"),
    ("assert", "import solution\nf = solution.double", "assert f(f(1)) == 4"),
    ("assert", "cases = [(n, double(n)) for n in upto(3)]", "for given, wanted in cases:\n    assert double(given) == wanted"),
    ("assert", "", "import solution\nassert solution.decode(solution.encode('a')) == 'a'"),
    ("assert", "", "from solution import *\nassert decode(encode('a')) == 'a'"),
    ("assert", "", "from solution import encode as e, decode as d\nassert d(e('a')) == 'a'"),
    (
        "assert",
        "",
        "import solution\nassert hasattr(solution, 'double') and callable(solution.double)\nassert solution.double(2) == 4",
    ),
    (
        "assert",
        "",
        "try:\n    from solution import double\nexcept ImportError:\n    double = memoryview(b'')\nassert double(2) == 4",
    ),
    ("assert", "", "check = encode\nassert decode(check('a')) == 'a'"),
    ("assert", "", "check = compose(encode, decode)\nassert check('a') == 'a'"),
    ("assert", "", "for check in [encode('a')]:\n    assert decode(check) == 'a'"),
    (
        "unittest",
        "",
        "import unittest\nfrom solution import double, encode\nclass T(unittest.TestCase):\n    pass\nfor n in encode('ab'):\n    setattr(T, f'test_{n}', lambda self, n=n: self.assertEqual(double(n), 2 * n))",
    ),
    (
        "unittest",
        "",
        "import unittest\nfrom solution import double\nif double(1) == 2:\n    class T(unittest.TestCase):\n        def test(self):\n            self.assertEqual(double(2), 4)",
    ),
    (
        "unittest",
        "",
        "import unittest\nimport solution\nclass T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        cls.codes = solution.encode('a')\n    def setUp(self):\n        self.text = solution.decode(self.codes)\n    def test(self):\n        self.assertEqual(self.text, 'a')\nif __name__ == '__main__':\n    unittest.main()",
    ),
    (
        "unittest",
        "",
        "import unittest\nfrom solution import *\ndef make(n):\n    class Made(unittest.TestCase):\n        def test(self):\n            self.assertEqual(double(n), 2 * n)\n    return Made\nfor n in upto(2):\n    globals()[f'Made{n}'] = make(n)",
    ),
    (
        "unittest",
        "",
        "import unittest\nfrom solution import fetch\nclass T(unittest.IsolatedAsyncioTestCase):\n    async def test(self):\n        self.assertEqual(await fetch(1), 2)",
    ),
    (
        "unittest",
        "BASE = double(2)",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(double(BASE), 8)",
    ),
    (
        "pytest",
        "",
        "import pytest\nfrom solution import double, upto\nif double(1) == 2:\n    def test_inside():\n        assert double(2) == 4",
    ),
    (
        "pytest",
        "",
        "import pytest\nimport solution\nif not callable(getattr(solution, 'double', None)) or solution.double(1) != 2:\n    raise pytest.skip.Exception('no', allow_module_level=True)\ndef test():\n    assert solution.double(2) == 4",
    ),
    (
        "pytest",
        "",
        "from solution import double, upto\nfor n in upto(2):\n    def made(n=n):\n        assert double(n) == 2 * n\n    globals()[f'test_{n}'] = made",
    ),
    (
        "pytest",
        "",
        "import pytest\nsolution = __import__('solution')\ndef test():\n    assert solution.double(2) == 4",
    ),
    ("pytest", "BASE = double(2)", "def test():\n    assert double(BASE) == 8"),
    (
        "pytest",
        "",
        "import asyncio\nfrom solution import fetch, double\ndef test():\n    assert asyncio.run(fetch(double(1))) == 3",
    ),
]

IO_REFERENCE = """
import sys
numbers = [int(word) for word in sys.stdin.read().split()]
with open("out.txt", "w") as file:
    print(sum(numbers), file=file)
print(sum(numbers))
"""
_RUN = {"stdin": "2 3\n"}
IO_TESTS: list[dict[str, Any]] = [
    {"type": "stdio", "stdout": "5\n", **_RUN},
    {"type": "file", "path": "out.txt", "content": "5\n", **_RUN},
    {"type": "checker", "code": "def check(stdin, stdout):\n    return int(stdout) == sum(map(int, stdin.split()))", **_RUN},
    {"type": "checker", "code": "import json\ndef check(stdin, stdout):\n    (line,) = stdout.splitlines()\n    return json.loads(line) == 5", **_RUN},
    {"type": "checker", "code": "def check(stdin, stdout):\n    words = stdout.split()\n    if words[0] != '5':\n        return False, f'{words[0]} is not 5'\n    return True", **_RUN},
    {"type": "checker", "code": "import ast\ndef check(stdin, stdout):\n    return ast.literal_eval(stdout) == 5", **_RUN},
    {"type": "checker", "code": "def check(stdin, stdout):\n    return __builtins__['eval'](stdout) == 5", **_RUN},
    {"type": "checker", "code": "def check(stdin, stdout):\n    if stdout == '5\\n':\n        return True\n    raise undefined_error(stdout)", **_RUN},
    {"type": "checker", "code": "def check(stdin, stdout):\n    return {'5': True}[stdout.strip()]", **_RUN},
]  # fmt: skip
CALLS: list[dict[str, Any]] = [
    {"type": "call", "function": "double", "args": [3], "expected": 6},
    {"type": "call", "function": "encode", "args": ["ab"], "expected": [97, 98]},
    {"type": "call", "function": "words", "args": ["a b a"], "expected": {"a": 2, "b": 1}},
    {"type": "call", "function": "divide", "args": [1], "kwargs": {"b": 2}, "expected": 0.5},
    {"type": "call", "function": "matrix", "args": [2], "expected": [[0, 0], [0, 1]]},
    {"type": "call", "function": "ordered", "args": [[3, 1, 2]], "expected": [1, 2, 3]},
    {"type": "call", "function": "fetch", "args": [3], "expected": 4},
    {"type": "call", "function": "fill", "args": [[3]], "expected": None},
]
KINDS = {"assert": 40, "entry": 14, "imported": 10, "unittest": 9, "shared": 9, "call": 6, "io": 8, "whole": 9, "pytest": 2}
HAS_NUMPY = importlib.util.find_spec("numpy") is not None


@dataclass(frozen=True)
class Case:
    """A test with the reference program that passes it."""

    tests: tuple[dict[str, Any], ...]
    reference: str = REFERENCE
    setup: str = ""
    policy: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the reference's that the test uses."""
        text = self.setup + "".join(str(test.get("code", test.get("function", ""))) for test in self.tests)
        return [name for name in NAMES if re.search(rf"\b{name}\b", text)]


def _indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def imports(text: str) -> str:
    """The import of the reference's names that a text uses."""
    used = [name for name in NAMES if re.search(rf"\b{name}\b", text)]
    return f"from solution import {', '.join(used)}\n" if used else "import solution\n"


def lines(shared: bool = False) -> list[str]:
    """All blocks of assertions."""
    return LINES + (SHARED_LINES if shared else []) + (NUMPY_LINES if HAS_NUMPY else [])


def as_unittest(blocks: list[str]) -> str:
    """A file for unittest with a method for each block."""
    methods = "\n".join(f"    def test_{index}(self):\n{_indented(block, 8)}" for index, block in enumerate(blocks))
    return f"import unittest\n{imports(methods)}\nclass Tests(unittest.TestCase):\n{methods}\n"


def as_pytest(blocks: list[str], more: list[str]) -> str:
    """A file for pytest with a function for each block."""
    functions = "\n\n".join(f"def test_{index}():\n{_indented(block)}" for index, block in enumerate(blocks))
    whole = functions + "\n\n" + "\n\n".join(more)
    return f"import pytest\n{imports(whole)}\n{whole}\n"


def as_check(blocks: list[str], entry: str) -> str:
    """An assert test that defines `check(candidate)`."""
    body = re.sub(rf"\b{entry}\b", "candidate", "\n".join(blocks))
    return f"def check(candidate):\n{_indented(body)}\n"


def _of_form(rng: random.Random, form: str, shared: bool) -> tuple[str, str, str | None]:
    """Type, code and entry point of a drawn test."""
    blocks = rng.sample(lines(shared), rng.choice((1, 1, 2, 3)))
    if form == "unittest":
        return "unittest", as_unittest(blocks + rng.sample(UNITTEST_LINES, 1)), None
    if form == "pytest":
        return "pytest", as_pytest(blocks + rng.sample(PYTEST_LINES, 1), rng.sample(PYTEST_MORE, rng.choice((0, 1)))), None
    code = "\n".join(blocks)
    used = [name for name in NAMES if name[0].islower() and re.search(rf"\b{name}\b", code)]
    if form == "entry" and used:
        entry = rng.choice(used)
        return "assert", as_check(blocks, entry), entry
    return "assert", imports(code) + code if form == "imported" else code, None


def case(rng: random.Random) -> Case:
    """Draw a case."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    if kind == "io":
        return Case((rng.choice(IO_TESTS),), IO_REFERENCE)
    if kind == "call":
        return Case(tuple(rng.sample(CALLS, 2)), policy={"stop_at_first_failure": False})
    if kind == "whole":
        form, setup, code = rng.choice([whole for whole in WHOLE if whole[0] != "pytest" or rng.random() < 0.3])
        shared = rng.random() < 0.2 and "import solution" not in setup  # which is not loaded yet in a shared process
        return Case(({"type": form, "code": code},), setup=setup, policy={"trust": "shared"} if shared else {})
    shared = kind == "shared"
    form = rng.choice(("assert", "entry", "unittest", "imported")) if shared else kind
    type_, code, entry = _of_form(rng, form, shared)
    test = {"type": type_, "code": code} | ({"entry_point": entry} if entry else {})
    return Case((test,), policy={"trust": "shared"} if shared else {})


def sound() -> list[Case]:
    """Cases that together hold every block in every kind."""
    found = [Case((test,), IO_REFERENCE) for test in IO_TESTS] + [Case(tuple(CALLS))]
    for shared in (False, True):
        policy = {"trust": "shared"} if shared else {}
        for form, setup, code in WHOLE:
            if not shared or (form != "pytest" and "import solution" not in setup):
                found.append(Case(({"type": form, "code": code},), setup=setup, policy=policy))
        blocks = lines(shared)
        whole = "\n".join(blocks)
        tests = (
            {"type": "assert", "code": whole},
            {"type": "assert", "code": imports(whole) + whole},
            {"type": "assert", "code": as_check(blocks, "double"), "entry_point": "double"},
            {"type": "unittest", "code": as_unittest(blocks + UNITTEST_LINES)},
        )
        found += [Case((test,), policy=policy) for test in tests]
    found.append(Case(({"type": "pytest", "code": as_pytest(lines() + PYTEST_LINES, PYTEST_MORE)},)))
    return found
