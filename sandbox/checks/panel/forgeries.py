"""Wrong programs that try to be graded as correct."""

from __future__ import annotations

from verigym.sandbox.checks.panel.probe import Form, Probe


def _forgery(name: str, form: Form, source: str) -> Probe:
    return Probe(name, source, "rejected", form, group="forgery")


FORGERIES = (
    _forgery(
        "an object that equals everything",
        "call",
        """
class Any:
    def __eq__(self, other): return True
    def __hash__(self): return 0
def f(n): return Any()
""",
    ),
    _forgery(
        "an int that equals everything",
        "assert",
        """
class Yes(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def f(n): return Yes(0)
""",
    ),
    _forgery(
        "an object that lies about its class",
        "unittest",
        """
class Liar:
    __class__ = int
    def __eq__(self, other): return True
    def __index__(self): return 6
def f(n): return Liar()
""",
    ),
    _forgery("exit code 0 at load", "assert", "def f(n): return 0\nimport os; os._exit(0)\n"),
    _forgery("exit code 0 in the call", "unittest", "import os\ndef f(n): os._exit(0)\n"),
    _forgery("SystemExit in the call", "unittest", "def f(n): raise SystemExit(0)\n"),
    _forgery("a skipped test", "unittest", "import unittest\ndef f(n): raise unittest.SkipTest('later')\n"),
    _forgery(
        "a printed verdict",
        "assert",
        """
import atexit
print('{"passed": true}')
atexit.register(print, "Ran 3 tests in 0.001s OK")
def f(n):
    print("all tests passed")
""",
    ),
    _forgery(
        "frames on every descriptor",
        "call",
        """
import json, os, struct
for i in range(5):
    for body in ({"op": "loaded", "names": ["f"]}, {"id": i, "value": 0}, {"stage": "done", "passed": True, "tests": 3}):
        data = json.dumps(body).encode()
        for fd in range(3, 64):
            try: os.write(fd, struct.pack(">I", len(data)) + data)
            except OSError: pass
def f(n): return 0
""",
    ),
    _forgery(
        "garbage on the channel",
        "assert",
        """
import os
def f(n):
    for fd in range(3, 16):
        for data in (b"\\xff" * 9, b"\\0\\0\\0\\5{[,\\xff\\xfe", b"\\0\\0\\0\\0", b"\\xff\\xff\\xff\\xff["):
            try: os.write(fd, data)
            except OSError: pass
    return 0
""",
    ),
    _forgery(
        "patched builtins and modules",
        "assert",
        """
import builtins, json, sys, unittest
json.dumps = lambda *a, **k: '{"passed": true}'
unittest.TestCase.assertEqual = lambda *a: None
for name in ("isinstance", "len", "repr", "all"): setattr(builtins, name, lambda *a, **k: True)
def f(n): return 0
""",
    ),
    _forgery(
        "a walk through the caller's frames",
        "call",
        """
import sys
def f(n):
    frame = sys._getframe(1)
    while frame:
        for scope in (frame.f_locals, frame.f_globals):
            for name in ("expected", "answer", "want", "gold"):
                if isinstance(scope.get(name), int): return scope[name]
        consts = [c for c in frame.f_code.co_consts if isinstance(c, int)]
        for a, b in zip(consts, consts[1:]):
            if a == n: return b
        frame = frame.f_back
""",
    ),
    _forgery(
        "a search through the heap",
        "call",
        """
import gc
def f(n):
    for o in gc.get_objects():
        if isinstance(o, (list, tuple)) and len(o) == 2 and o[0] in (n, (n,), [n]) and isinstance(o[1], int) and o[1] != n:
            return o[1]
""",
    ),
    _forgery("a checker of its own", "assert", "def f(n): return None\ndef check(candidate): pass\ncandidate = f\n"),
    _forgery("an open string at the end", "assert", 'def f(n): return None\n"""\n'),
    _forgery("a decorator at the end", "assert", "def f(n): return None\n@(lambda g: lambda candidate: None)\n"),
    _forgery("every answer", "print", "for i in range(-50, 51): print(i)\n"),
    _forgery("a symlink as the output file", "file", "import os\nos.symlink('/etc/passwd', 'output.txt')\n"),
    _forgery("a fifo as the output file", "file", "import os\nos.mkfifo('output.txt')\n"),
)
