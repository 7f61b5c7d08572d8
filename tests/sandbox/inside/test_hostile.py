# ruff: noqa: E501, programs are data
"""Programs that want to pass without being right."""

from __future__ import annotations

import pytest

CHECK = "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(10) == 20\n    assert candidate(-4) == -8\n"
AS2X = {"kind": "assert", "code": CHECK, "entry_point": "f"}
PLAIN = {"kind": "assert", "code": "assert f(3) == 6\nassert f(10) == 20\nassert f(-4) == -8\n"}
UT2X = {
    "kind": "unittest",
    "code": "import unittest\nfrom solution import f\nclass T(unittest.TestCase):\n    def test(self):\n"
    "        self.assertEqual(f(3), 6)\n        self.assertEqual(f(10), 20)\n    def test_more(self):\n        self.assertEqual(f(-4), -8)\n",
}
PY2X = {
    "kind": "pytest",
    "code": "import pytest\nfrom solution import f\n@pytest.mark.parametrize('n', [3, 10, -4])\ndef test(n):\n    assert f(n) == 2 * n\n",
}


HOSTILE = {
    "equal to everything": "class A:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n    __hash__ = None\n"
    "def f(n): return A()",
    "claims to be an int": "class A:\n    __class__ = property(lambda s: int)\n    def __eq__(s, o): return True\n"
    "    def __bool__(s): return True\n    def __index__(s): return 6\n    def __int__(s): return 6\ndef f(n): return A()",
    "an int that lies": "class A(int):\n    def __eq__(s, o): return True\n    __hash__ = int.__hash__\ndef f(n): return A(7)",
    "exits at import": "import sys\ndef f(n): return 0\nsys.exit(0)",
    "exits in the call": "def f(n): raise SystemExit(0)",
    "interrupts": "def f(n): raise KeyboardInterrupt",
    "stop iteration": "def f(n): raise StopIteration",
    "generator exit": "def f(n): raise GeneratorExit",
    "a test's own exceptions": "class SkipTest(Exception): pass\nclass Skipped(Exception): pass\nimport unittest\n"
    "def f(n): raise unittest.SkipTest('skip')",
    "dies": "import os\ndef f(n): os._exit(0)",
    "becomes another program": "import os\nos.execv('/bin/true', ['true'])\ndef f(n): pass",
    "answers ahead": "import os, json, struct, stat, threading\ndef f(n): return 0\n"
    "def loop():\n    for number in range(1, 200):\n        m = json.dumps({'id': number, 'value': 6, 'changed': [], 'out': ''}).encode()\n"
    "        for fd in range(3, 256):\n            try:\n                if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, struct.pack('>I', len(m)) + m)\n"
    "            except OSError: pass\nloop()",
    "forged verdict": "import os, json, struct\nm = json.dumps({'stage': 'done', 'passed': True, 'detail': '', 'tests': 3}).encode()\n"
    "for fd in range(3, 256):\n    try: os.write(fd, struct.pack('>I', len(m)) + m)\n    except OSError: pass\ndef f(n): return 0",
    "hidden builtins": "abs = len = min = isinstance = all = print = lambda *a, **k: True\nunittest = pytest = object()\ndef f(n): return 0",
    "replaces the tests": "class T: pass\ndef test(n=0): pass\ndef check(c): pass\ndef f(n): return 0",
    "conftest": "import pathlib\npathlib.Path('conftest.py').write_text('import pytest\\nraise pytest.exit(0)')\ndef f(n): return 0",
    "excepthook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\ndef f(n): return None",
    "does not define it": "def g(n): return 2 * n",
    "evil exception": "class E(Exception):\n    def __str__(s): raise SystemExit\n    args = property(lambda s: 1 / 0)\ndef f(n): raise E()",
    # The second answer comes while the next call waits, however busy the machine is.
    "two answers": "import os, time\ncalls = []\ndef f(n):\n    calls.append(n)\n    if len(calls) > 1: time.sleep(1)\n"
    "    elif os.fork():\n        time.sleep(0.5)\n        return 6\n    return 20",
    "hangs up": "import os\ndef f(n): os.closerange(3, 256); return 2 * n",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.slow
def test_hostile_programs_do_not_pass(verdict, name):
    for form in (AS2X, UT2X, PY2X) if name in ("a test's own exceptions", "hidden builtins", "conftest") else (PLAIN, UT2X):
        found = verdict(HOSTILE[name], **form)
        assert found["passed"] is False
        assert found["stage"] in ("done", "candidate"), found


SWALLOW = "try:\n    f(3)\nexcept BaseException:\n    pass\n"


@pytest.mark.parametrize(
    "name", ["dies", "becomes another program", "forged verdict", "answers ahead", "exits at import", "two answers", "hangs up"]
)
def test_a_lost_candidate_fails_whatever_the_test_swallows(verdict, name):
    found = verdict(HOSTILE[name], code=SWALLOW * 3)
    assert (found["stage"], found["passed"]) == ("candidate", False), found


def test_stop_iteration_does_not_end_the_tests_loop(verdict):
    code = "assert all(map(lambda case: f(case[0]) == case[1], [(3, 6), (4, 8)]))"
    assert verdict("def f(n): raise StopIteration", code=code)["passed"] is False
    assert verdict("def f(n): return 2 * n", code=code)["passed"] is True


def test_names_of_the_test_are_never_the_candidates(verdict):
    source = "class Any:\n    def __eq__(s, o): return True\n    def __getattr__(s, n): return lambda *a: True\n"
    source += "math = unittest = Any()\ndef abs(x): return 0\ndef isclose(a, b): return True\ndef helper(x): return x\ndef f(n): return 1\n"
    for code in (
        "assert abs(f(3) - 6) < 1e-9",
        "assert math.isclose(f(3), 6)",
        "from solution import *\nassert abs(f(3) - 6) < 1e-9",
        "from math import isclose\nfrom solution import *\nassert isclose(f(3), 6)",
        "import math\nfrom solution import *\nassert math.isclose(f(3), 6)",
        "from solution import *\nassert helper(f(3)) == 6",
    ):
        found = verdict(source, code=code, setup="def helper(x): return x + 0\n")
        assert (found["stage"], found["passed"]) == ("done", False), code
        assert "Error" in found["detail"], found


LIAR = """
class Liar:
    def __eq__(self, o): return True
    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = __eq__
    def __hash__(self): return 1
    def __len__(self): return 1
    def __getattr__(self, name): return lambda *a, **k: True
    def __sub__(self, o): return 0
    __rsub__ = __sub__
    def __iter__(self): return iter([])
    def __int__(self): return 5
    __index__ = __int__
    def __float__(self): return 5.0
    def __str__(self): return "6!"
    def __call__(self, *a): return self
def f(*a): return Liar()
class g(Liar):
    def __init__(self, *a): pass
"""


@pytest.mark.parametrize(
    "claim",
    [
        "{}(3) == 6",
        "6 == {}(3)",
        "not ({}(3) != 6)",
        "{}(3) in (6, 7)",
        "{}(3) in {{6}}",
        "6 in {}(3)",
        "5 < {}(3) < 7",
        "abs({}(3) - 6) < 1",
        "[{}(3)] == [6]",
        "{{1: {}(3)}} == {{1: 6}}",
        "isinstance({}(3), int)",
        "{}(3).startswith('6')",
        "{}(3).issubset([6])",
        "{}(3).count(6)",
        "int({}(3)) == 6",
        "str({}(3)) == '6'",
        "list({}(3)) == [6]",
        "not {}(3)",
        "math.isclose({}(3), 6)",
        "{}(3) is True",
        "{}(3) is None",
        "range(7)[{}(3)] == 6",
    ],
)
def test_an_object_that_lies_gains_nothing(verdict, claim):
    for name in "fg":
        found = verdict(LIAR, code=f"import math\nassert {claim.format(name, name)}")
        assert found["passed"] is False, (claim, name)
        assert found["stage"] in ("done", "candidate")


@pytest.mark.slow
def test_an_enumeration_cannot_change_its_members_after_the_answer(verdict):
    source = """
import enum
class Color(enum.Enum): RED = 1; BLUE = 2
class Meta(type):
    def __getattribute__(cls, name): return LAST[0] if name == "RED" else type.__getattribute__(cls, name)
class Fake(metaclass=Meta): pass
LAST = [0]
class Any: pass
def f(): LAST[0] = Any(); return LAST[0]
"""
    assert verdict(source, code="from solution import Color\nassert f() == Color.RED")["passed"] is False
