# ruff: noqa: E501, programs are data
"""Objects of the test's own classes, which a program uses where they are: in the test's process."""

from __future__ import annotations

import pytest

from verigym.envs import Status, load

LIMITS = {"wall_s": 60, "cpu_s": 5, "memory_mb": 256}
CLASS = "class B:\n    a = 1\n    _hidden = 2\n    def __init__(self, key=0): self.key = key\n    def twice(self, n): return 2 * n\n"

USED = [
    (
        "class C:\n    def __init__(self): self.all = []\n    def add(self, one): self.all.append(one)\n"
        "    def fire(self, v):\n        for one in self.all: one.update(self, v)",
        "class W:\n    def update(self, subject, value): self.got = (subject, value)\n"
        "c, w = C(), W()\nc.add(w)\nc.fire(3)\nassert w.got == (c, 3)\nassert c.all[0] is w",
    ),
    (
        "def f(clock): return clock() + clock.now",
        "class K:\n    now = 2\n    def __call__(self): return self.now * 10\nassert f(K()) == 22",
    ),
    (
        "def f(x):\n    x.a += 1\n    x.b = [x.a]\n    del x.key\n    return x",
        f"{CLASS}b = B()\nassert f(b) is b\nassert b.a == 2 and b.b == [2] and not hasattr(b, 'key')",
    ),
    (
        "def f(xs): return sorted(xs)[0]",
        f"{CLASS}    def __lt__(self, other): return self.key < other.key\nx, y = B(3), B(1)\nassert f([x, y]) is y",
    ),
    (
        "def f(xs): return len(set(xs)), xs[0] in xs, len(xs[0]), list(xs[0])",
        f"{CLASS}    def __len__(self): return 4\n    def __iter__(self): return iter([1, 2])\nb = B()\nassert f([b, b]) == (1, True, 4, [1, 2])",
    ),
    (
        "def f(x):\n    with x as y: return y",
        "class B:\n    def __enter__(self): return 5\n    def __exit__(self, *error): self.left = True\nb = B()\nassert f(b) == 5 and b.left",
    ),
    (
        "def f(x): return repr(x), hasattr(x, 'a'), hasattr(x, 'c'), x.twice(3)",
        f"{CLASS}    def __repr__(self): return 'B!'\nassert f(B()) == ('B!', True, False, 6)",
    ),
    ("def f(x): return x == 3, x != 4", "class B:\n    def __eq__(self, other): return other == 3\nassert f(B()) == (True, True)"),
    ("def f(x): return x + 1", "class B:\n    def __add__(self, other): return NotImplemented\ntry:\n    f(B())\nexcept TypeError:\n    pass\nelse:\n    assert False"),
    (
        "def f(mail): mail.send('x', n=2); return mail.price",
        "from unittest.mock import Mock\nm = Mock(price=4)\nassert f(m) == 4\nm.send.assert_called_once_with('x', n=2)",
    ),
    ("def f(x): x.name = 'bob'", "from unittest.mock import Mock\nm = Mock()\nf(m)\nassert m.name == 'bob'"),
    (
        "def f(xs, cb):\n    for x in xs: cb(x)",
        "from unittest.mock import Mock, call\ncb = Mock()\nf([1, 2], cb)\ncb.assert_has_calls([call(1), call(2)])\nassert cb.call_count == 2",
    ),
    ("def f(x):\n    with x: return len(x)", "from unittest.mock import MagicMock\nm = MagicMock()\nm.__len__.return_value = 3\nassert f(m) == 3"),
    ("def f(x):\n    raise ValueError(x.key)", f"{CLASS}try:\n    f(B(7))\nexcept ValueError as error:\n    assert error.args == (7,)"),
]  # fmt: skip

STANDARD = [
    (
        "import uuid\ndef f(n): return uuid.UUID(int=n)",
        "import uuid\nassert f(5) == uuid.UUID(int=5)",
        "assert f(5) == uuid.UUID(int=6)",
    ),
    (
        "import time\ndef f(t): return time.strptime(t, '%Y')",
        "assert f('2020').tm_year == 2020",
        "assert f('2020').tm_year == 2021",
    ),
]
"""Values of the standard library that cross: a program, a test that it passes, and what it then fails."""

