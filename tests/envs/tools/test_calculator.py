"""The calculator is exact, and refuses what it cannot work out by a sentence for the model."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verigym.tools import ToolError, calculator

CASES = [
    ("37 * 41", "1517"),
    ("0.1 + 0.2", "0.3"),
    ("1/3", "1/3 (about 0.333333333333)"),
    ("-2 ** 2", "-4"),
    ("2 ** -1", "0.5"),
    ("2 ^ 3 ^ 2", "512"),
    ("-7 // 2", "-4"),
    ("-7 % 3", "2"),
    ("1,234,567 + 1", "1234568"),
    ("12 \u00d7 3 \u00f7 4 \u2212 1", "8"),
    ("(1 + .5) * 2.", "3"),
    ("--3", "3"),
    ("-0.05", "-0.05"),
    ("10 ** 400 / 3", f"{10**400}/3"),
]
REFUSED = [
    "",
    "1 +",
    "(1",
    "1)",
    "x",
    "1/0",
    "0 ** -1",
    "2 ** 0.5",
    "9 ** 99999",
    "1e5",
    "3.5.",
    "(" * 60 + "1" + ")" * 60,
    "1" * 500,
]


@pytest.mark.parametrize(("expression", "expected"), CASES)
def test_values(expression: str, expected: str) -> None:
    assert calculator(expression) == expected


@pytest.mark.parametrize("expression", REFUSED, ids=range(len(REFUSED)))
def test_what_it_refuses(expression: str) -> None:
    with pytest.raises(ToolError):
        calculator(expression)


@given(
    st.recursive(
        st.integers(0, 999).map(str),
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map("({0[0]}{0[1]}{0[2]})".format),
    )
)
def test_sums_are_those_of_python(expression: str) -> None:
    if len(expression) < 300:
        assert Fraction(calculator(expression)) == _value(expression)


def _value(expression: str) -> int:
    """Work out a fully bracketed sum by its outermost operator."""
    if expression.isdigit():
        return int(expression)
    depth = 0
    for place, char in enumerate(expression):
        depth += (char == "(") - (char == ")")
        if depth == 1 and char in "+-*":
            left, right = _value(expression[1:place]), _value(expression[place + 1 : -1])
            return left + right if char == "+" else left - right if char == "-" else left * right
    raise AssertionError(expression)
