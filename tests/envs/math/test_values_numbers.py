"""Exact values, numerical values, equations that are multiples of each other, signs that go together, matrices."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from cpu_time import within
from python_trees import tree

from verigym.envs.math.build import expand_plus_minus
from verigym.envs.math.equality.matrices import evaluate_matrix
from verigym.envs.math.equality.values import approximation, compare_values, proportional, rational
from verigym.envs.math.tree import Add, Matrix, Mul, Neg, Number, PlusMinus, Root, Symbol


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1/2", Fraction(-1, 2)),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("percent(12.5)", Fraction(1, 8)),
        ("(2/3)**(-3)", Fraction(27, 8)),
        ("sqrt(9/16)", Fraction(3, 4)),
        ("27**(-2/3)", Fraction(1, 9)),
        ("root(2**60, 20)", 8),
        ("binom(1/2, 2)", Fraction(-1, 8)),
        ("mod(-7/2, 2)", Fraction(1, 2)),
        ("log(32, 1/8)", Fraction(-5, 3)),
        ("1/x", None),
        ("1/0", None),
        ("0**0", None),
        ("sqrt(2)", None),
        ("sqrt(-4)", None),
        ("factorial(1/2)", None),
        ("factorial(-1)", None),
        ("log(10, 3)", None),
        ("log(2, 1)", None),
        ("log(0, 2)", None),
        ("pi", None),
        ("2**(10**6)", None),
        ("sum(k, k, 1, x)", None),
        ("sum(k, k, 5, 1)", 0),
        ("prod(k, k, 5, 1)", 1),
        ("gcd(1/2, 3)", None),
    ],
)
def test_rational(text: str, value: Fraction | None) -> None:
    assert rational(tree(text)) == value


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ("2*x + 4*y - 3", "y - (-x/2 + 3/4)", "same"),
        ("x**2/4 + y**2/3 - 1", "3*x**2 + 4*y**2 - 12", "same"),
        ("x**2/4 + y**2/3 - 1", "4*x**2 + 3*y**2 - 12", "different"),
        ("x - 5", "5 - x", "same"),
        ("x - 5", "x - 6", "different"),
        ("x - 5", "x*(x - 5)", "different"),
        ("sqrt(2)*x - 2", "x - sqrt(2)", "same"),
        ("sin(2*x) - 1", "4*sin(x)*cos(x) - 2", "same"),
        ("sin(2*x) - 1", "2*sin(x) - 1", "different"),
        ("3*x - 1*y + 13", "3*x + 4*y + 14", "different"),
        ("x - x", "2*y - 2*y", "unknown"),
        ("x - x", "x", "different"),
        ("4 - 5", "8 - 10", "unknown"),
        ("x - oo", "y - oo", "unknown"),
        ("e**x - 1", "2*exp(x) - 2", "same"),
        ("x/(x + 1) - 2", "3*x/(x + 1) - 6", "same"),
    ],
)
def test_proportional(a: str, b: str, verdict: str) -> None:
    assert proportional(tree(a), tree(b)).verdict == verdict
    assert proportional(tree(b), tree(a), "another seed").verdict == verdict


def test_numbers() -> None:
    root = approximation(tree("sqrt(2)"), 40)
    with localcontext() as context:
        context.prec = 60
        assert root is not None
        assert abs(Decimal(root.numerator) / root.denominator - Decimal(2).sqrt()) < Decimal(10) ** -40
    tiny = approximation(tree("sqrt(10**60 + 1) - 10**30"), 20)
    assert tiny is not None
    assert abs(tiny * 2 * 10**30 - 1) < Fraction(1, 10**20)
    assert approximation(tree("1/3")) == Fraction(1, 3)
    assert approximation(tree("i")) is None


def test_plus_and_minus_go_together() -> None:
    one, two = Number(Fraction(1)), Number(Fraction(2))
    assert expand_plus_minus(Root(two)) == (Root(two),)
    assert expand_plus_minus(PlusMinus(one)) == (one, Neg(one))
    assert expand_plus_minus(Add((PlusMinus(one), PlusMinus(two, -1)))) == (Add((one, Neg(two))), Add((Neg(one), two)))
    assert expand_plus_minus(Mul((two, PlusMinus(Mul((one, two)))))) == (Mul((two, one, two)), Mul((two, Neg(Mul((one, two))))))
    assert expand_plus_minus(Matrix(((PlusMinus(one),),))) == (Matrix(((one,),)), Matrix(((Neg(one),),)))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("[[1, 2], [3, 4]] + [[1, 1], [1, 1]]", "[[2, 3], [4, 5]]"),
        ("[[1, 2], [3, 4]] - [[1, 1], [1, 1]]", "[[0, 1], [2, 3]]"),
        ("-[[1, 2], [3, x]]", "[[-1, -2], [-3, -x]]"),
        ("2*[[1, 2], [3, x]]/3", "[[2/3, 4/3], [2, 2*x/3]]"),
        ("[[1, 2], [3, 4]]*[[0, 1], [1, 0]]", "[[2, 1], [4, 3]]"),
        ("[[1, 2], [3, 4]]*[[x], [y]]", "[[x + 2*y], [3*x + 4*y]]"),
        ("[[1, 2], [3, 4]]**(-1)", "[[-2, 1], [3/2, -1/2]]"),
        ("[[a, 0], [0, b]]**(-1)", "[[1/a, 0], [0, 1/b]]"),
        ("[[2, 0, 1], [1, 3, 2], [1, 1, 4]]**(-1)", "[[5/9, 1/18, -1/6], [-1/9, 7/18, -1/6], [-1/9, -1/9, 1/3]]"),
        ("[[1, 1], [0, 1]]**10", "[[1, 10], [0, 1]]"),
        ("[[1, 2, 3]]**T", "[[1], [2], [3]]"),
        ("[[1, 2, 3]]*[[1], [2], [3]]", "[[14]]"),
        ("[[1, 2]]**0.5", None),
        ("[[1, 2]] + [[1], [2]]", None),
        ("[[1, 2]] + 1", None),
        ("[[1, 2], [2, 4]]**(-1)", None),
        ("[[1, 1], [1, 1]]**1000000", None),
        ("x + 1", None),
    ],
)
def test_matrices(text: str, result: str | None) -> None:
    found = evaluate_matrix(tree(text))
    if result is None:
        assert found is None
        return
    expected = tree(result)
    assert found is not None
    assert isinstance(expected, Matrix)
    assert [len(row) for row in found.rows] == [len(row) for row in expected.rows]
    for row, wanted in zip(found.rows, expected.rows, strict=True):
        for one, other in zip(row, wanted, strict=True):
            assert compare_values(one, other).verdict == "same"


def test_matrices_with_growing_entries_are_given_up_early() -> None:
    for _ in within(0.5):
        rows = ", ".join("[" + ", ".join(f"x_{row}{column} + y" for column in range(8)) + "]" for row in range(8))
        assert evaluate_matrix(tree(f"[{rows}]**64")) is None
        assert evaluate_matrix(tree(f"[{rows}]**(-1)")) is None
        assert compare_values(tree(f"det([{rows}])"), tree("1")).verdict == "unknown"


@pytest.mark.parametrize(
    ("a", "b", "limit_s"), [("5", "6", 40e-6), ("x**2 - 1", "(x - 1)*(x + 1)", 1.5e-3), ("sin(pi/6)", "1/2", 4e-3)]
)
def test_speed(a: str, b: str, limit_s: float) -> None:
    """About four times what was measured."""
    one, two = tree(a), tree(b)
    compare_values(one, two)
    for _ in within(20 * limit_s):
        for _ in range(20):
            compare_values(one, two)


def test_symbols_are_not_touched_by_expansion() -> None:
    assert expand_plus_minus(Symbol("x")) == (Symbol("x"),)
