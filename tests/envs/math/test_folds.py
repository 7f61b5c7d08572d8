r"""Signs hidden by moduli, roots and logarithms: `f` is not `|f|`, however short the interval is on which it is negative."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verigym.envs.math.equality.probing.folds import Folds
from verigym.envs.math.equality.values import compare_values
from verigym.envs.math.reading.parse import parse

MODULI = [
    "|%s|",
    r"\sqrt{(%s)^2}",
    r"((%s)^4)^{1/4}",
    r"e^{\ln((%s)^2)/2}",
    r"10^{\log((%s)^4)/4}",
    r"\frac{(%s)^2}{|%s|}",
    r"\sqrt{\left|(%s)^2\right|}",
    r"\sqrt[3]{(\sqrt{(%s)^2})^3}",
    r"\sqrt{\frac{(%s)^2}{2}+\frac{(%s)^2}{2}}",
]
NEGATIVE_NEARBY = [
    "(x-ROOT)(x-ROOT-GAP)",
    "(x-ROOT)^2-GAP",
    "x(x-ROOT)(x-ROOT-GAP)",
    r"\frac{(x-ROOT)^2-GAP}{x^2+1}",
    r"(\sqrt{2}x-ROOT)^2-GAP",
    "(x-ROOT y)(x-ROOT y-GAP)",
]


def written(form: str, root: int, digits: int) -> str:
    return form.replace("ROOT", f"({Fraction(root, 100).numerator}/{Fraction(root, 100).denominator})").replace(
        "GAP", f"0.{'0' * digits}1"
    )


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NEGATIVE_NEARBY), st.sampled_from(MODULI), st.integers(-4000, 4000), st.integers(1, 9))
def test_a_function_is_not_its_modulus(form: str, modulus: str, root: int, digits: int) -> None:
    inner = written(form, root, digits)
    assert compare_values(parse(inner), parse(modulus.replace("%s", inner))).verdict == "different"


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NEGATIVE_NEARBY), st.sampled_from(MODULI), st.sampled_from(MODULI), st.integers(-4000, 4000))
def test_moduli_in_two_forms_are_the_same(form: str, one: str, other: str, root: int) -> None:
    inner = written(form, root, 3)
    assert compare_values(parse(one.replace("%s", inner)), parse(other.replace("%s", inner))).verdict != "different"


@pytest.mark.parametrize(
    ("one", "other", "single"),
    [
        ("|x y|", "|x||y|", []),
        ("|x|y", "|x y|", ["y"]),
        (r"\sqrt{x^2 y}", r"|x|\sqrt{y}", []),
        ("|x^2 y|", "y", ["y"]),
        ("|x^2+1|", "x^2+1", []),
        ("|n+1|", "n+1", []),
        (r"\sqrt{x}", "x", []),
    ],
)
def test_which_signs_one_side_alone_hides(one: str, other: str, single: list[str]) -> None:
    assert Folds(parse(one), parse(other), frozenset("n")).single == [parse(name) for name in single]
