import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from cpu_time import within
from symbolic_cpu import workers_cpu_s

from verigym.envs import EnvironmentFailure
from verigym.envs.isolated import client
from verigym.envs.math.reading.parse import parse
from verigym.envs.math.symbolic import client as symbolic_client
from verigym.envs.math.symbolic import wire
from verigym.envs.math.symbolic.client import symbolic_equal
from verigym.envs.math.tree import Add, Call, Constant, Mul, Neg, Node, Number, Pow, Quantity, Root, Symbol


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    client.close()


SAME = [
    # polynomials and fractions
    ("(x+1)^2", "x^2+2x+1"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\frac{1}{x}+\frac{1}{y}", r"\frac{x+y}{xy}"),
    ("x^{a+b}", "x^a x^b"),
    ("4^x", "2^{2x}"),
    # radicals
    (r"\sqrt{5+2\sqrt6}", r"\sqrt2+\sqrt3"),
    (r"\frac{1}{\sqrt2+1}", r"\sqrt2-1"),
    (r"\sqrt[3]{2+\sqrt5}+\sqrt[3]{2-\sqrt5}", "1"),
    (r"\sqrt[3]{-8}", "-2"),
    (r"(-8)^{1/3}", "-2"),
    (r"\sqrt[3]{x}", "x^{1/3}"),
    (r"\sqrt{x^2}", "|x|"),
    (r"\sqrt{x}\sqrt{y}", r"\sqrt{xy}"),
    (r"\frac{\sqrt{6}-\sqrt{2}}{4}", r"\frac{\sqrt{2-\sqrt3}}{2}"),
    # trigonometry and hyperbolic functions
    (r"\sin^2 x+\cos^2 x", "1"),
    (r"\tan^2 y+1", r"\sec^2 y"),
    (r"\sin 2x", r"2\sin x\cos x"),
    (r"\frac{1-\cos x}{2}", r"\sin^2\frac{x}{2}"),
    (r"\cos\frac{\pi}{7}-\cos\frac{2\pi}{7}+\cos\frac{3\pi}{7}", r"\frac12"),
    (r"\sin 75^\circ", r"\frac{\sqrt6+\sqrt2}{4}"),
    (r"\cosh^2 x-\sinh^2 x", "1"),
    (r"\cosh x", r"\frac{e^x+e^{-x}}{2}"),
    (r"\arctan\frac12+\arctan\frac13", r"\frac{\pi}{4}"),
    (r"\arcsin\frac35", r"\arccos\frac45"),
    # logarithms
    (r"\ln 6", r"\ln 2+\ln 3"),
    (r"\log_2 8", "3"),
    (r"\log_4 3", r"\frac{\ln 3}{2\ln 2}"),
    (r"\ln x^2", r"2\ln|x|"),
    (r"\ln(2+\sqrt3)", r"-\ln(2-\sqrt3)"),
    # complex numbers
    (r"e^{i\pi}", "-1"),
    (r"(1+i)^4", "-4"),
    (r"|z|^2", r"z\overline{z}"),
    # whole numbers
    (r"\binom{n}{2}", r"\frac{n(n-1)}{2}"),
    (r"\frac{(n+1)!}{n!}", "n+1"),
    (r"(-1)^n", r"\cos n\pi"),
    (r"\gcd(12,18)", "6"),
    # limits, sums, integrals, derivatives
    (r"\lim_{x\to0}\frac{\sin x}{x}", "1"),
    (r"\lim_{n\to\infty}\left(1+\frac1n\right)^n", "e"),
    (r"\int_{0}^{1}\frac{1}{1+x^2}\,dx", r"\frac{\pi}{4}"),
    (r"\int_{0}^{t} x^2\,dx", r"\frac{t^3}{3}"),
    (r"\sum_{k=1}^{n}k", r"\frac{n(n+1)}{2}"),
    (r"\sum_{k=1}^{\infty}\frac{1}{k^2}", r"\frac{\pi^2}{6}"),
    (r"\sum_{k=0}^{\infty}x^k", r"\frac{1}{1-x}"),
    (r"\prod_{k=1}^{5}k", "120"),
    # matrices, infinity
    (r"\det\begin{pmatrix}1&2\\3&4\end{pmatrix}", "-2"),
    (r"\begin{pmatrix}(x+1)^2&0\\1&2\end{pmatrix}", r"\begin{pmatrix}x^2+2x+1&0\\1&2\end{pmatrix}"),
    (r"\begin{pmatrix}1&0\\0&1\end{pmatrix}+\begin{pmatrix}1&0\\0&1\end{pmatrix}", r"\begin{pmatrix}2&0\\0&2\end{pmatrix}"),
    (r"\infty", r"\infty"),
    ("f(x+1)", "f(1+x)"),
]
DIFFERENT = [
    ("(x+1)^2", "x^2+2x+2"),
    ("(x+1)^2", "x^2+1"),
    (r"\sqrt{x^2}", "x"),
    (r"\sqrt{5+2\sqrt6}", r"\sqrt2+\sqrt3+10^{-40}"),
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
    (r"10^{-12}\pi", "0"),
    ("2^{-99}", "2^{-98}"),
    ("0.0000001", "0.0000002"),
    ("12345678901234567890", "12345678901234567891"),
    (r"\sqrt2", "1.4142135623730951"),
    (r"\arctan\frac12+\arctan\frac13", r"\frac{\pi}{5}"),
    (r"\int_{0}^{1}\frac{1}{1+x^2}\,dx", r"\frac{\pi}{5}"),
    (r"\sum_{k=1}^{n}k", r"\frac{n(n-1)}{2}"),
    (r"\lim_{x\to0}\frac{\sin x}{x}", "0"),
    (r"\cos\frac{\pi}{7}", r"\frac{9}{10}"),
    (r"|z|^2", "z^2"),
    (r"1-\frac1e", r"1+\frac1e"),
    (r"\infty", "5"),
    (r"\infty", r"-\infty"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
    (r"e^{e^{e^{-5}}}", r"e^{e^{e^{-5}}}+10^{-30}"),
]
UNKNOWN = [
    (r"\frac{1}{0}", "5"),
    ("10^{10^{10}}", "1"),
    ("(10^7)!", "1"),
    ("f(x)", "g(x)"),
    (r"\begin{pmatrix}1&2\end{pmatrix}", "5"),
    ("n!!!!!!", "n!"),
]
NO_EXPRESSIONS = ["(1,2)", "x=1", r"\text{odd}"]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_same(first: str, second: str) -> None:
    assert symbolic_equal(parse(first), parse(second)) == "same"
    assert symbolic_equal(parse(second), parse(first)) == "same"


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_different(first: str, second: str) -> None:
    assert symbolic_equal(parse(first), parse(second)) == "different"
    assert symbolic_equal(parse(second), parse(first)) == "different"


@pytest.mark.parametrize(("first", "second"), UNKNOWN)
def test_unknown(first: str, second: str) -> None:
    assert symbolic_equal(parse(first), parse(second)) == "unknown"


@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_what_is_no_expression_is_unknown(text: str) -> None:
    assert symbolic_equal(parse(text), parse(text)) == "unknown"


N = {value: Number(Fraction(value)) for value in range(10)}
x = Symbol("x")


@pytest.mark.parametrize(
    "node",
    [
        Call("sin", ()),
        Call("sin", (x, x)),
        Call("lim", (x, N[1], N[2])),
        Call("sum", (x, x)),
        Call("log", (x,)),
        Pow(N[0], Neg(N[1])),
        Call("mod", (N[5], N[0])),
        Root(N[2], N[0]),
        Call("det", (x,)),
        Call("gcd", (x, N[2])),
        Quantity(N[5], "cm"),
        Symbol("\x00"),
        Call("__class__", (x,)),
        Symbol("__import__('os')"),
        Mul((Constant("infinity"), N[0])),
    ],
)
def test_malformed_trees_are_no_failure(node: Node) -> None:
    assert symbolic_equal(node, N[7]) in ("unknown", "different")


def test_what_stops_a_child_leaves_the_worker_well() -> None:
    tower = Call("sum", (Call("factorial", (Symbol("k"),)), Symbol("k"), N[1], Number(Fraction(4000))))
    with pytest.raises(client.SymbolicLimit, match="ran out of time"):
        symbolic_equal(Call("int", (Call("sin", (Pow(x, tower),)), x, N[0], N[1])), N[1], timeout_s=0.5)
    assert symbolic_equal(x, x) == "same"


def test_large_trees_are_unknown() -> None:
    assert symbolic_equal(Add(tuple(Pow(x, Number(Fraction(k))) for k in range(3000))), x) == "unknown"
    deep: Node = x
    for _ in range(150):
        deep = Neg(deep)
    assert symbolic_equal(deep, x) == "same"
    for _ in range(150):
        deep = Neg(deep)
    assert symbolic_equal(deep, x) == "unknown"


TYPICAL = [SAME[n] for n in (0, 1, 5, 6, 13, 14, 15, 24, 27, 34)]


def test_a_typical_comparison_is_quick() -> None:
    pairs = [(parse(first), parse(second)) for first, second in TYPICAL]
    client.warm_up()
    for _ in within(0.25 * len(pairs), workers_cpu_s):  # measured 0.012 each
        for first, second in pairs:
            symbolic_equal(first, second)


@pytest.mark.slow
def test_threads_and_forks_agree() -> None:
    pairs = [(parse(first), parse(second)) for first, second in TYPICAL + DIFFERENT[:6]]
    expected = ["same"] * len(TYPICAL) + ["different"] * 6
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append([symbolic_equal(first, second) for first, second in pairs]))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 16
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(send, json.dumps([symbolic_equal(first, second) for first, second in pairs]).encode())
            client.close()
        finally:
            os._exit(0)
    os.close(send)
    assert json.loads(os.read(receive, 10_000)) == expected
    os.close(receive)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"1", b'{"verdict":"yes"}', b'{"verdict":["same"]}', b"[" * 4000])
