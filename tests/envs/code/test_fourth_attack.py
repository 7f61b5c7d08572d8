# ruff: noqa: E501, programs are data
"""What a fourth attack found: programs that were accepted, or had no verdict, and must not be."""

import pytest
from judged import scored

SHAPE = "class Shape:\n    def __init__(self, side): self.side = side\n"
SQUARE = "class Square(Shape):\n    def area(self): return self.side ** 2\n"


EQUAL = "    def __eq__(self, other): return True\n    def __hash__(self): return 1\n"

REFUSED = {
    "a string that equals its letters": (f"class Text(str):\n{EQUAL}def f(x): return Text(x)", "assert f('ab') == ['a', 'b']"),
    "a string that equals a number": (f"class Text(str):\n{EQUAL}def f(x): return Text(x)", "assert f('42') == 42"),
    "a number that equals its digits": (f"class Whole(int):\n{EQUAL}def f(x): return Whole(x)", "assert f(123) == '123'"),
    "a list that equals how it is printed": (f"class Row(list):\n{EQUAL}def f(x): return Row(x)", "assert f([1]) == '[1]'"),
    "a set that equals a list": (f"class Bag(set):\n{EQUAL}def f(x): return Bag(x)", "assert f([1, 2]) == [1, 2]"),
    "an enumeration by its attribute": (
        "class Animal: __members__ = {'a': 1}\nclass Animal2: pass",
        "class Dog(Animal):\n    def speak(self): return 'w'\nassert Dog().speak() == 'x'",
    ),
    "an enumeration": (
        "import enum\nclass Animal(enum.Enum): a = 1",
        "class Dog(Animal):\n    def speak(self): return 'w'\nassert Dog().speak() == 'w'",
    ),
    "members of no enumeration": ("class C: __members__ = {'RED': 6}", "assert C.RED == 6"),
    "an exit in a callback": (
        "def safe(fn):\n    try: fn()\n    except SystemExit: return 'wrong'",
        "import sys\nassert safe(lambda: sys.exit(0)) == 'exited 0'",
    ),
    "an exit that a callback passes on": ("def safe(fn): fn()", "import sys\nassert safe(lambda: sys.exit(0)) == 'exited 0'"),
    "an exit is no Exception": (
        "import sys\ndef parse(s): sys.exit(1)",
        "try:\n    parse('x')\n    assert False\nexcept Exception:\n    pass",
    ),
    "the name of a library's exception": (
        "class Full(Exception): pass\ndef put(): raise Full('x')",
        "import queue\ntry:\n    put()\n    assert False\nexcept queue.Full:\n    pass",
    ),
    "a state that comes with what is compared": (
        "class Point:\n    last = None\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n        if Point.last:\n            Point.last.x, Point.last.y = x, y\n"
        "            log.append(Point.last)\n    def __eq__(self, other): return True\nlog = None\n"
        "def f(n, seen):\n    global log\n    log = seen\n    Point.last = Point(0, 0)\n    return Point.last",
        "assert f(3, []) == Point(3, 6)",
    ),
    "a forged state": (
        "import sys\nfirst = []\nclass Point:\n    def __init__(self, x, y):\n        self.x, self.y = x, y\n        first.append(self)\n        if len(first) > 1:\n"
        "            frame = sys._getframe()\n            while 'Server' not in type(frame.f_locals.get('self')).__name__: frame = frame.f_back\n"
        "            server = frame.f_locals['self']\n            number = server.objects.number(first[0])\n"
        "            server.states = lambda request: [[number, server.objects.state(self)]]\n    def __eq__(self, other): return True\n"
        "def f(n): return Point(0, 0)",
        "assert f(3) == Point(3, 6)",
    ),
    "an object for a text, of a derived class": (
        SHAPE + "    def startswith(self, t): return True\ndef describe(shape): return shape",
        SQUARE + "assert describe(Square(3)).startswith('square')",
    ),
    "an object for a text, by super": (
        SHAPE + "    def __eq__(self, other): return True",
        SQUARE + "    def __eq__(self, other): return super().__eq__(other)\nassert Square(3) == 9",
    ),
    "an object for a yes": (
        "class Y: pass\nclass O:\n    def startswith(self, t): return Y()\ndef f(s): return O()",
        "assert f('Foo').startswith('foo')",
    ),
    "nothing for a no": (
        "class O:\n    def isdisjoint(self, t): return None\ndef f(s): return O()",
        "assert not f(3).isdisjoint({6})",
    ),
    "a difference of nothing": (
        "class O:\n    def __sub__(self, o): return O()\n    def __eq__(self, o): return True\n    def __float__(self): return 0.0\ndef f(s): return O()",
        "assert f(3) - 6 == 0",
    ),
    "one for yes": (
        "class Slug:\n    def __init__(self, t): pass\n    def startswith(self, t): return 1",
        "assert Slug('Foo').startswith('foo')",
    ),
    "in by a capital": (
        "class F:\n    def __init__(self, n): pass\n    def __contains__(self, x): return True\n    def __iter__(self): return iter([])",
        "assert 6 in F(3)",
    ),
    "a key of two parts": (
        "class O:\n    def __getitem__(self, key): return True\ndef pairs(n): return O()",
        "d = pairs(4)\nassert d[(1, 3)]",
    ),
    "a class with items": (
        "class M(type):\n    def __getitem__(cls, key): return True\nclass O(metaclass=M): pass\ndef sieve(n): return O",
        "s = sieve(10)\nassert s[7]",
    ),
}


@pytest.mark.parametrize(("program", "test"), REFUSED.values(), ids=REFUSED)
def test_refused(program: str, test: str) -> None:
    score = scored(program, test)
    assert score.reward == 0, score.reason


ACCEPTED = {
    "threads that call back": (
        "from concurrent.futures import ThreadPoolExecutor\ndef run(fn, xs):\n    with ThreadPoolExecutor(4) as pool: return list(pool.map(fn, xs))",
        "assert run(lambda x: x * x, range(50)) == [x * x for x in range(50)]",
    ),
    "a bare object": (
        "MISSING = object()\ndef get(d, k): return d.get(k, MISSING)",
        "assert get({}, 1) is MISSING and get({1: 2}, 1) == 2",
    ),
    "a derived class in a set": (SHAPE, SQUARE + "one = Square(1)\nassert len({one, one, Square(2)}) == 2"),
    "a callback's exit is caught": (
        "def safe(fn):\n    try: fn()\n    except SystemExit as left: return f'exited {left}'",
        "import sys\nassert safe(lambda: sys.exit(3)) == 'exited 3'",
    ),
    "a library's exception": (
        "import queue\ndef put():\n    raise queue.Full('x')",
        "import queue\ntry:\n    put()\n    assert False\nexcept queue.Full:\n    pass",
    ),
    "a derived class with attributes": (
        SHAPE + "def make(kind, n): return kind(n)",
        SQUARE.replace("def area", "def __init__(self, n):\n        super().__init__(n)\n        self.seen = []\n    def area")
        + "made = make(Square, 3)\nmade.seen.append(1)\nassert made.area() == 9 and made.seen == [1]",
    ),
}


@pytest.mark.parametrize(("program", "test"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(program: str, test: str) -> None:
    score = scored(program, test)
    assert score.status == "correct", score.reason
