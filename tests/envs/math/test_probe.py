"""Probing: where points come from, what a value needs, when nothing is concluded."""

import itertools

import pytest
from python_trees import tree

from verigym.envs.math.equality.budget import TooMuch, Undefined, WorkBudget
from verigym.envs.math.equality.numbers import numeric
from verigym.envs.math.equality.numbers.evaluate import Evaluation
from verigym.envs.math.equality.numbers.numeric import Arithmetic
from verigym.envs.math.equality.probing.points import free_symbols, integer_names, real_points
from verigym.envs.math.equality.probing.probe import Probe
from verigym.envs.math.equality.values import compare_values


def value(text: str, precision: int = 192, *, real: bool = False, seed: str = "") -> tuple[complex, Arithmetic]:
    arithmetic = Arithmetic(precision, WorkBudget(10**6), real=real)
    with numeric.LOCK:
        found = Evaluation(arithmetic, seed).value(tree(text), {})
    pair = found if len(found) == 2 else (found, arithmetic.lib.fzero)
    return complex(*(arithmetic.lib.to_float(part) for part in pair)), arithmetic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sin(1)", 0.8414709848078965),
        ("sec(1)", 1.8508157176809255),
        ("csc(1)", 1.1883951057781212),
        ("cot(1)", 0.6420926159343306),
        ("arccot(-1)", 2.356194490192345),
        ("arccos(1/2)", 1.0471975511965979),
        ("arctan(2)", 1.1071487177940904),
        ("sinh(1)", 1.1752011936438014),
        ("cosh(1)", 1.5430806348152437),
        ("tanh(1)", 0.7615941559557649),
        ("ln(10)", 2.302585092994046),
        ("log(2, 10)", 0.3010299956639812),
        ("(-2)**(1/3)", -1.2599210498948732),
        ("(-2)**(2/3)", 1.5874010519681994),
        ("(-2)**0.5", 1.4142135623730951j),
        ("root(-2, 4)", 0.8408964152537145 + 0.8408964152537145j),
        ("(1 + i)**(1/2)", 1.09868411346781 + 0.45508986056222733j),
        ("factorial(1/2)", 0.886226925452758),
        ("binom(1/2, 3)", 0.0625),
        ("mod(pi, 2)", 1.1415926535897931),
        ("sum(1/k, k, 1, 10)", 2.9289682539682538),
        ("prod(1 + 1/k**2, k, 1, 3)", 25 / 9),
        ("arg(-1)", 3.141592653589793),
        ("max(sqrt(2), sqrt(3), 1)", 1.7320508075688772),
    ],
)
def test_values(text: str, expected: complex) -> None:
    assert abs(value(text)[0] - expected) < 1e-14


@pytest.mark.parametrize(
    "text", ["1/(sqrt(2)**2 - 2)", "1/sin(pi)", "tan(pi/2)", "ln(sin(pi))", "0**(-1)", "factorial(-2)", "mod(3, 0)"]
)
def test_undefined(text: str) -> None:
    with pytest.raises(Undefined):
        value(text)


@pytest.mark.parametrize("text", ["sqrt(-2)", "ln(-2)", "arcsin(2)", "(-2)**0.5"])
def test_what_is_not_real(text: str) -> None:
    with pytest.raises(Undefined):
        value(text, real=True)


@pytest.mark.parametrize("text", ["sin(10**1000)", "exp(10**30)", "factorial(10**30)", "2**(10**30)", "sum(k, k, 1, 10**6)"])
def test_too_much(text: str) -> None:
    with pytest.raises(TooMuch):
        value(text)


def test_rounding_is_told_from_values() -> None:
    assert value("sqrt(2)**2 - 2")[0] == 0
    assert value("sin(pi)")[0] == 0
    assert value("floor(sqrt(2)**2)")[0] == 2
    assert value("1 + 1/factorial(50)")[1].need > 150
    assert value("1 + 2")[1].need == 0
    assert value("sqrt(10**20 + 1) - 10**10")[1].lost > 50


