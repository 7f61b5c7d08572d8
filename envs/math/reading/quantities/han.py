"""Numbers in Chinese characters: `十二` is 12, `三百零五` is 305."""

from __future__ import annotations

import re

_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_NUMBER = re.compile(r"(负?)([零〇一二两三四五六七八九十百千]{1,9})")


def han_number(text: str) -> str | None:
    """Return the digits of a whole answer in Chinese numerals below ten thousand; None of any other text."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    total, digit, smallest = 0, None, 10_000
    for char in found[2]:
        if char in _DIGITS:
            if digit:  # two digits in a row name no number
                return None
            digit = _DIGITS[char]
            continue
        place = _PLACES[char]
        if place >= smallest or digit == 0:
            return None
        total += (1 if digit is None else digit) * place
        digit, smallest = None, place
    return f"{'-' if found[1] else ''}{total + (digit or 0)}"
