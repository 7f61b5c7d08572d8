# ruff: noqa: E501, programs are data
"""What a wall lets through: values of a program against what tests claim of them, here and in plain Python.

    python tests/sandbox/fuzz/comparisons.py --pairs 200000 --seed 0

Must hold: a claim that is accepted here is accepted by plain Python with the same program and test; and what claims equality is
never accepted of an object of the program's, nor of what has no elements, which plain Python may be fooled by.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inside"))

SITE = next(path for path in sys.path if path.endswith("site-packages"))

PLAIN = (
    "None True False 0 -1 1.5 float('nan') float('inf') -float('inf') -0.0 1j complex('nan') '' 'x' 'abc' b'' b'x' 10**400 "
    "range(0) range(3) slice(None) ... int float bool str list dict len all any max sorted D('NaN') D('0') D('Infinity') F(1,2) F(0) "
    "timedelta(0) np.float64(2) np.array(float('nan')) np.array([float('nan')]) np.array(['x']) np.array([True]) "
    "np.array([1.5,2.5]) np.array([0],dtype='m8[s]') np.datetime64('NaT') np.array(['NaT'],dtype='M8[s]') np.array([None]) {1:2} {'a':1.5} "
    "[1,2] (1,2) {1,2} frozenset({1}) deque([1]) Counter('ab') [float('nan')] [None] [True] ['']"
).split()
NOTHING = (
    "[] () {} set() frozenset() deque() range(0) bytearray() [range(0)] [[]] [[[]]] [()] ([],) [[],[]] np.array([]) np.zeros((0,1)) np.zeros((1,0)) np.zeros((0,0)) "
    "np.zeros((0,1,1)) np.array([],dtype=object) np.array([],dtype=bool) [np.zeros((0,1))] ([np.zeros((0,))],) [[np.zeros((0,1))]] "
    "{}.keys() {}.values() iter([])"
).split()
OBJECTS = (
    "It([]) It([[]]) It([[],[]]) It([None]) It([float('nan')]) It([np.zeros((0,1))]) It([It([])]) Empty() Map({}) Map({0:[]}) Liar() Liar "
    "E.A E Yes() Call() Same() Named(5.25) [It([[]])] [It([])] (It([[]]),) {'a':It([[]])} [Liar()] {0:Liar()} [Yes()] np.array([It([])],dtype=object) "
    "Ctx() Seq() Neg() Text() Arr() Arr2() Hash() Rich() lambda:Liar() [Rich()] Sub() [Sub()]"
).split()
PREAMBLE = r"""
import collections, datetime, decimal, enum, fractions, itertools, types
from collections import Counter, deque
from datetime import timedelta
import numpy as np
D, F = decimal.Decimal, fractions.Fraction
class It:
    def __init__(s, items): s.items = items
    def __iter__(s): return iter(s.items)
class Empty: pass
class Map:
    def __init__(s, d): s.d = d
    def keys(s): return s.d.keys()
    def __getitem__(s, k): return s.d[k]
class E(enum.Enum): A = 1
class Liar:
    def __eq__(s, o): return True
    def __ne__(s, o): return False
    def __lt__(s, o): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(s): return 1
    def __len__(s): return 3
    def __getattr__(s, n):
        if n[:2] == "__": raise AttributeError(n)
        return lambda *a, **k: True
    def __sub__(s, o): return 0
    __rsub__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __mul__ = __rmul__ = __sub__
    def __add__(s, o): return o
    __radd__ = __add__
    def __abs__(s): return 0
    def __round__(s, n=0): return 0
    def __iter__(s): return iter([])
    def __getitem__(s, k): return k
    def __bool__(s): return True
    def __call__(s, *a): return s
    def __str__(s): return "abc"
class Yes:
    def __eq__(s, o): return True
    __hash__ = None
class Same:
    def __sub__(s, o): return Zero()
    __rsub__ = __sub__
class Zero:
    def __abs__(s): return 0
    def __lt__(s, o): return True
    __le__ = __lt__
    def __bool__(s): return False
class Call:
    def __call__(s, *a): return True
class Named:
    def __init__(s, x): s.y = x
class Ctx:
    def __enter__(s): return True
    def __exit__(s, *a): return True
class Seq:
    def __len__(s): return 1
    def __getitem__(s, i):
        if i: raise IndexError
        return []
