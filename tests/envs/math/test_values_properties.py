"""Properties of comparison on random trees."""

import time
from fractions import Fraction

from cpu_time import slowness, within
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.envs.math.equality.probing.points import integer_names
from verigym.envs.math.equality.values import compare_values, proportional
from verigym.envs.math.tree import Add, Call, Constant, Div, Mul, Neg, Node, Number, Percent, Pow, Root, Symbol

_ONE = Number(Fraction(1))
_LITERALS = st.sampled_from([0, 1, 2, 3, 10, 2004, 10**20, Fraction(1, 2), Fraction(1, 3), Fraction(1, 10**30)])
_LEAVES = st.one_of(
    _LITERALS.map(lambda value: Number(Fraction(value))),
    st.sampled_from("xynkz").map(Symbol),
    st.sampled_from(["pi", "e", "i"]).map(Constant),
)
_UNARY = st.sampled_from("sin cos tan arctan arcsin ln exp abs floor factorial f re conj sinh cot".split())
_BINARY = st.sampled_from("log binom mod gcd max g".split())


def _grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.map(Add),
        several.map(Mul),
        inner.map(Neg),
        inner.map(Percent),
        st.builds(Div, inner, inner),
        st.builds(Pow, inner, inner),
        st.builds(Root, inner),
        st.builds(lambda name, arg: Call(name, (arg,)), _UNARY, inner),
        st.builds(lambda name, one, two: Call(name, (one, two)), _BINARY, inner, inner),
        st.builds(lambda body, stop: Call("sum", (body, Symbol("k"), _ONE, stop)), inner, inner),
    )


TREES = st.recursive(_LEAVES, _grow, max_leaves=12)
SLOW = settings(max_examples=50, deadline=None, derandomize=True)


@SLOW
@given(TREES)
def test_reflexive(a: Node) -> None:
    assert compare_values(a, a).verdict == "same"
    assert compare_values(Add((a, Number(Fraction(0)))), a).verdict != "different"
    assert compare_values(Neg(Neg(a)), a).verdict != "different"


@SLOW
@given(TREES, TREES)
def test_symmetric(a: Node, b: Node) -> None:
    if integer_names(a, b) == integer_names(b, a):
        assert compare_values(a, b).verdict == compare_values(b, a).verdict


@SLOW
@given(TREES, TREES, TREES)
def test_commuting_and_associating_change_nothing(a: Node, b: Node, c: Node) -> None:
    for kind in (Add, Mul):
        assert compare_values(kind((a, b, c)), kind((kind((c, a)), b))).verdict != "different"
    assert compare_values(Mul((a, Add((b, c)))), Add((Mul((a, b)), Mul((c, a))))).verdict != "different"
    assert compare_values(Call("f", (Add((a, b)),)), Call("f", (Add((b, a)),))).verdict != "different"


@SLOW
@given(TREES)
def test_one_more_is_not_the_same(a: Node) -> None:
    assert compare_values(Add((a, _ONE)), a).verdict != "same"
    assert compare_values(Add((a, Symbol("x"))), a).verdict != "same"
    assert compare_values(Add((a, Number(Fraction(1, 10**40)))), a).verdict != "same"


@SLOW
@given(TREES)
def test_proportional(a: Node) -> None:
    assert proportional(Mul((Number(Fraction(-3)), a)), a).verdict != "different"
    assert proportional(Add((Mul((a, a)), Symbol("w"))), a).verdict != "same"


def test_time() -> None:
    taken: list[float] = []

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(TREES, TREES)
    def measure(a: Node, b: Node) -> None:
        for _ in within(0.5):
            started = time.thread_time()
            compare_values(a, b)
        taken.append(time.thread_time() - started)

    measure()
    taken.sort()
    assert taken[len(taken) * 99 // 100] < 0.05 * slowness()
