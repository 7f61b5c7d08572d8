"""Unknown functions in the symbolic tier: what they are derived, integrated or summed to is not known, and never zero."""

from collections.abc import Iterator

import pytest

from verigym.envs.isolated import client
from verigym.envs.math.reading.parse import parse
from verigym.envs.math.symbolic.client import symbolic_equal
from verigym.envs.math.symbolic.construct import dependents
from verigym.envs.math.tree import walk


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    client.close()


SAME = [
    (r"\frac{dy}{dx}", r"\frac{dy}{dx}"),
    (r"2\frac{dy}{dx}", r"\frac{dy}{dx}+\frac{dy}{dx}"),
    (r"\frac{d(x^2y)}{dx}", r"2xy+x^2\frac{dy}{dx}"),
    (r"\frac{d(x^2)}{dx}", "2x"),
    (r"\frac{d(ax^2)}{dx}", "2ax"),
    (r"\frac{d\sin\theta}{d\theta}", r"\cos\theta"),
    (r"\sum_{n=1}^{3} f(n)", "f(1)+f(2)+f(3)"),
    (r"\int_0^1 2x dx", "1"),
]
NOT_SAME = [
    (r"\frac{d^2y}{dx^2}", r"\frac{dy}{dx}"),
    (r"\frac{dy}{dx}", "0"),
    (r"\frac{dy}{dx}", r"\frac{dz}{dx}"),
    (r"\frac{dy}{dx}", r"\frac{dx}{dy}"),
    (r"\frac{dy}{dx}", r"\frac{dy}{dt}"),
    (r"\frac{da}{dt}", "0"),
    (r"\frac{da_n}{dx}", "0"),
    (r"\frac{df}{dx}", r"\frac{dg}{dx}"),
    (r"\frac{\partial f}{\partial x}", r"\frac{\partial f}{\partial y}"),
    (r"\frac{d(x^2y)}{dx}", "2xy"),
    (r"\int_0^1 y dx", "y"),
    (r"\int_0^1 f dx", "f"),
    (r"\int_0^1 f(x) dx", r"\int_0^1 g(x) dx"),
    (r"\sum_{n=1}^{3} a_n", "3a_n"),
    (r"\prod_{i=1}^3 x_i", "x_i^3"),
    (r"\lim_{n\to\infty} a_n", "a_n"),
    (r"\lim_{x\to0} f(x)", "f(0)"),
    (r"f'(x)", r"f''(x)"),
    (r"a\bar b", "ab"),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_same(first: str, second: str) -> None:
    assert symbolic_equal(parse(first), parse(second)) == "same"


@pytest.mark.parametrize(("first", "second"), NOT_SAME)
def test_never_the_same(first: str, second: str) -> None:
    assert symbolic_equal(parse(first), parse(second)) != "same"
    assert symbolic_equal(parse(second), parse(first)) != "same"


@pytest.mark.slow
def test_what_depends_on_what() -> None:
    assert dependents(walk(parse(r"\frac{dy}{dx}"))) == {"y": {"x"}}
    assert dependents(walk(parse(r"\frac{d^2y}{dx^2}+\frac{dy}{dt}"))) == {"y": {"x", "t"}}
    assert dependents(walk(parse(r"\frac{d(ax^2)}{dx}"))) == {}
    assert dependents(walk(parse(r"\frac{dy}{dx}\cdot\frac{dx}{dy}"))) == {"y": frozenset(), "x": frozenset()}
