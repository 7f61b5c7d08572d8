"""Digits in a base: `1012_3`."""

from __future__ import annotations

from verigym.envs.latex.words import NUMBER_WORDS
from verigym.envs.math.reading.tokens.cursor import Cursor
from verigym.envs.math.tree import InBase


def in_base(cursor: Cursor, digits: str, base: str) -> InBase:
    """Return digits in a base, or refuse digits that the base does not have."""
    name = base.strip("()").removeprefix("base").strip().lower()
    number = int(name) if name.isdigit() and len(name) < 3 else NUMBER_WORDS.get(name, 0)
    if not 2 <= number <= 36:
        raise cursor.error(f"{base[:20]!r} is no base")
    plain = digits.replace(".", "", 1)
    if not plain.isascii() or not plain.isalnum():
        raise cursor.error(f"{digits[:20]!r} are no digits")
    if any(int(digit, 36) >= number for digit in plain):
        raise cursor.error(f"{digits[:20]} is no number in base {number}")
    return InBase(digits.upper(), number)