def test_unknown_functions_have_a_value_for_each_name_argument_and_seed() -> None:
    assert value("f(sqrt(3 + 2*sqrt(2)))")[0] == value("f(1 + sqrt(2))", 384)[0]
    drawn = [value(text)[0] for text in ("f(1)", "f(2)", "g(1)", "f(1, 2)", "f(2, 1)", "f(i)")]
    drawn.append(value("f(1)", seed="other")[0])
    assert len(set(drawn)) == len(drawn)


def test_points_are_drawn_by_hash() -> None:
    names = ["x", "y"]
    one, again, other = (list(real_points(names, frozenset(), seed)) for seed in ("1", "1", "2"))
    assert one == again
    everything = [tuple(point.values()) for point in (*one, *other)]
    assert len(set(everything)) == len(everything)
    assert any(point["x"] > 0 > point["y"] for point in one)
    assert sum(point["x"] > 0 and point["y"] > 0 for point in one) >= 10
    assert all(point["x"].denominator > 1 for point in one)


def test_integer_points_have_all_orders_and_parities() -> None:
    for seed in map(str, range(50)):
        points = list(itertools.islice(real_points(["k", "n"], frozenset("kn"), seed), 9))
        assert all(point["k"].denominator == point["n"].denominator == 1 for point in points)
        assert {point["n"] % 2 for point in points} == {point["k"] % 2 for point in points} == {0, 1}
        assert {point["n"] > point["k"] for point in points} == {False, True}


def test_integers_by_use() -> None:
    zero = tree("0")
    assert integer_names(tree("factorial(n) + x"), zero) == {"n"}
    assert integer_names(tree("(-1)**n*x"), zero) == {"n"}
    assert integer_names(tree("sum(x*k, k, 1, m)"), zero) == {"m"}
    assert integer_names(tree("sin(pi*n*x)"), zero) == {"n"}
    assert integer_names(tree("sin(n) + x**n"), zero) == frozenset()
    assert integer_names(tree("sin(pi*t) + floor(x)"), zero) == frozenset()
    assert integer_names(tree("floor(n/2)"), zero) == {"n"}
    assert integer_names(zero, tree("factorial(n)")) == frozenset()
    assert integer_names(tree("n*x"), tree("factorial(n) + factorial(x)")) == {"n"}
    assert free_symbols(tree("sum(k*x, k, 1, n) + lim(t, t, a)")) == {"x", "n", "a"}


def test_few_common_points_conclude_nothing() -> None:
    one, two = tree("arcsin(x**2 + y**2 + 2)*sqrt(x)"), tree("sqrt(-1 - x**2)*ln(-x)")
    with numeric.LOCK:
        probe = Probe(one, two, "", WorkBudget(10**6))
        assert probe._everywhere(["x", "y"], frozenset(), real=True) == "unknown"


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("x**2 + 3*x + 2", "abs(x**2 + 3*x + 2)", "different"),
        ("x**2 + 3*x + 2", "abs(x + 1)*abs(x + 2)", "different"),
        ("x**2 + 3*x + 2", "sqrt((x + 1)**2*(x + 2)**2)", "different"),
        ("x**2 + 3*x + 2", "sqrt(x**4 + 6*x**3 + 13*x**2 + 12*x + 4)", "different"),
        ("(100*x - 1)*(100*x - 2)", "abs(100*x - 1)*abs(100*x - 2)", "different"),
        ("x**2 - 7*x + 12", "((x**2 - 7*x + 12)**2)**(1/2)", "different"),
        ("x**2 + 1", "abs(x**2 + 1)", "same"),
        ("sqrt(x**2)", "abs(x)", "same"),
        ("abs(x - 1)", "abs(1 - x)", "same"),
        ("abs(x**2 + x*y + 2*y**2)", "x**2 + x*y + 2*y**2", "unknown"),
    ],
)
def test_both_sides_of_a_fold_are_compared(gold: str, answer: str, verdict: str) -> None:
    assert compare_values(tree(gold), tree(answer)).verdict == verdict
    assert compare_values(tree(answer), tree(gold), "another seed").verdict == verdict
