# ruff: noqa: E501, programs are data
"""Test code against a candidate in another process: verdicts, and whose fault it is."""

from __future__ import annotations

import pytest

CHECK = "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(10) == 20\n    assert candidate(-4) == -8\n"
AS2X = {"kind": "assert", "code": CHECK, "entry_point": "f"}
AS2X_CALLS = {"kind": "assert", "code": CHECK + "check(f)\n", "entry_point": "f"}
PLAIN = {"kind": "assert", "code": "assert f(3) == 6\nassert f(10) == 20\nassert f(-4) == -8\n"}
UT2X = {
    "kind": "unittest",
    "code": "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n    def test(self):\n"
    "        self.assertEqual(f(3), 6)\n        self.assertEqual(f(10), 20)\n    def test_more(self):\n        self.assertEqual(f(-4), -8)\n",
}
UT2X_BARE = {**UT2X, "code": UT2X["code"].replace("from solution import f\n", "")}
PY2X = {
    "kind": "pytest",
    "code": "import pytest\nfrom solution import f\n@pytest.mark.parametrize('n', [3, 10, -4])\ndef test(n):\n    assert f(n) == 2 * n\n",
}
FORMS = [AS2X, AS2X_CALLS, PLAIN, UT2X, UT2X_BARE, PY2X]
NAMES = ["check", "check-called", "plain", "unittest", "unittest-bare", "pytest"]


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_right_and_wrong_programs(verdict, form):
    right = verdict("def f(n):\n    print('hello', n)\n    return 2 * n\n", **form)
    assert (right["stage"], right["passed"]) == ("done", True), right
    wrong = verdict("def f(n):\n    return 6\n", **form)
    assert (wrong["stage"], wrong["passed"]) == ("done", False), wrong
    method = verdict(
        "from typing import List\nclass Solution:\n    def f(self, n: int) -> List[int]:\n        return 2 * n\n", **form
    )
    assert (method["stage"], method["passed"]) == ("done", True), method


HONEST_TEST = """
import functools, io, contextlib, inspect, asyncio, collections, solution
from solution import MyError, Base
assert callable(f) and f.__name__ == "f" and inspect.isfunction(f) and f.__doc__ == "Doubles."
assert list(map(f, [1, 2])) == [2, 4] and sorted([3, 1], key=f) == [1, 3] and functools.partial(f, 4)() == 8
assert f(n=3) == solution.f(3) == 6 and solution.SIZE == 3 and SIZE == 3 and TABLE == {1: (2, {3})}
rows = [[2, 1], [3]]
inner = rows[0]
assert arrange(rows) is None and rows == [[1, 2], [3], [0]] and inner == [1, 2] and rows[0] is inner
d = collections.defaultdict(list, {1: [2]}); fill(d); assert d == {1: [2, 3], "x": 1} and type(d) is collections.defaultdict
try: fails(3)
except MyError as e: assert e.args == ("bad", 3) and str(e) == "bad: 3" and e.code == 3 and isinstance(e, ValueError) and isinstance(e, Base)
else: raise AssertionError
try: solution.lookup("k")
except KeyError as e: assert e.args == ("k",) and str(e) == "'k'" and type(e) is KeyError
try: fopen()
except FileNotFoundError as e: assert e.errno == 2
try: f()
except TypeError as e: assert "missing 1 required" in str(e)
assert asyncio.run(later(1)) == 2 and inspect.iscoroutinefunction(later)
out = io.StringIO()
with contextlib.redirect_stdout(out): speak("hi")
assert out.getvalue() == "hi\\n"
assert list(gen(3)) == [0, 1, 2] and next(gen(2)) == 0
assert fib(50) == 12586269025
assert sorted(keys()) == [1, 2] and isinstance(pair(), tuple) and f(1.5) == 3.0 and isinstance(f(1.0), float)
assert nothing() is None and [x for x in map(f, range(3))] == [0, 2, 4]
def nested():
    return [f(x) for x in range(2)]
assert nested() == [0, 2]
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool: assert list(pool.map(f, range(50))) == list(range(0, 100, 2))
assert List[int] is not None and math.floor(1.5) == 1
"""
HONEST = """
import functools
SIZE = 3
TABLE = {1: (2, {3})}
class Base(Exception): pass
class MyError(ValueError, Base):
    def __init__(self, what, code): super().__init__(what, code); self.code = code
    def __str__(self): return f"{self.args[0]}: {self.code}"
def f(n):
    "Doubles."
    return 2 * n
def arrange(rows):
    for row in rows: row.sort()
    rows.append([0])
def fill(d): d[1].append(3); d["x"] = 1
def fails(n): raise MyError("bad", n)
def lookup(k): return {}[k]
def fopen(): open("/nowhere")
async def later(n): return n + 1
def speak(text): print(text)
def gen(n): yield from range(n)
@functools.lru_cache(maxsize=None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def keys(): return {1: 1, 2: 2}.keys()
def pair(): return 1, 2
def nothing(): pass
"""


