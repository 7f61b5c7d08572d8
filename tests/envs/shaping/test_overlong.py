"""Soft overlong punishment."""

from __future__ import annotations

import pytest

from verigym.envs.shaping.overlong import soft_overlong


@pytest.mark.parametrize(
    ("length", "expected"), [(0, 0.0), (79, 0.0), (80, 0.0), (81, -0.05), (90, -0.5), (100, -1.0), (101, -1.0), (10**9, -1.0)]
)
def test_literals(length, expected):
    assert soft_overlong(length, 100, 20) == pytest.approx(expected, abs=1e-12)


def test_without_a_cache_only_what_is_longer_is_punished():
    assert [soft_overlong(length, 100, 0) for length in (0, 100, 101)] == [0.0, 0.0, -1.0]


def test_it_never_rises():
    values = [soft_overlong(length, 37, 37) for length in range(50)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 0.0 and values[-1] == -1.0


@pytest.mark.parametrize(("length", "limit", "cache"), [(-1, 100, 20), (1, 100, -1), (1, 100, 101), (1, -5, 0)])
def test_bad_numbers(length, limit, cache):
    with pytest.raises(ValueError, match=f"expected length >= 0 .* got length={length}, limit={limit}"):
        soft_overlong(length, limit, cache)
