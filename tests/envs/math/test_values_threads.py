"""The same verdicts from the main thread, 16 threads, forked processes and new interpreters; the global mpmath is untouched."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from python_trees import tree

from verigym.envs.math.equality.values import compare_values

PAIRS = [
    "sqrt(3 + 2*sqrt(2)) | 1 + sqrt(2)",
    "sqrt(3 + 2*sqrt(2)) | 1 + sqrt(3)",
    "sin(x)**2 + cos(x)**2 | 1",
    "sin(1) + cos(1)/factorial(500) | sin(1) + cos(1)/factorial(501)",
    "cos(1/factorial(100)) | cos(1/factorial(101))",
    "pi*sin(1)*e**(1/3) | e**(1/3)*sin(1)*4*arctan(1)",
    "sum(binom(n, k), k, 0, n) | 2**n",
    "F(n - 1)*F(k) | F(k)*F(n)",
    "ln(x*y) | ln(x) + ln(y)",
    "e**(pi*sqrt(163)) | 640320**3 + 744",
    "2**(2**(2**49)) | 3",
    "x**2 - 1 | (x - 1)*(x + 1)",
]


TREES = [tuple(map(tree, pair.split(" | "))) for pair in PAIRS]
"""Made once: CPython's own `ast.parse` fails now and then when threads switch this often."""


def verdicts(_: int = 0) -> list[list[str]]:
    return [list(compare_values(*pair, "seed")) for pair in TREES]


@pytest.mark.slow
def test_sixteen_threads() -> None:
    expected = verdicts()
    assert {verdict for verdict, _ in expected} == {"same", "different", "unknown"}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(16) as pool:
            assert all(found == expected for found in pool.map(verdicts, range(64)))
    finally:
        sys.setswitchinterval(before)


@pytest.mark.slow
def test_a_process_forked_while_another_thread_compares() -> None:
    expected = verdicts()
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            verdicts()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(writing, json.dumps(verdicts()).encode())
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as pipe:
                assert json.loads(pipe.read()) == expected
            os.waitpid(child, 0)
    finally:
        stop.set()
        thread.join()


@pytest.mark.slow
def test_a_pool_of_processes() -> None:
    with multiprocessing.get_context("forkserver").Pool(2) as pool:
        assert pool.map(compare_pair, PAIRS) == [tuple(one) for one in verdicts()]


def compare_pair(pair: str) -> tuple[str, str]:
    return tuple(compare_values(*map(tree, pair.split(" | ")), "seed"))


@pytest.mark.slow
def test_another_interpreter_with_another_hash_seed() -> None:
    code = (
        "import sys, json; sys.path.append(sys.argv[1]); from python_trees import tree;"
        "from verigym.envs.math.equality.values import compare_values;"
        "print(json.dumps([list(compare_values(*map(tree, pair.split(' | ')), 'seed')) for pair in json.loads(sys.argv[2])]));"
        "assert 'sympy' not in sys.modules"
    )
    support = str(Path(__file__).parent.parent / "support")
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", code, support, json.dumps(PAIRS)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        assert json.loads(found.stdout) == verdicts()


def test_mpmath_is_imported_late_and_its_precision_is_left_alone() -> None:
    code = (
        "import sys; from verigym.envs.math.equality.values import approximation, compare_values;"
        "assert 'mpmath' not in sys.modules;"
        "from fractions import Fraction; from verigym.envs.math.tree import Number, Root, Constant, Call;"
        "two = Number(Fraction(2)); compare_values(two, Root(two)); assert 'mpmath' not in sys.modules;"
        "import mpmath; mpmath.mp.dps = 17; compare_values(Constant('pi'), Call('sin', (two,))); approximation(Root(two), 50);"
        "assert mpmath.mp.dps == 17"
    )
    subprocess.run([sys.executable, "-c", code], timeout=600, check=True)