class Neg:
    def __neg__(s): return 0
    def __invert__(s): return 0
    def __pos__(s): return 0
class Text:
    def __str__(s): return "xyz!"
    __repr__ = __str__
    def __format__(s, spec): return ""
class Arr:
    shape = (0, 1); dtype = np.dtype(float); ndim = 2; size = 0
    def __array__(s, *a, **k): return np.zeros((0, 1))
class Arr2:
    __array_priority__ = 1e9
    def __array_ufunc__(s, *a, **k): return True
    def __array_function__(s, *a, **k): return True
    def __array__(s, *a, **k): return np.zeros((0, 1))
class Hash:
    def __hash__(s): return hash(5.25)
    def __eq__(s, o): return True
class Rich:
    def __lt__(s, o): return False
    __gt__ = __le__ = __ge__ = __lt__
    def __rsub__(s, o): return 0
    __sub__ = __rsub__
class Sub(list):
    def __eq__(s, o): return True
    def __len__(s): return 2
    def __iter__(s): return iter([9, 8])
def report(text):
    with open("accepted.json", "w") as file: file.write(text)
"""
IMPORTS = r"""
import collections, copy, json, math, operator, statistics, unittest, warnings
import numpy as np
from pytest import approx
warnings.simplefilter("ignore")
T = unittest.TestCase()
A = np.array
"""
SCALARS, LISTS, MATRICES, STRINGS, DICTS = (
    "[5.25, 7, -3.5]",
    "[[1.5, 2.5, 3.5], [4, 5, 6], [5.25]]",
    "[[[1.5, 2.5], [3.5, 4.5]]]",
    "['xyz', 'abcd']",
    "[{'a': 3.5, 'b': 2.5}]",
)
EQUALITY = {
    # Every claim says that v is e; v never is.
    SCALARS: """v == e | e == v | not v != e | not e != v | abs(v - e) < 1e-6 | abs(e - v) <= 1e-6 | abs(v - e) / abs(e) < 1e-6 | -1e-6 < v - e < 1e-6
        math.isclose(v, e) | math.isclose(e, v) | round(v, 2) == round(e, 2) | round(abs(v - e), 7) == 0 | v == approx(e) | approx(e) == v | not v - e
        e - 1e-6 <= v <= e + 1e-6 | np.isclose(v, e) | np.allclose(v, e) | np.allclose(e, v) | np.allclose(v, e, equal_nan=True) | np.all(np.isclose(v, e))
        (A(v) == e).all() | np.testing.assert_allclose(v, e) is None | np.testing.assert_equal(v, e) is None | np.testing.assert_almost_equal(v, e) is None
        np.testing.assert_approx_equal(v, e) is None | T.assertEqual(v, e) is None | T.assertEqual(e, v) is None | T.assertAlmostEqual(v, e) is None
        T.assertAlmostEqual(v, e, delta=1e-6) is None | T.assertTrue(v == e) is None | T.assertFalse(v != e) is None | v in [e, 99.5] | e in [v] | v in {e}
        isinstance(v, (int, float)) and abs(v - e) < 1e-6 | float(v) == e | int(v) == int(e) | str(v) == str(e) | repr(v) == repr(e) | f'{v}' == f'{e}'
        json.dumps(v) == json.dumps(e) | operator.eq(v, e) | operator.sub(v, e) == 0 | np.subtract(v, e) == 0 | np.equal(v, e) | np.float64(e) == v
        statistics.mean([v]) == e | sum([v]) == e | max(v, e) == min(v, e) | np.array_equal(v, e) | np.abs(v - e) < 1e-6 | (np.abs(np.asarray(v) - e) < 1e-6).all()
        T.assertAlmostEquals(v, e) is None | np.max(np.abs(np.subtract(v, e))) < 1e-6 | hash(v) == hash(e) and v == e | {v: 1}.get(e) == 1 | v.x == e | v.value == e""",
    LISTS: """v == e | e == v | not v != e | v == approx(e) | approx(e) == v | v == approx(A(e)) | np.allclose(v, e) | np.allclose(e, v) | np.isclose(v, e).all()
        np.all(np.isclose(v, e)) | all(np.isclose(v, e)) | np.array_equal(v, e) | np.array_equiv(v, e) | (v == A(e)).all() | (A(e) == v).all() | np.all(v == A(e))
        all(v == A(e)) | (A(v) == A(e)).all() | not np.any(v != A(e)) | not (v != A(e)).any() | np.linalg.norm(v - A(e)) < 1e-6 | np.linalg.norm(A(v) - A(e)) < 1e-6
        ((v - A(e)) ** 2).sum() < 1e-6 | np.max(np.abs(v - A(e))) < 1e-6 | np.all(np.abs(v - A(e)) < 1e-6) | (np.abs(v - A(e)) < 1e-6).all() | np.mean(np.abs(v - A(e))) < 1e-6
        not (np.abs(v - A(e)) > 1e-6).any() | np.sum(np.abs(A(v) - A(e))) < 1e-6 | np.testing.assert_allclose(v, e) is None | np.testing.assert_allclose(e, v) is None
        np.testing.assert_array_equal(v, e) is None | np.testing.assert_equal(v, e) is None | np.testing.assert_array_almost_equal(v, e) is None
        np.testing.assert_array_almost_equal_nulp(v, A(e)) is None | np.testing.assert_array_max_ulp(v, A(e)) is None | T.assertEqual(v, e) is None
        T.assertListEqual(v, e) is None | T.assertSequenceEqual(v, e) is None | T.assertCountEqual(v, e) is None | sorted(v) == sorted(e) | list(v) == e | tuple(v) == tuple(e)
        set(v) == set(e) | collections.Counter(v) == collections.Counter(e) | len(v) == len(e) and all(abs(a - b) < 1e-6 for a, b in zip(v, e))
        len(v) == len(e) and all(a in e for a in v) | all(a in v for a in e) | sum(v) == sum(e) | v.tolist() == e | all(v[i] == e[i] for i in range(len(e)))
        all(v[i] == approx(e[i]) for i in range(len(e))) | v[0] == e[0] and v[-1] == e[-1] | copy.deepcopy(v) == e | np.asarray(v).tolist() == e | v[:] == e
        np.equal(v, e).all() | np.subtract(v, e).any() == False | np.asarray(v).shape == A(e).shape and np.allclose(v, e) | [*v] == e | dict(enumerate(v)) == dict(enumerate(e))
        np.array_equal(np.sort(v), np.sort(e)) | np.cumsum(v).tolist() == np.cumsum(e).tolist() | max(v) == max(e) and min(v) == min(e) | ''.join(map(str, v)) == ''.join(map(str, e))""",
    MATRICES: """v == e | np.allclose(v, e) | (A(v) == A(e)).all() | (v == A(e)).all() | np.linalg.norm(v - A(e)) < 1e-6 | np.testing.assert_allclose(v, e) is None
        all(np.allclose(a, b) for a, b in zip(v, e, strict=True)) | v == approx(A(e)) | [list(r) for r in v] == e | np.array_equal(v, e) | not np.any(A(v) != A(e))
        np.abs(A(v) - A(e)).max() < 1e-6 | np.allclose(np.asarray(v).ravel(), np.ravel(e)) | all(v[i][j] == e[i][j] for i in range(2) for j in range(2))""",
    STRINGS: """v == e | v.strip() == e | v.lower() == e.lower() | e in v | v.startswith(e) | v.endswith(e) | T.assertEqual(v, e) is None | T.assertIn(e, v) is None | str(v) == str(e)
        v.split() == e.split() | T.assertMultiLineEqual(v, e) is None | ''.join(v) == e | v.replace(' ', '') == e | v.count(e) == 1 | v.find(e) == 0 | v[::-1] == e[::-1] | sorted(v) == sorted(e)
        len(v) == len(e) and all(a == b for a, b in zip(v, e)) | '%s' % v == e | f'{v}' == e | v.encode() == e.encode() | T.assertRegex(v, e) is None | e == ''.join(v)""",
    DICTS: """v == e | v == approx(e) | T.assertDictEqual(v, e) is None | dict(v) == e | v.items() == e.items() | sorted(v.items()) == sorted(e.items()) | v['a'] == e['a']
        all(v[k] == e[k] for k in e) | v.get('a') == 3.5 | {**v} == e | set(v) == set(e) and all(abs(v[k] - e[k]) < 1e-9 for k in e) | v.a == 3.5 | list(v.values()) == list(e.values())""",
}
OTHER = """callable(v) | isinstance(v, collections.abc.Iterator) | isinstance(v, collections.abc.Iterable) | isinstance(v, collections.abc.Sized) | isinstance(v, collections.abc.Hashable)
    isinstance(v, collections.abc.Container) | isinstance(v, collections.abc.Mapping) | isinstance(v, collections.abc.Sequence) | hasattr(v, '__len__') | hasattr(v, '__iter__')
    hasattr(v, '__next__') | hasattr(v, '__enter__') | hasattr(v, '__call__') | hasattr(v, '__getitem__') | hasattr(v, '__contains__') | hasattr(v, 'append') | bool(v) | not v | v is None
    isinstance(v, str) | isinstance(v, (int, float)) | isinstance(v, list) | isinstance(v, tuple) | isinstance(v, dict) | isinstance(v, np.ndarray) | len(v) == 0 | len(v) > 0 | v
    isinstance(v, bool) | type(v) is int | type(v) is str | isinstance(v, collections.abc.Callable) | v > 0 | v >= 0 | v < 100 | -v == 0 | ~v == 0 | abs(v) == 0 | v + v | v * 2 | v % 2 == 0
    iter(v) is v | next(v) | list(v) == [] | v == v | v != v | v() | v(1) | v[0] | v[0:1] | v.name == 'A' | with_(v) | hash(v) == hash(v) | v in [v] | [v] == [v] | json.dumps(v) | copy.copy(v) == v
    T.assertTrue(v) is None | T.assertFalse(v) is None | T.assertIsNone(v) is None | T.assertIsInstance(v, list) is None | T.assertGreater(v, 0) is None | T.assertLess(v, 100) is None
    T.assertIn(1, v) is None | 1 in v | all(v) | any(v) | sum(v) == 0 | max(v) >= 0 | sorted(v) == list(v) | set(v) <= {1, 2, 3} | np.all(v) | np.isfinite(v) | v == T | v is v"""


@dataclass(frozen=True)
class Claim:
    """One claim of a test: an expression over `v`, what the program gave, and `e`, what is expected."""

    text: str
    expected: str
    is_equality: bool


def claims() -> list[Claim]:
    """All claims."""
    split = lambda text: [part.strip() for line in text.splitlines() for part in line.split(" | ") if part.strip()]  # noqa: E731
    found = [Claim(text, expected, True) for expected, texts in EQUALITY.items() for text in split(texts)]
    return found + [Claim(text, "[0]", False) for text in split(OTHER)]


def values(seed: str, count: int) -> list[tuple[str, bool]]:
    """Values as expressions, and whether what claims equality of one must never be accepted: all of the lists, then made-up ones."""
    rng = random.Random(hashlib.sha256(seed.encode()).digest())
    found = [(text, False) for text in PLAIN] + [(text, True) for text in (*NOTHING, *OBJECTS)]
    shapes = [
        "[{a}]",
        "({a},)",
        "[{a}, {b}]",
        "{{0: {a}}}",
        "It([{a}, {b}])",
        "[[{a}], [{b}]]",
        "Map({{'a': {a}}})",
        "iter([{a}])",
        "({a}, {b})",
        "Named({a})",
    ]
    while len(found) < count:
        (first, one), (second, two) = rng.choice(found[:160]), rng.choice(found[:160])
        shape = rng.choice(shapes)
        found.append((shape.format(a=first, b=second), shape[:2] in ("It", "Ma", "Na") or (one and two)))
    return rng.sample(found, len(found))


def _program(texts: list[str]) -> str:
    made = ",\n    ".join(f"lambda: {text}" for text in texts)
    return f"{PREAMBLE}\nMADE = [\n    {made}\n]\ndef f(i): return MADE[i]()\n"


def _test(found: list[Claim], count: int) -> str:
    lines = ",\n    ".join(f"(lambda v, e: {claim.text}, {claim.expected})" for claim in found)
    return f"""{IMPORTS}
