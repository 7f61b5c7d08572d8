"""Hostile trees: every comparison ends within its budget of work, and none raises."""

from fractions import Fraction

import pytest
from cpu_time import within
from python_trees import tree

from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.values import approximation, compare_values, proportional
from verigym.envs.math.tree import Add, Call, Ellipsis, Mul, Neg, Node, Number, Phrase, Pow, Relation, Symbol, Text

HUGE = [
    "10**(10**10)",
    "factorial(10**7)",
    "factorial(factorial(factorial(9)))",
    "2**(2**(2**49))",
    "9**(9**(9**9))",
    "(1/3)**(10**12)",
    "root(2, 10**30)",
    "binom(10**9, 5*10**8)",
    "perm(10**12, 10**11)",
    "doublefactorial(10**9)",
    "sum(1/k, k, 1, 10**9)",
    "sum(1/k, k, 1, 9999)",
    "prod(k**k, k, 1, 9999)",
    "sum(sum(sum(a*b*c, a, 1, 9999), b, 1, 9999), c, 1, 9999)",
    "sum(sin(k), k, 1, 9999)",
    "sum(x**k/factorial(k), k, 0, n)",
    "(a + b + c + d + f + g + h + 1)**40",
    "((x + 1)**100 + (y + 1)**100)**100",
    "(x + 1)**(10**9)",
    "x**(10**30)",
    "exp(exp(exp(exp(10))))",
    "sin(exp(exp(20)))",
    "ln(exp(exp(60)))",
    "tan(10**(10**4))",
    "(pi + e)**(10**15)",
    "lcm(10**30 + 1, 10**31 + 3, 10**32 + 7)",
    "mod(7**(10**6), 10**9 + 7)",
    "floor(pi*10**50000)",
    "sqrt(2)**(sqrt(3)**(sqrt(5)**(sqrt(7)**9)))",
    "binom(x, 10**9)",
    "factorial(x**x**x)",
    "f(f(f(f(f(x**99)))))",
]


@pytest.mark.parametrize("text", HUGE)
def test_huge_numbers_do_not_hang(text: str) -> None:
    node = tree(text)
    for _ in within(2):
        rational(node)
        compare_values(node, tree("1"))
        compare_values(tree(f"sin(1)*({text})"), tree(f"({text})*cos(1)"))
        compare_values(tree(f"x + {text}"), tree(f"x + 1 + {text}"))
        proportional(tree(f"x - ({text})"), tree(f"2*x - ({text})"))


def test_long_and_deep_trees_are_refused() -> None:
    wide = Add(tuple(Symbol(f"x_{index}") for index in range(5000)))
    deep: Node = Symbol("x")
    for _ in range(50_000):
        deep = Neg(deep)
    for node in (wide, deep):
        assert compare_values(node, node) == ("unknown", "limit")
        assert proportional(node, node) == ("unknown", "limit")
        assert rational(node) is None
    names = tuple(Symbol(f"x_{index}") for index in range(40))
    many = Mul(tuple(Call("abs", (name,)) for name in names))
    assert compare_values(many, Call("abs", (Mul(names),))) == ("unknown", "limit")


@pytest.mark.parametrize(
    "node",
    [
        Text("odd"),
        Ellipsis(),
        Phrase((Number(Fraction(3)), Text("maybe"))),
        Relation((Symbol("x"), Number(Fraction(5))), ("=",)),
        Call("sin", ()),
        Call("sum", (Symbol("x"),)),
        Call("sum", (Symbol("k"), Number(Fraction(1)), Number(Fraction(1)), Number(Fraction(2)))),
        Call("", ()),
        Call("det", (Symbol("x"),)),
        Pow(Text("a"), Text("b")),
        Call("f", (Text("\ud800\x00"),)),
        Symbol("\ud800"),
    ],
)
def test_what_is_no_value_is_unknown_and_never_raises(node: Node) -> None:
    assert compare_values(node, node).verdict == "same"
    assert compare_values(node, Number(Fraction(5))).verdict in ("unknown", "different")
    assert compare_values(Add((node, Symbol("x"))), Symbol("x")).verdict in ("unknown", "different")
    proportional(node, Symbol("x"))
    approximation(node)
    rational(node)
