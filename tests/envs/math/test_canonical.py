"""The canonical form: equal forms for equal expressions, decisive differences, bounded expansion."""

import pytest
from python_trees import tree

from verigym.envs.math.equality.budget import TooMuch, Undefined, WorkBudget
from verigym.envs.math.equality.canonical import Canonical, difference
from verigym.envs.math.equality.numbers.integers import factor, integer_root, rational_log
from verigym.envs.math.equality.polynomial import ONE, decisive


def apart(a: str, b: str) -> tuple[bool, bool]:
    """Return whether the forms differ, and whether that decides."""
    canonical = Canonical(WorkBudget(500_000))
    found = difference(canonical.form(tree(a), {}), canonical.form(tree(b), {}), canonical.atoms)
    return bool(found), decisive(canonical.atoms, found)


def test_equal_forms() -> None:
    assert not apart("(x + y)**4", "(y + x)**4")[0]
    assert not apart("1/(x - 1) - 1/(x + 1)", "2/(x**2 - 1)")[0]
    assert not apart("x**y*x**(2*y)", "x**(3*y)")[0]


@pytest.mark.parametrize(
    ("a", "b", "decides"),
    [
        ("x", "y", True),
        ("sqrt(2)*x", "sqrt(3)*x", True),
        ("pi + x", "pi + y", True),
        ("pi", "e", False),
        ("sin(x)", "x", False),
        ("sin(x) + 1", "sin(x) + 2", True),
        ("sqrt(x + 1)", "x", False),
        ("10**(10**10)", "10**(10**10 - 1)*10", False),
        ("10**(10**10)", "10**(10**10) + 1", True),
        ("sqrt(1000003*1000033)", "sqrt(1000003)*sqrt(1000033)", False),
        ("f(x)", "0", False),
    ],
)
def test_only_independent_atoms_decide(a: str, b: str, decides: bool) -> None:
    assert apart(a, b) == (True, decides)


def test_negative_powers_and_denominators() -> None:
    canonical = Canonical(WorkBudget(100_000))
    assert canonical.form(tree("1/(2*x*y**2)"), {}).bottom is ONE
    assert canonical.form(tree("1/(x + 1)"), {}).bottom == canonical.form(tree("x + 1"), {}).top
    with pytest.raises(Undefined):
        canonical.form(tree("1/(x - x)"), {})
    with pytest.raises(Undefined):
        canonical.form(tree("1/(sqrt(2)*sqrt(2) - 2)"), {})
    with pytest.raises(Undefined):
        canonical.form(tree("ln(1 - 1)"), {})


@pytest.mark.parametrize("text", ["(x + 1)**500", "(a + b + c + d)**20", "prod(x + k, k, 1, 49)*prod(y + k, k, 1, 49)"])
def test_expansion_is_bounded(text: str) -> None:
    with pytest.raises(TooMuch):
        Canonical(WorkBudget(500_000)).form(tree(text), {})


def test_bound_variables_have_no_name() -> None:
    canonical = Canonical(WorkBudget(100_000))
    one, two = (canonical.form(tree(text), {}) for text in ("sum(x*k, k, 1, n)", "sum(j*x, j, 1, n)"))
    assert one == two
    assert one != canonical.form(tree("sum(x*k, x, 1, n)"), {})
    nested, other = (
        canonical.form(tree(t), {}) for t in ("sum(sum(j*k, j, 1, k), k, 1, n)", "sum(sum(a*b, b, 1, a), a, 1, n)")
    )
    assert nested == other


def test_integers() -> None:
    assert factor(360, WorkBudget(10**6)) == ({2: 3, 3: 2, 5: 1}, True)
    assert factor(1_000_003, WorkBudget(10**6)) == ({1_000_003: 1}, False)
    assert factor(1_000_003**2, WorkBudget(10**6)) == ({1_000_003: 2}, False)
    assert factor(1, WorkBudget(10**6)) == ({}, True)
    for number in (0, 1, 7, 8, 9, 10**40, 10**40 - 1):
        for degree in (2, 3, 5, 11):
            root = integer_root(number, degree)
            assert root**degree <= number < (root + 1) ** degree
    assert rational_log(10**30 + 1, 10, WorkBudget(10_000)) is None