def test_what_honest_tests_do_with_functions_works(verdict):
    found = verdict(HONEST, code=HONEST_TEST)
    assert (found["passed"], found["stage"], found["detail"]) == (True, "done", "")


UNITTEST = """
import unittest
from unittest import mock
import solution
from solution import f, MyError
class First(unittest.TestCase):
    def setUp(self): self.n = 3
    def test_raises(self):
        self.assertRaises(ValueError, solution.fails, 1)
        with self.assertRaisesRegex(MyError, "bad: 1"): solution.fails(1)
        self.assertEqual(f(self.n), 6)
    @unittest.skip("later")
    def test_skipped(self): self.fail()
    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n): self.assertEqual(fib(n), [0, 1, 1][n])
class Second(unittest.IsolatedAsyncioTestCase):
    async def test_async(self): self.assertEqual(await solution.later(1), 2)
if __name__ == "__main__": unittest.main()
"""
PYTEST = """
import pytest, math
from solution import f, MyError, speak
@pytest.fixture
def three(): return 3
def test_f(three): assert f(three) == pytest.approx(6)
@pytest.mark.parametrize("n", [1, 2])
def test_many(n): assert f(n) == 2 * n
def test_raises():
    with pytest.raises(MyError, match="bad: 1"): fails(1)
def test_out(capsys):
    speak("hi"); assert capsys.readouterr().out == "hi\\n"
@pytest.mark.skip
def test_skipped(): assert False
@pytest.mark.xfail
def test_xfail(): assert False
def test_tmp(tmp_path, monkeypatch): (tmp_path / "a").write_text("b"); monkeypatch.chdir(tmp_path); assert fib(10) == 55
"""


@pytest.mark.parametrize(("kind", "code", "tests"), [("unittest", UNITTEST, 3), ("pytest", PYTEST, 7)])
def test_frameworks(verdict, kind, code, tests):
    found = verdict(HONEST, kind=kind, code=code)
    assert (found["passed"], found["stage"], found["detail"]) == (True, "done", "")
    assert found["tests"] >= tests  # 3.12.1 does not count what is skipped
    wrong = verdict(HONEST.replace("fib(n - 1) + fib(n - 2)", "7"), kind=kind, code=code)
    assert (wrong["passed"], wrong["stage"]) == (False, "done")
    assert "fib" in wrong["detail"] or "7" in wrong["detail"]


@pytest.mark.parametrize(
    ("stage", "job"),
    [
        ("compile", {"code": "assert f(3) ==="}),
        ("compile", {"code": "assert f(3) == 6", "setup": "def ("}),
        ("compile", {"kind": "pytest", "code": "def test(:"}),
        ("setup", {"code": "assert f(3) == 6", "setup": "1 / 0"}),
        ("setup", {"code": "assert f(3) == 6", "setup": "import no_such_module"}),
        ("setup", {"code": "def check(candidate): assert candidate(3) == 6"}),
        ("setup", {"code": "assert 1 == 2"}),
        ("setup", {"code": "x = 1"}),
        ("setup", {"kind": "unittest", "code": "import unittest\nassert f(3)"}),
        ("setup", {"kind": "pytest", "code": "from solution import f\nf(3)"}),
        ("setup", {"kind": "pytest", "code": "def test(): pass"}),
        ("setup", {"kind": "checker", "code": "def verify(a, b): return True"}),
        ("argument", {"code": "c = memoryview(b'')\nassert f(c)"}),
        ("argument", {"code": "try: f([memoryview(b'')])\nexcept BaseException: pass"}),
        (
            "argument",
            {"kind": "pytest", "code": "import solution\ndef test(monkeypatch): monkeypatch.setattr(solution, 'f', 1)"},
        ),
    ],
)
def test_faults_of_the_test(verdict, stage, job):
    found = verdict("def f(n): return 2 * n", **job)
    assert (found["stage"], found["passed"]) == (stage, False), found


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test(self): f(1)\nf(1)", False),
        (
            "import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n    def test(self): self.assertEqual(f(1), 2)",
            False,
        ),
        (
            "import unittest\nclass T(unittest.TestCase):\n    def tearDown(self): raise ValueError(f(1))\n    def test(self): pass",
            False,
        ),
        ("import unittest\nclass T(unittest.TestCase):\n    def test(self): f('x' * (f(3) - 6))", True),
    ],
)
def test_unittests_that_do_not_count(verdict, code, passed):
    assert verdict("def f(n): return 2 * n", kind="unittest", code=code)["passed"] is passed