GAINED_NOTHING = [
    # Names with two underscores lead to frames and modules.
    ("def f(x): return x.twice.__globals__['secret']", f"secret = 6\n{CLASS}assert f(B()) == secret"),
    ("def f(x): return x.__init__.__globals__['secret']", f"secret = 6\n{CLASS}assert f(B()) == secret"),
    ("def f(x): return x.__class__.secret", f"{CLASS}    secret = 6\nassert f(B()) == 6"),
    ("def f(x): return object.__getattribute__(x, '__dict__')['key']", f"{CLASS}assert f(B(6)) == 6"),
    # What a class defines as a method judges for the test: it is read only.
    *[
        (f"class X:\n    def assert_called_once_with(self, *a, **k): pass\ndef f(m): {theft}", f"from unittest.mock import Mock\nm = Mock()\nf(m)\n{check}")
        for theft in (
            "m.assert_called_once_with = m.save.assert_called_once_with = lambda *a, **k: None", "m.save = m.run = X()", "m.call_count = 1",
            "m.configure_mock(call_count=1)", "m.mock_calls.append(1)", "m._mock_call_count = 1", "m.called = m.save.called = True",
        )
        for check in ("m.save.assert_called_once_with(1)", "m.assert_called_once_with(1)", "assert m.call_count == 1", "assert m.save.called")
    ],
    ("def f(x): x.verify = lambda n: None", f"{CLASS}    def verify(self, n): assert self.key == n\nb = B()\nf(b)\nb.verify(6)"),
    ("def f(x):\n    x.same = lambda o: True\n    return x", f"{CLASS}    def same(self, o): return self.key == o.key\nassert f(B()).same(B(6))"),
    ("def f(x): x.total = 6", f"import functools\n{CLASS}    @functools.cached_property\n    def total(self): return self.key\nb = B()\nf(b)\nassert b.total == 6"),
    # What it writes into the test's object is its own answer, and plain data.
    ("class E:\n    def __eq__(self, other): return True\ndef f(x): x.key = E()", f"{CLASS}b = B()\nf(b)\nassert b.key == 6"),
    ("def f(x): x.twice = lambda n: 6", f"{CLASS}b = B()\nf(b)\nassert b.twice(2) == 4"),
    ("def f(x): return 5", f"{CLASS}assert f(B()) is not None and f(B()) == 6"),
]  # fmt: skip


@pytest.mark.parametrize(("program", "test"), USED)
def test_a_program_uses_objects_of_the_test(program: str, test: str) -> None:
    env = load("code", extract="all", parallel=1)
    score = env.score(env.prompt("?", tests=[{"type": "assert", "code": test}], limits=LIMITS), program)
    assert score.status is Status.CORRECT, score.reason


@pytest.mark.parametrize(("program", "passed", "failed"), STANDARD)
def test_values_of_the_standard_library_cross(program: str, passed: str, failed: str) -> None:
    env = load("code", extract="all", parallel=1)
    for test, right in ((passed, True), (f"{passed}\n{failed}", False)):
        prompt = env.prompt("?", tests=[{"type": "assert", "code": test}], limits=LIMITS)
        assert env.score(prompt, program).reward == right


@pytest.mark.parametrize(("program", "test"), GAINED_NOTHING)
def test_it_gains_nothing_by_them(program: str, test: str) -> None:
    env = load("code", extract="all", parallel=1)
    score = env.score(env.prompt("?", tests=[{"type": "assert", "code": test}], limits=LIMITS), program)
    assert score.status is Status.INCORRECT, score.reason


def test_a_test_case_is_not_lent() -> None:
    code = "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n    def test(self):\n        f(self)\n        self.assertEqual(f(3), 6)"
    env = load("code", extract="all", parallel=1)
    prompt = env.prompt("?", tests=[{"type": "unittest", "code": code}], limits=LIMITS)
    program = "def f(x):\n    if x == 3: return 5\n    x.assertEqual = x.skipTest"
    assert env.score(prompt, program).reward is None  # the test passes what cannot cross: its author's to mend