def test_replies_are_checked(data: bytes) -> None:
    with pytest.raises(EnvironmentFailure, match="protocol"):
        symbolic_client._checked(data)


@pytest.mark.slow
def test_the_trusted_process_never_imports_sympy() -> None:
    code = (
        "import sys\n"
        "from verigym.envs.math.symbolic.client import symbolic_equal\n"
        "from verigym.envs.math.tree import Add, Mul, Symbol\n"
        "x = Symbol('x')\n"
        "print(symbolic_equal(Add((x, Symbol('y'))), Add((Symbol('y'), x))))\n"
        "print([m for m in ('sympy', 'mpmath', 'math_verify') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["same", "[]"]


IN_WORKER = r"""
import json, sys
from verigym.envs.math.symbolic import wire, worker

compare = worker.load()
assert sys.modules["sympy.parsing.sympy_parser"] is None
original = sys.modules["sympy.core.sympify"].sympify

def refuse(value, *args, **kwargs):
    if isinstance(value, str):
        reached.append(value)
        raise SystemError(f"text reached SymPy: {value!r}")
    return original(value, *args, **kwargs)

reached = []
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "sympy" and module is not None:
        for attribute, value in list(vars(module).items()):
            if value is original:
                setattr(module, attribute, refuse)
found = [json.loads(compare(payload.encode()))["verdict"] for payload in json.loads(sys.stdin.read())]
print(json.dumps([found, reached]))
"""


@pytest.mark.slow
def test_in_the_worker_no_text_reaches_a_parser() -> None:
    pairs = SAME + DIFFERENT + UNKNOWN
    payloads = [wire.dumps(parse(first), parse(second)).decode() for first, second in pairs]
    hostile = [Symbol("__import__('os')"), Call("eval", (x,)), Call("print(1)", (x,)), Symbol("1+1")]
    payloads += [wire.dumps(node, node).decode() for node in hostile]
    done = subprocess.run(
        [sys.executable, "-c", IN_WORKER], input=json.dumps(payloads), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found, reached = json.loads(done.stdout)
    assert reached == []
    assert found == ["same"] * len(SAME) + ["different"] * len(DIFFERENT) + ["unknown"] * len(UNKNOWN) + ["same"] * len(hostile)


@pytest.mark.slow
def test_a_worker_without_sympy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen

    def without(command: list[str], **kwargs: Any) -> Any:
        hide = "import sys, runpy; sys.modules['sympy'] = sys.modules['math_verify'] = None; sys.argv = ['-', *sys.argv[1:]]; "
        return real([command[0], "-c", hide + f"runpy.run_module({command[3]!r}, run_name='__main__')", *command[4:]], **kwargs)

    client.close()
    monkeypatch.setattr(subprocess, "Popen", without)
    with pytest.raises(EnvironmentFailure, match="pip install sympy"):
        symbolic_equal(x, N[1])
    with pytest.raises(EnvironmentFailure, match=r"pip install 'verigym\[math-verify\]'"):
        client.compare("1", "1")
