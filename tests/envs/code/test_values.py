import math
from collections import deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from cases import cases
from cpu_time import within

from verigym.envs.code.values import equal, explain


class Liar:
    """Equal to everything, where a comparison lets it speak."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class LiarInt(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class LiarList(list):  # type: ignore[type-arg]
    def __eq__(self, other: object) -> bool:
        return True

    def __len__(self) -> int:
        return 2


NAN = math.nan


@cases(
    ("expected", "got", "same"),
    [
        (6, 6, True),
        (6, 7, False),
        (6, 6.0, True),
        (6.0, 6, True),
        (1, True, True),
        (False, 0, True),
        (1, 1 + 0j, True),
        (0.5, Fraction(1, 2), True),
        (0.5, Decimal("0.5"), True),
        (0.1, Decimal("0.1"), False),
        (0.0, -0.0, True),
        (2**53 + 1, float(2**53), False),
        (10**400, 1e308, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (NAN, NAN, True),
        (NAN, Decimal("nan"), True),
        (1.0, NAN, False),
        (NAN, 1.0, False),
        (1, Decimal("sNaN"), False),
        (6, "6", False),
        ("6", 6, False),
        ("a", "a", True),
        ("a", "b", False),
        ("a", b"a", False),
        (b"a", bytearray(b"a"), True),
        (None, None, True),
        (None, 0, False),
        (0, None, False),
        (..., ..., True),
        (None, ..., False),
        ([], [], True),
        ([], (), True),
        ([1, 2], (1, 2), True),
        ((1, 2), [1, 2], True),
        ([1, [2, (3,)]], (1, (2, [3])), True),
        ([1, 2], [2, 1], False),
        ([1, 2], [1], False),
        ([1], [1, 2], False),
        ([1], deque([1]), False),
        (deque([1]), deque([1]), True),
        ([0, 1], range(2), False),
        (range(2), range(2), True),
        ([1], iter([1]), False),
        ([1], {1}, False),
        ("ab", ["a", "b"], False),
        ({1, 2}, {2, 1}, True),
        ({1, 2}, frozenset({1, 2}), True),
        ({1}, {1, 2}, False),
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"1": 1}, {1: 1}, False),
        ({1: 1}, {1.0: True}, True),
        ({"a": [1, (2,)]}, {"a": (1, [2])}, True),
        ({}, [], False),
        ({}, None, False),
        (date(2020, 1, 1), date(2020, 1, 1), True),
        (date(2020, 1, 1), datetime(2020, 1, 1), False),
        (datetime(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC), False),
        (timedelta(1), timedelta(hours=24), True),
        (6, Liar(), False),
        (6, LiarInt(6), False),
        ([1, 2], LiarList([3]), False),
        ([1, 2], [Liar(), Liar()], False),
        ({"a": 1}, {"a": Liar()}, False),
        (None, Liar(), False),
        ("a", Liar(), False),
    ],
    ids=range(69),
)
def test_equality(expected: Any, got: Any, same: bool) -> None:
    assert equal(expected, got) is same


def test_a_tuple_is_a_list_only_by_policy() -> None:
    assert not equal([1], (1,), tuple_as_list=False)
    assert equal([1], [1], tuple_as_list=False)
    assert equal((1,), (1,), tuple_as_list=False)
    assert not equal([[1]], [(1,)], tuple_as_list=False)


@pytest.mark.parametrize(
    ("expected", "got", "tolerance", "same"),
    [
        (0.5, 0.5000001, 1e-6, True),
        (0.5, 0.51, 1e-6, False),
        (1e6, 1e6 + 0.5, 1e-6, True),
        (0, 1e-7, 1e-6, True),
        ([1.0, {"a": (2.0,)}], (1.0000001, {"a": [2.0000001]}), 1e-6, True),
        ([1.0, {"a": 2.0}], [1.0000001, {"a": 2.1}], 1e-6, False),
        (1.0, 1.1, 0.1, True),
        (1.0, "1.0", 0.9, False),
        (1.0, math.nan, 0.9, False),
        (1.0, math.inf, 0.9, False),
        (math.inf, 1e308, 0.9, False),
        (1.0, 10**5000, 0.9, False),
        (10**5000, 1.0, 0.9, False),
        (10**5000, 10**5000 + 1, 1e-9, True),
        (10**5000, 2 * 10**5000, 1e-9, False),
        (0.5, Fraction(500001, 10**6), 1e-3, True),
        (0.5, Decimal("0.5001"), 1e-3, True),
        (1.0, Decimal("1e999999"), 0.9, False),
        (1.0, Fraction(10**5000, 3), 0.9, False),
        (1.0, 1.0000001 + 0j, 1e-3, False),
    ],
    ids=range(20),
)
def test_tolerance(expected: Any, got: Any, tolerance: float, same: bool) -> None:
    assert equal(expected, got, tolerance=tolerance) is same


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.slow
def test_deep_and_large_values_neither_raise_nor_take_long() -> None:
    for _ in within(4.0):
        assert equal(nested(100_000), nested(100_000))
        assert not equal(nested(100_000), nested(99_999))
        assert not equal(1, 1 << 100_000_000)
        assert not equal(1.5, 1 << 100_000_000, tolerance=0.5)
        assert not equal(1, 1 << 100_000_000, tolerance=0.5)
        assert equal(list(range(300_000)), tuple(range(300_000)))


def test_explanations() -> None:
    assert explain([1, 3], [1, 3, 3]) == "expected [1, 3], got [1, 3, 3]"
    assert explain(6, "6") == "expected 6, got '6'"
    assert explain({"a": (1,)}, None) == "expected {'a': (1,)}, got None"
    assert explain(1, {3, 1, 2}) == "expected 1, got {1, 2, 3}"
    assert explain(1, iter([1])) == "expected 1, got a list_iterator"
    assert explain(1, Fraction(1, 2)) == "expected 1, got a Fraction"
    assert "begins alike" in explain(list(range(100)), list(range(99)))


HARD_TO_SHOW = [10**10_000, "\ud800" * 10**6, b"x" * 10**6, [[[[[[1]]]]]] * 1000, nested(10_000), Liar()]


@pytest.mark.parametrize("value", HARD_TO_SHOW, ids=range(6))
def test_any_value_can_be_explained(value: Any) -> None:
    text = explain(1, value)
    assert len(text) < 250
    assert text.isprintable()
