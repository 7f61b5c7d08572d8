"""Compares returned values as decoded plain data, so that no method of a submission's class can run.

The exact types are checked first, and only values of built-in types are compared. Numbers are equal as in Python
(`1 == 1.0 == True`), text never equals a number, nan equals nan, and an iterator never equals a list.
"""

from __future__ import annotations

import math
from collections import deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from verigym.envs.code import nearness, show

_NUMBERS = (bool, int, float, complex, Fraction, Decimal)
_SETS = (set, frozenset)
_BYTES = (bytes, bytearray)
_SAME_TYPE = (str, range, datetime, date, time, timedelta, type(None), type(...))

Pairs = list[tuple[Any, Any]]


def equal(expected: Any, got: Any, *, tolerance: float = 0.0, tuple_as_list: bool = True) -> bool:
    """Return whether `got` equals `expected`, at any depth."""
    waiting: Pairs = [(expected, got)]
    while waiting:
        want, have = waiting.pop()
        inner = _inside(want, have, tuple_as_list)
        if inner is None:
            if not _same_leaf(want, have, tolerance):
                return False
        elif inner is False:
            return False
        else:
            waiting += inner
    return True


def _inside(want: Any, have: Any, tuple_as_list: bool) -> Pairs | Literal[False] | None:
    """Return the pairs that must be equal for two containers to be; False where they cannot be; None for leaves."""
    kind, other = type(want), type(have)
    if kind in (list, tuple, deque):
        alike = kind is other or (tuple_as_list and {kind, other} <= {list, tuple})
        return list(zip(want, have, strict=True)) if alike and len(want) == len(have) else False
    if kind is dict:
        if other is not dict or len(want) != len(have):
            return False
        return [(want[key], have[key]) for key in want] if all(key in have for key in want) else False
    return None


def _same_leaf(want: Any, have: Any, tolerance: float) -> bool:
    kind, other = type(want), type(have)
    if kind in _NUMBERS:
        return other in _NUMBERS and _same_number(want, have, tolerance)
    if kind in _SETS:
        return other in _SETS and bool(want == have)
    if kind in _BYTES:
        return other in _BYTES and bool(want == have)
    return kind is other and kind in _SAME_TYPE and bool(want == have)


def _same_number(want: Any, have: Any, tolerance: float) -> bool:
    for side in (want, have):
        if type(side) is Decimal and side.is_snan():  # comparing one raises
            return False
    if bool(want == have):
        return True
    if _is_nan(want) or _is_nan(have):
        return _is_nan(want) and _is_nan(have)
    if tolerance > 0:
        plain = [_plain(side) for side in (want, have)]
        if plain[0] is not None and plain[1] is not None:
            return nearness.near_values(plain[0], plain[1], tolerance)
    return False


def _is_nan(number: Any) -> bool:
    return (type(number) is float and math.isnan(number)) or (type(number) is Decimal and number.is_nan())


def _plain(number: Any) -> int | float | None:
    """Return a number as int or float; None for complex numbers and for what is beyond floats."""
    if type(number) in (bool, int, float):
        return number  # type: ignore[no-any-return]
    if type(number) in (Fraction, Decimal):
        try:
            return float(number)
        except OverflowError:
            return None
    return None


def explain(expected: Any, got: Any) -> str:
    """Return both values for a person."""
    want, have = show.value(expected), show.value(got)
    if want == have:  # cut to the same text, or of types that show alike
        return f"expected another value than the one returned, which begins alike: {have}"
    return f"expected {want}, got {have}"
