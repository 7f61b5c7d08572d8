r"""Reads number literals: finds where a number ends, and its value. Also reads numbers in Chinese characters.

Conventions, decided by what may follow the first digits:
- `1,234,567.8`, `1{,}234`, `1,\!234`: a comma groups thousands if every group after the first has three digits, and the first
  group has one to three digits and does not start with 0. In brackets, a bare comma separates elements (`(100,200)`). Only if a
  later group starts with 0 does it group thousands there (`(5,000)`), since no number in a list starts with 0.
- `1 234`, `1\,234`, `1~234`: a single space groups thousands in the same way.
- `1.234,56`: a comma after points that group thousands is the decimal mark. A comma after a single 0 is the decimal mark if
  three or more digits follow (`0,111`), or two of which the first is 0 (`0,05`). `{,}` is the decimal mark if it does not group
  thousands.
- A comma with a blank after it separates: `1, 200` is two numbers and `1,200` is one. The gold does not change how an answer is
  read, so neither of these is a right answer for the other.
- Any other comma separates: `1,22` and `1000,99` are lists. With the argument `decimal_comma`, they are decimals.
"""

from __future__ import annotations

import re
from fractions import Fraction

from verigym.envs.math.tree import Mul, Neg, Node, Number, Pow, TooLarge

MAX_DIGITS = 2_000
MAX_EXPONENT = 1_000
"""Greatest exponent of ten in a number such as `1e5`. A number with a greater exponent, such as `1e100000`, becomes a product
with a power of ten."""

_SPACE = r"(?: |~|\\[ ,;:])"
_RUN = re.compile(r"[0-9]++(?:(?:\{,\}|,\s?\\!\s{0,4}|,)[0-9]++)*")
_SEPARATOR = re.compile(r"\{,\}|,\s?\\!\s{0,4}|,")
_THOUSAND = rf"{_SPACE}[0-9]{{3}}(?![0-9])"
# All groups, and no fraction bar behind the last: `1 000 000/3` is not `1 000`.
_SPACED = re.compile(rf"[0-9]{{1,3}}(?:{_THOUSAND})+(?!{_THOUSAND}|\s{{0,4}}+/)")
_EUROPEAN = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]{1,2}(?![0-9,])")
_DECIMALS = re.compile(r"\.[0-9]++")


def grouped(text: str, start: int, end: int, bracketed: bool, decimal_comma: bool) -> tuple[int, str, int]:
    """Read a number with separators, whose first digits are at `start` to `end` in `text`.

    Args:
        text: the whole answer.
        start: start of the first digits.
        end: end of the first digits.
        bracketed: whether the number is inside brackets, where a comma separates elements.
        decimal_comma: as for `parse`.

    Returns:
        The end of the number, its digits without separators, and a position before which no other number with separators
        begins. For example, if `27,108,135` is a list, this is its end, so that `108,135` is not read as one number.
    """
    follow = text[end : end + 1]
    if follow == "," or follow == "{":
        if "." in text[start:end]:
            match = None if bracketed else _EUROPEAN.match(text, start)
            if match:
                return match.end(), match.group().replace(".", "").replace(",", "."), match.end()
            return end, text[start:end], end
        return _commas(text, start, end, bracketed, decimal_comma)
    match = _SPACED.match(text, start)
    if match and match.end() > end:
        digits = re.sub(_SPACE, "", match.group())
        tail = _DECIMALS.match(text, match.end())
        return (tail.end(), digits + tail.group(), tail.end()) if tail else (match.end(), digits, match.end())
    return end, text[start:end], end


def _commas(text: str, start: int, end: int, bracketed: bool, decimal_comma: bool) -> tuple[int, str, int]:
    run = _RUN.match(text, start)
    if run is None or run.end() <= end:
        return end, text[start:end], end
    groups = _SEPARATOR.split(run.group())
    bound = len(run.group()) > sum(map(len, groups)) + len(groups) - 1  # a separator that TeX typesets as part of a number
    first = groups[0]
    fits = len(first) <= 3 and first[0] != "0" and all(len(group) == 3 for group in groups[1:])
    if fits and (bound or not bracketed or any(group[0] == "0" for group in groups[1:])):
        tail = _DECIMALS.match(text, run.end())
        stop = tail.end() if tail else run.end()
        return stop, "".join(groups) + (tail.group() if tail else ""), stop
    if len(groups) == 2 and not bracketed:
        after = groups[1]
        if bound or decimal_comma or (first == "0" and (len(after) >= 3 or (len(after) == 2 and after[0] == "0"))):
            return run.end(), f"{first}.{after}", run.end()
    return end, text[start:end], run.end()


def literal(digits: str) -> Node:
    """Return the number that `digits` denote: `12`, `1.50`, `.5`, `3.`, `1.5e-3`.

    Raises:
        TooLarge: there are more than `MAX_DIGITS` characters.
    """
    if len(digits) > MAX_DIGITS:
        raise TooLarge(f"a number of {len(digits)} characters; at most {MAX_DIGITS}")
    if digits.isdigit():
        return Number(Fraction(int(digits)))
    mantissa, _, power = digits.replace("E", "e").partition("e")
    whole, _, decimals = mantissa.partition(".")
    value = Fraction(int(whole + decimals), 10 ** len(decimals))
    return scientific(value, len(decimals), int(power)) if power else Number(value, len(decimals))


def scientific(value: Fraction, decimals: int, power: int) -> Node:
    """Return `value` times ten to the power of `power`: one number, or a product if `power` exceeds `MAX_EXPONENT`.

    `decimals` is the number of decimal places with which `value` was written.
    """
    if abs(power) <= MAX_EXPONENT:
        return Number(value * Fraction(10) ** power, decimals, "scientific")
    size = Number(Fraction(abs(power)))
    return Mul((Number(value, decimals), Pow(Number(Fraction(10)), size if power > 0 else Neg(size))))


def repeating(digits: str, again: str) -> Number:
    r"""Return the number with the decimal `digits` and the repeating digits `again`: `0.1\overline{6}` for `0.1` and `6`.

    Raises:
        TooLarge: there are more than `MAX_DIGITS` characters.
    """
    whole, _, once = digits.partition(".")
    if len(digits) + len(again) > MAX_DIGITS:
        raise TooLarge(f"a number of {len(digits) + len(again)} characters; at most {MAX_DIGITS}")
    period = Fraction(int(again), (10 ** len(again) - 1) * 10 ** len(once))
    value = Fraction(int((whole or "0") + once), 10 ** len(once)) + period
    return Number(value, len(once) + len(again), "repeating")


_HAN_DIGITS = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_PLACES = {"十": 10, "百": 100, "千": 1000}
_HAN_NUMBER = re.compile(r"(负?)([零〇一二两三四五六七八九十百千]{1,9})")


def han_number(text: str) -> str | None:
    """Return the Arabic digits of `text` if it is a Chinese numeral below ten thousand (`十二` is 12), else None."""
    match = _HAN_NUMBER.fullmatch(text)
    if match is None:
        return None
    total, digit, smallest = 0, None, 10_000
    for char in match[2]:
        if char in _HAN_DIGITS:
            if digit:  # two digits in a row name no number
                return None
            digit = _HAN_DIGITS[char]
            continue
        place = _HAN_PLACES[char]
        if place >= smallest or digit == 0:
            return None
        total += (1 if digit is None else digit) * place
        digit, smallest = None, place
    return f"{'-' if match[1] else ''}{total + (digit or 0)}"