from solution import f, report
def with_(v):
    with v as x: return x
CLAIMS = [
    {lines}
]
accepted = []
for i in range({count}):
    for c, (claim, expected) in enumerate(CLAIMS):
        for n, e in enumerate(expected):
            try:
                if claim(f(i), e): accepted.append([i, c, n])
            except Exception: pass
report(json.dumps(accepted))
"""


def accepted_plainly(folder: Path, program: str, test: str) -> set[tuple[int, ...]]:
    """What plain Python accepts."""
    folder.mkdir()
    (folder / "solution.py").write_text(program)
    (folder / "main.py").write_text(test)
    subprocess.run(
        [sys.executable, "main.py"], cwd=folder, check=True, timeout=3600, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    return {tuple(row) for row in json.loads((folder / "accepted.json").read_text())}


def accepted_here(folder: Path, program: str, test: str) -> set[tuple[int, ...]]:
    """What the test accepts with the program in another process."""
    from conftest import Candidate, start

    from verigym.sandbox.inside.wire import frames

    made = Candidate(folder / "candidate", program)
    made.sock.setblocking(True)
    (folder / "test").mkdir()
    control, theirs = socket.socketpair()
    control.settimeout(3600)
    job = {"kind": "assert", "code": test, "setup": "", "entry_point": None, "module": "solution"}
    with control, theirs:
        process = start(
            f"harness.serve_tests({theirs.fileno()}, {made.sock.fileno()})",
            folder / "test",
            (theirs.fileno(), made.sock.fileno()),
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        frames.send(control, job)
        try:
            answer = frames.receive(control)
            if answer.get("stage") == "ready":
                answer = frames.receive(control)
        finally:
            process.kill()
            process.wait()
            made.close()
    report = folder / "candidate" / "accepted.json"
    if not report.exists():
        raise AssertionError(f"the test did not end: {answer}")
    return {tuple(row) for row in json.loads(report.read_text())}


def crossing(texts: list[str]) -> list[bool]:
    """Whether each value can be sent at all: what cannot ends the test as the program's failure."""
    from verigym.sandbox.inside.candidate.objects import ObjectTable
    from verigym.sandbox.inside.wire.encoding import CannotCross, encode

    scope: dict[str, object] = {"__name__": "solution"}
    exec(_program(texts), scope)  # noqa: S102, our own program
    found = []
    for index in range(len(texts)):
        objects = ObjectTable("solution")
        try:
            encode(scope["f"](index), objects.encode)  # type: ignore[operator]
            for held in objects.held:  # items are sent when the test asks for them
                if hasattr(type(held), "__iter__"):
                    encode(list(itertools.islice(iter(held), 1000)), objects.encode)
                encode(getattr(held, "__dict__", {}), objects.encode)  # attributes, when it asks for one
            found.append(True)
        except CannotCross:
            found.append(False)
        except Exception:  # noqa: BLE001, what the expression itself raises, the program raises
            found.append(True)
    return found