def test_setup_helpers_are_the_tests_own_and_the_entry_point_is_not(verdict):
    setup = "import math\ndef poly(x): return 2 * x\ndef f(n):\n    '''stub'''\ndef twice(n): return f(f(n))\n"
    code = "def check(candidate):\n    assert candidate(3) == poly(3)\n    assert twice(1) == 4\n    assert candidate is f\n"
    assert verdict("def poly(x): return 0\ndef f(n): return 2 * n\n", code=code, setup=setup, entry_point="f")["passed"] is True
    assert verdict("def poly(x): return 0\ndef f(n): return 0\n", code=code, setup=setup, entry_point="f")["passed"] is False


def test_a_function_under_test_may_have_the_name_of_a_builtin(verdict):
    assert verdict("def sum(a, b): return 6", code="assert sum(10, 15) == 6")["passed"] is True
    assert verdict("def sum(a, b): return 7", code="assert sum(10, 15) == 6")["passed"] is False
    assert verdict("def gcd(a, b): return 7", code="assert gcd(12, 8) == 4")["passed"] is False


CHECKER = "def check(stdin, stdout):\n    a, b = map(int, stdout.split())\n    return a + b == int(stdin)"


@pytest.mark.parametrize(
    ("code", "out", "passed"),
    [
        (CHECKER, "1 2", True),
        (CHECKER, "1 3", False),
        (CHECKER, "garbage", False),
        ("def check(stdin, stdout): return (True, 'fine')", "", True),
        ("def check(stdin, stdout): return (False, 'bad')", "", False),
        ("def check(stdin, stdout): return stdout and int(stdout) == 3", "", False),
        ("def check(stdin, stdout):\n    if stdout == '3': return True", "", False),
        ("import re\ndef check(stdin, stdout): return re.match('3', stdout)", "", False),
        ("def check(stdin, stdout): return 1", "", True),
        ("def check(stdin, stdout): raise SystemExit(0)", "", False),
        ("import numpy\ndef check(stdin, stdout): return numpy.bool_(True)", "", True),
        ("import numpy\ndef check(stdin, stdout): return (numpy.int64(1), 'fine')", "", True),
    ],
)
def test_checkers(verdict, code, out, passed):
    found = verdict("", kind="checker", code=code, stdin="3", stdout=out)
    assert (found["stage"], found["passed"]) == ("done", passed), found


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("def check(stdout): return True", True),
        ("def check(a, b): return helper(b)", True),
        ("def check(a, b):\n    import nosuch\n    return True", True),
        ("def check(a, b): return eval(b) == 3", False),  # the name is in the output
        ("def check(a, b): return len(3)", False),
        ("def check(a, b): return int(b) == 3", False),
        ("def check(a, b):\n    if b: x = 1\n    return x.y", False),
    ],
)
def test_a_checker_that_cannot_work_says_nothing_of_the_program(verdict, code, fault):
    found = verdict("", kind="checker", code=code, stdin="3", stdout="nonsense")
    assert found["stage"] == ("setup" if fault else "done") and found["passed"] is False, found


@pytest.mark.parametrize(
    "body", ["return 'yes'", "return 1.0", "return 2", "return (True, 'a', 1)", "return ([0], 'a')", "assert stdout"]
)
def test_what_is_no_verdict_is_no_programs_failure(verdict, body):
    found = verdict("", kind="checker", code=f"def check(stdin, stdout):\n    {body}", stdin="3", stdout="5")
    assert (found["stage"], found["passed"]) == ("setup", False), found
    assert "return True or False" in found["detail"]


def test_output_that_takes_the_checkers_name_is_not_the_checker(verdict):
    code = "def check(stdin, stdout):\n    return eval(stdout) == 24"
    for name in ("<test>", "<setup>"):
        found = verdict("", kind="checker", code=code, stdout=f"eval(compile('zzz', {name!r}, 'eval'))")
        assert (found["stage"], found["passed"]) == ("done", False), found


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_shared(verdict, form):
    form = {**form, "kind": "shared", "form": form["kind"]}
    good = verdict("def f(n): return 2 * n", **form)
    assert (good["stage"], good["passed"], good["detail"]) == ("done", True, "")
    assert verdict("def f(n): return 7", **form)["passed"] is False
    assert verdict("import sys\nsys.exit(0)\ndef f(n): return 2 * n", **form)["stage"] == "candidate"


@pytest.mark.slow
def test_shared_carries_what_cannot_cross(verdict):
    source = "def doubled(view): return 2 * view[0]\n"
    code = "assert doubled(memoryview(bytes([9]))) == 18"
    assert verdict(source, code=code)["stage"] == "argument"
    assert verdict(source, kind="shared", form="assert", code=code)["passed"] is True
