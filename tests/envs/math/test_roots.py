"""A point in every cell between the zeros of what stands under moduli and roots."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verigym.envs.math.equality.budget import TooMuch, Unsupported, WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.probing import roots
from verigym.envs.math.reading.parse import parse

AXIS = {"x": (Fraction(0), Fraction(1))}
ZEROS = st.lists(st.fractions(-50, 50, max_denominator=1000), min_size=1, max_size=6)


def along(text: str, line: roots.Line = AXIS) -> roots.Poly | None:
    return roots.along(parse(text), line, rational, WorkBudget(300_000))


def from_zeros(zeros: list[Fraction]) -> roots.Poly:
    return roots.product([(-zero.numerator, zero.denominator) for zero in zeros], WorkBudget(300_000))


@pytest.mark.parametrize(
    ("text", "poly"),
    [
        ("x", (0, 1)),
        ("2 - 4x", (-1, 2)),
        ("(x-1)^2", (1, -2, 1)),
        (r"\frac{x}{2} + \frac13", (2, 3)),
        (r"\frac{x-1}{x+1}", (-1, 0, 1)),
        (r"2 + \frac{1}{x}", (0, 1, 2)),
        ("x^{-2}", (0, 0, 1)),
        ("5", (1,)),
        ("x - x", None),
        (r"\sin x", None),
        (r"\sqrt{x}", None),
        ("x^{33}", None),
        (f"x - {10**1300}", None),
    ],
)
def test_polynomials_of_zeros_and_poles(text: str, poly: roots.Poly | None) -> None:
    assert along(text) == poly


def test_a_line_through_two_variables() -> None:
    line = {"x": (Fraction(1), Fraction(2)), "y": (Fraction(0), Fraction(1))}
    assert along("x y", line) == (0, 1, 2)


@given(ZEROS)
def test_one_point_a_cell(zeros: list[Fraction]) -> None:
    places = roots.cells(from_zeros(zeros), WorkBudget(300_000))
    distinct = sorted(set(zeros))
    assert len(places) == len(distinct) + 1
    for before, after in pairwise(places):
        assert sum(before < zero < after for zero in distinct) == 1


@pytest.mark.parametrize("gap", [Fraction(1, 10**3), Fraction(1, 10**12), Fraction(1, 10**40)])
def test_however_close_zeros_are(gap: Fraction) -> None:
    _, middle, _ = roots.cells(from_zeros([Fraction(1), 1 + gap]), WorkBudget(300_000))
    assert 1 < middle < 1 + gap


def test_zeros_of_even_order_are_seen_and_complex_ones_are_not() -> None:
    assert len(roots.cells((1, -2, 1), WorkBudget(10_000))) == 2
    assert len(roots.cells((1, 0, 1), WorkBudget(10_000))) == 1
    assert roots.cells((5,), WorkBudget(10_000)) == []


@given(ZEROS)
def test_the_integers_beside_each_zero(zeros: list[Fraction]) -> None:
    places = roots.cells(from_zeros(zeros), WorkBudget(1_000_000), whole=True)
    for zero in zeros:
        for beside in (zero.__floor__(), zero.__floor__() + 1):
            assert beside < 1 or beside in places


def test_the_work_is_bounded() -> None:
    with pytest.raises(TooMuch):
        roots.cells(from_zeros([Fraction(1), 1 + Fraction(1, 10**200)]), WorkBudget(1000))
    with pytest.raises(Unsupported):
        roots.product([(place, 1) for place in range(40)], WorkBudget(300_000))