def run(seed: str, count: int, of: int = 1) -> tuple[int, list[str], list[str]]:
    """Compare the table's values and `count` that are drawn under all claims, or under one of `of`.

    Returns:
        The number of pairs, what is accepted here and not by plain Python, and equalities accepted that never may be.
    """
    chosen, asked = values(seed, count), claims()[::of]
    chosen = [value for value, crosses in zip(chosen, crossing([text for text, _ in chosen]), strict=True) if crosses]
    program, test = _program([text for text, _ in chosen]), _test(asked, len(chosen))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        os.chmod(folder, 0o755)
        plainly = accepted_plainly(folder / "plain", program, test)
        here = accepted_here(folder, program, test)
    said = lambda row: f"{asked[row[1]].text}   with v = {chosen[row[0]][0]}, e number {row[2]}"  # noqa: E731
    beyond = [said(row) for row in sorted(here - plainly)]
    fooled = [said(row) for row in sorted(here) if asked[row[1]].is_equality and chosen[row[0]][1]]
    pairs = len(chosen) * sum(len(json.loads(claim.expected.replace("'", '"'))) for claim in asked)
    return pairs, beyond, fooled


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    total, batch, bad = 0, 0, 0
    while total < options.pairs:
        pairs, beyond, fooled = run(f"{options.seed}-{batch}", 200)
        total, batch, bad = total + pairs, batch + 1, bad + len(beyond) + len(fooled)
        for what, rows in (("beyond plain Python", beyond), ("equal to what it is not", fooled)):
            for row in rows:
                print(f"{what}: {row}", flush=True)
    print(f"{total} pairs, {bad} accepted that must not be")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
