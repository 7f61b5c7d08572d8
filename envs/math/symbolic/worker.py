"""Worker side of comparing trees: loads SymPy and warms its caches once, then maps each payload (two trees) to a verdict."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

from verigym.envs.math import tree
from verigym.envs.math.symbolic import wire
from verigym.envs.math.tree import Call, Node, Symbol

# SymPy's only way from text to evaluated code. No comparison of trees needs it, so it is disabled.
_TEXT_PARSER = "sympy.parsing.sympy_parser"
_SIMPLIFYING = "sympy.simplify.simplify"


def load() -> Callable[[bytes], bytes]:
    """Import SymPy, warm its caches on typical comparisons, and return a function that compares two encoded trees.

    Raises:
        ImportError: SymPy is not installed; the message says what to install.
    """
    try:
        from verigym.envs.math.symbolic.decide import decide
    except ModuleNotFoundError as error:
        raise ImportError(f"SymPy is not installed ({error}): pip install sympy") from error
    _wall_up()

    def compare(payload: bytes) -> bytes:
        first, second = wire.loads(payload)
        return json.dumps({"verdict": decide(first, second)}).encode()

    for first, second in warm_up():
        compare(wire.dumps(first, second))
    return compare


def _wall_up() -> None:
    """Let SymPy parse its own text tables (units, hypergeometric functions), then disable its parser."""
    import sympy as sp

    importlib.import_module("sympy.physics.units")
    x = sp.Symbol("x")
    sp.hyperexpand(sp.hyper((1, 1), (2,), x))
    sp.hyperexpand(sp.meijerg([[], []], [[0], []], x))
    # Rationalizing a denominator first guesses its digits' closed form, as text; the exact way works without.
    sys.modules[_SIMPLIFYING].nsimplify = lambda value: value  # type: ignore[attr-defined]
    sys.modules[_TEXT_PARSER] = None  # type: ignore[assignment]


def warm_up() -> Iterator[tuple[Node, Node]]:
    """Yield pairs of trees whose comparison runs SymPy's common code paths.

    SymPy imports and caches on first use, and forked processes inherit the result.
    """
    x, y, n, z, t = (Symbol(name) for name in "xynzt")
    one, two, three, six = (tree.Number(Fraction(value)) for value in (1, 2, 3, 6))
    minus = tree.Neg
    half, pi, infinity = tree.Div(one, two), tree.Constant("pi"), tree.Constant("infinity")

    def add(*terms: Node) -> Node:
        return tree.Add(terms)

    def mul(*factors: Node) -> Node:
        return tree.Mul(factors)

    def call(name: str, *args: Node) -> Node:
        return Call(name, args)

    def square(of: Node) -> Node:
        return tree.Pow(of, two)

    yield square(add(x, one)), add(square(x), mul(two, x), one)
    yield square(add(x, one)), add(square(x), mul(two, x), two)
    yield tree.Div(add(square(x), minus(one)), add(x, minus(one))), add(x, one)
    yield add(square(call("sin", x)), square(call("cos", x))), one
    yield add(square(call("tan", y)), one), square(call("sec", y))
    yield call("sin", mul(two, x)), mul(two, call("sin", x), call("cos", x))
    yield call("cosh", x), tree.Div(add(call("exp", x), call("exp", minus(x))), two)
    yield tree.Root(add(tree.Number(Fraction(5)), mul(two, tree.Root(six)))), add(tree.Root(two), tree.Root(three))
    yield mul(tree.Root(x), tree.Root(y)), tree.Root(mul(x, y))
    yield tree.Div(one, add(tree.Root(two), one)), add(tree.Root(two), minus(one))
    yield tree.Root(add(two, tree.Root(three)), three), tree.Root(add(two, minus(tree.Root(three))), three)
    yield tree.Root(x, three), tree.Pow(x, tree.Div(one, three))
    yield call("ln", square(x)), mul(two, call("ln", x))
    yield call("log", six, two), add(call("log", three, two), one)
    yield add(call("arctan", half), call("arctan", tree.Div(one, three))), tree.Div(pi, tree.Number(Fraction(4)))
    yield call("lim", tree.Div(call("sin", x), x), x, tree.Number(Fraction(0))), one
    yield call("int", tree.Div(one, add(one, square(x))), x, tree.Number(Fraction(0)), one), tree.Div(pi, three)
    yield call("int", square(x), x, tree.Number(Fraction(0)), t), tree.Div(tree.Pow(t, three), three)
    yield call("sum", n, n, one, t), tree.Div(mul(t, add(t, one)), two)
    yield call("sum", tree.Pow(x, n), n, tree.Number(Fraction(0)), infinity), tree.Div(one, add(one, minus(x)))
    yield call("sum", tree.Div(one, square(n)), n, one, infinity), tree.Div(square(pi), six)
    yield call("binom", n, two), tree.Div(mul(n, add(n, minus(one))), two)
    yield tree.Pow(minus(one), n), call("cos", mul(n, pi))
    yield call("cos", tree.Div(pi, tree.Number(Fraction(7)))), half
    yield tree.Pow(tree.Constant("e"), mul(tree.Constant("i"), pi)), minus(one)
    yield square(call("abs", z)), mul(z, call("conj", z))
    yield tree.Pow(x, add(t, y)), mul(tree.Pow(x, t), tree.Pow(x, y))
    yield call("det", tree.Matrix(((one, two), (three, six)))), tree.Number(Fraction(0))
    yield call("diff", tree.Pow(x, three), x), mul(three, square(x))
