# ruff: noqa: E501, programs are data
"""No program goes without a verdict: forms that once did, and a part of the fuzzer. Tests that are broken still have none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from verigym.envs import load

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sandbox/fuzz"))

import blame

LIMITS = {"wall_s": 60, "cpu_s": 5, "memory_mb": 256}
KILL = "import os\ndef f(n): os.kill(os.getpid(), 9)"
FORGE = (
    "import sys\nframe = sys._getframe()\nwhile 'TestFault' not in frame.f_globals: frame = frame.f_back\n"
    "Fault = frame.f_globals['TestFault']\ndef f(n): raise Fault('no')"
)
CASES = "import unittest\nfrom solution import f\nfor n in f(3):\n    T = type('T', (unittest.TestCase,), {'test': lambda self: None})"


def scored(program: str, code: str, kind: str = "assert", setup: str = "", **policy: Any) -> float | None:
    env = load("code", extract="all", parallel=1)
    test = {"type": kind, "code": code, **({"stdin": ""} if kind == "checker" else {})}
    return env.score(env.prompt("?", tests=[test], setup=setup, policy=policy, limits=LIMITS), program).reward


@pytest.mark.parametrize(
    ("program", "test"),
    [
        ("x = 1", {"code": "assert HELD == 4", "setup": "HELD = f(2)"}),
        ("class A:\n    def __call__(s): pass\ndef f(n): return A()", {"code": "check = f(3)\nassert check == 6"}),
        (KILL, {"code": "assert f(3) == 6", "trust": "shared"}),
        (FORGE, {"code": "assert f(3) == 6", "trust": "shared"}),
        ("def f(h): return h(1) if callable(h) else 0", {"code": "assert f(lambda x: f(memoryview(b''))) == 3"}),
        ("def f(n): return [1]", {"code": "assert sorted(f(1), key=lambda x: f(memoryview(b''))) == []"}),
        ("def f(n): return [1]", {"code": "def g(x): return f(memoryview(b''))\nassert list(map(g, f(1))) == []"}),
        ("import numpy as np\ndef f(n): return np.array([1])", {"code": "v = f(1)\nassert f(v.data) == 3"}),
        ("import datetime\ndef f(n): return datetime.date(1, 1, 1)", {"code": "v = f(1)\nassert f(type(v)) == 3"}),
        (
            "def g(n): return 1",
            {"code": "import solution\nif not hasattr(solution, 'f'):\n    solution.g(memoryview(b''))\nassert f(1)"},
        ),
        ("def f(n): return []", {"code": CASES, "kind": "unittest"}),
        (
            "def f(n): return 3",
            {
                "code": "from solution import f\ndef test():\n    v = f(1)\n    if v != 2:\n        f(memoryview(b''))\n    assert v == 2",
                "kind": "pytest",
            },
        ),
        (
            "def f(n): return 3",
            {"code": "from solution import f\nif f(1) == 2:\n    def test(): assert f(2)", "kind": "pytest"},
        ),
        ("def f(n): return 3", {"code": "v = 1 if f(1) == 2 else memoryview(b'')\nassert f(v) == 2"}),
        ("def f(n): return 3", {"code": "xs = []\nif f(1) != 2:\n    xs.append(memoryview(b''))\nassert f(xs) == 2"}),
        (
            "print(3)",
            {
                "code": "def check(stdin, stdout):\n    if stdout == '5':\n        return True\n    raise no_error",
                "kind": "checker",
            },
        ),
        ("print(3)", {"code": "def check(stdin, stdout):\n    if stdout != '5':\n        raise no_error", "kind": "checker"}),
    ],
    ids=range(17),
)
def test_what_a_program_brings_about_is_its_failure(program: str, test: dict[str, Any]) -> None:
    assert scored(program, **test) == 0


@pytest.mark.parametrize(
    "test",
    [
        {"code": "assert f(memoryview(b'')) == 3"},
        {"code": "assert f(1) == 3\nassert f(memoryview(b'')) == 3"},
        {"code": "assert f(1) == 3\nassert f(open('/dev/null')) == 3"},
        {"code": "def g(x):\n    return f(memoryview(b''))\ny = f(1)\nassert g(y) == 3"},
        {"code": "assert f(1) == 3", "setup": "import no_module_of_this_name"},
        {"code": "def check(candidate):\n    assert candidate(3) == 3"},
        {"code": "def check(candidate):\n    assert candidate(3) == 3", "trust": "shared"},
        {"code": "assert f(3) ==", "trust": "shared"},
        {"code": "import unittest\nfrom solution import f\n", "kind": "unittest"},
        {"code": "from solution import f\n", "kind": "pytest"},
        {"code": "from solution import f\ndef test():\n    assert f(1) == 3\n    f(memoryview(b''))", "kind": "pytest"},
        {"code": "def check(stdin, stdout):\n    return nothing(stdout)", "kind": "checker"},
    ],
    ids=range(12),
)
def test_a_test_that_is_broken_for_every_program_gives_no_verdict(test: dict[str, Any]) -> None:
    assert scored("def f(n): return 3", **test) is None


UNBOUND_FOR_SOME_OUTPUTS = {
    "after an exception": "try:\n        a, b = map(int, stdout.split())\n    except ValueError:\n        pass\n    f = lambda: a * b\n"
    "    return f() == 91",
    "in a loop": "for line in stdout.splitlines():\n        row = line.split()\n    def ok():\n        return '91' in row\n    return ok()",
    "global": "for line in stdout.split():\n        keep(line)\n    return last == '91'\ndef keep(line):\n    global last\n    last = line",
    "imported": "x = __import__(stdout.strip() or 'none')\n    return x is None",
}


@pytest.mark.parametrize("name", UNBOUND_FOR_SOME_OUTPUTS)
def test_a_name_that_is_missing_for_some_outputs_only_is_the_program_s_doing(name: str) -> None:
    checker = {"kind": "checker", "code": f"def check(stdin, stdout):\n    {UNBOUND_FOR_SOME_OUTPUTS[name]}"}
    assert scored("pass", **checker) == 0.0
    if name != "imported":
        assert scored("print(7, 13)" if name == "after an exception" else "print(91)", **checker) == 1.0


@pytest.mark.slow
def test_every_drawn_program_has_a_verdict() -> None:
    done, without, statuses = blame.run("suite", range(10_000), seconds=8)
    assert without == []
    assert done > 20 and len(statuses) > 1
