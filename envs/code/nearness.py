"""Decides whether two numbers of any size are near: |got - expected| <= tolerance * max(1, |expected|).

It computes with decimals or exact integers. With floats, a long integer would overflow, and a small difference between large
numbers would be lost in rounding.
"""

from __future__ import annotations

import math
import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,15}+)?|inf|infinity|nan)", re.IGNORECASE)
# 50 digits decide any tolerance. Nothing traps: an absurd number is unequal, not an error.
_CONTEXT = Context(prec=50, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_ONE = Decimal(1)
# Longer than any finite float. Between such an integer and a float there is no nearness below a tolerance of 1.
_LONG_BITS = 1100


def from_text(text: bytes) -> Decimal | None:
    """Return the number that `text` spells, rounded to 50 digits, or None if it is not a number."""
    return _CONTEXT.create_decimal(text.decode("ascii")) if _NUMBER.fullmatch(text) else None


def near(expected: Decimal, got: Decimal, tolerance: float) -> bool:
    """Return whether `got` is within `tolerance` of `expected`. Infinities and NaN are near only to themselves."""
    if not expected.is_finite() or not got.is_finite():
        return expected.is_nan() and got.is_nan() or expected.compare_total(got) == 0
    gap = _CONTEXT.abs(_CONTEXT.subtract(got, expected))
    allowed = _CONTEXT.multiply(Decimal(repr(tolerance)), _CONTEXT.max(_ONE, _CONTEXT.abs(expected)))
    return bool(gap <= allowed)


def near_values(expected: int | float, got: int | float, tolerance: float) -> bool:
    """Return whether a Python number is near another."""
    if isinstance(expected, int) and isinstance(got, int):
        bound = Fraction(repr(tolerance))
        return abs(got - expected) * bound.denominator <= bound.numerator * max(1, abs(expected))
    if any(isinstance(side, int) and side.bit_length() > _LONG_BITS for side in (expected, got)):
        return False
    return near(_decimal(expected), _decimal(got), tolerance)


def _decimal(number: int | float) -> Decimal:
    if isinstance(number, float) and math.isfinite(number):
        return Decimal(repr(number))  # the decimal that a person would read, so that a bound of 0.1 holds between 1.0 and 1.1
    return Decimal(number)
