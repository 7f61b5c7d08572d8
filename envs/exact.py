r"""The exact tier: numbers as fractions, compared without tolerance. 0.333 is not 1/3; 1234567890123 is not 1234567890124.

Percent: `50\%` is the value 1/2. Whether a percent sign may be missing is the option `percent`:
- `value`: never;
- `gold` (default): a gold written with a percent sign also accepts the bare number (28 for `28\%`: a percentage was asked for);
- `either`: a bare gold also accepts the same number with a percent sign.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, NamedTuple

from verigym.envs.mathtext import clean, split_unit

PercentPolicy = Literal["value", "gold", "either"]

MAX_CHARS = 1_000
MAX_EXPONENT = 1_000

_PLAIN = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)"
_GROUPED = r"[1-9][0-9]{0,2}(?:,[0-9]{3})++(?:\.[0-9]++)?|[1-9][0-9]{0,2}(?: [0-9]{3})++(?:\.[0-9]++)?"
_POWER = r"(?:\s*+(?:\\times|\\cdot|x|\*)\s*+10\s*+\^\s*+\{?\s*+(?P<power>[-+]?[0-9]{1,4})\s*+\}?|[eE](?P<e>[-+]?[0-9]{1,4}))"

_NUMBER = re.compile(rf"(?P<digits>{_GROUPED}|{_PLAIN}){_POWER}?+")
_SLASH = re.compile(rf"(?P<n>[-+]?{_PLAIN})\s?/\s?(?P<d>{_PLAIN})")
_FRAC = re.compile(
    rf"\\frac\s?\{{\s?(?P<n>[-+]?\s?(?:{_GROUPED}|{_PLAIN}))\s?\}}\s?\{{\s?(?P<d>[-+]?\s?(?:{_GROUPED}|{_PLAIN}))\s?\}}"
)
_MIXED = re.compile(r"(?P<whole>[0-9]++)(?:\s?(?=\\frac)|\s)(?P<fraction>.++)")
_PERCENT = re.compile(r"\s*+(?:%|per ?cent(?:age)?|pct|\\text\s?\{\s?(?:per ?cent(?:age)?|pct|%)\s?\})$")
_PARENTHESES = re.compile(r"\(([^()]*+)\)|\{([^{}]*+)\}|\\text\s?\{([^{}]*+)\}")
_REPEATING = re.compile(r"(?P<whole>[0-9]*+)\.(?P<once>[0-9]*+)\\(?:overline|bar) ?\{?(?P<again>[0-9]++)\}?")


class Number(NamedTuple):
    """A literal number: its value, whether it was written with a percent sign, and the unit after it."""

    value: Fraction
    percent: bool = False
    unit: str = ""


def parse(text: str) -> Number | None:
    """Return the number that the text writes as a literal; None of anything else, and of numbers too large to be worth it."""
    if len(text) > MAX_CHARS:
        return None
    text, unit = split_unit(clean(text))
    percent = _PERCENT.search(text)
    if percent:
        text = text[: percent.start()].rstrip()
    value = _signed(text)
    if value is None:
        return None
    return Number(value / 100 if percent else value, bool(percent), unit)


def compare(gold: str, answer: str, percent: PercentPolicy = "gold") -> bool | None:
    """Say whether two literals are the same number; None where either is no literal."""
    left, right = parse(gold), parse(answer)
    if left is None or right is None:
        return None
    if left.unit and right.unit and left.unit != right.unit:
        return False
    if left.value == right.value:
        return True
    if left.percent and not right.percent and percent != "value":
        return left.value * 100 == right.value
    if right.percent and not left.percent and percent == "either":
        return left.value == right.value * 100
    return False


def is_bare(text: str) -> bool:
    """Whether the text is a single decimal or integer literal: no fraction, nothing to work out."""
    text = split_unit(clean(text))[0]
    return _NUMBER.fullmatch(_PERCENT.sub("", text).lstrip("+- ")) is not None


def _signed(text: str) -> Fraction | None:
    """Parse a sign, then an unsigned literal, in at most two pairs of parentheses or braces."""
    sign = 1
    for _ in range(3):
        text = text.strip()
        if text[:1] in ("-", "+"):
            sign = -sign if text[0] == "-" else sign
            value = _unsigned(text[1:].lstrip())
        else:
            value = _unsigned(text)
        if value is not None:
            return sign * value
        inner = _PARENTHESES.fullmatch(text[1:].lstrip() if text[:1] in ("-", "+") else text)
        if not inner:
            return None
        text = inner.group(inner.lastindex or 0)
    return None


def _unsigned(text: str) -> Fraction | None:
    match = _NUMBER.fullmatch(text)
    if match:
        return _scaled(match)
    match = _SLASH.fullmatch(text) or _FRAC.fullmatch(text)
    if match:
        bottom = _decimal(match["d"])
        return _decimal(match["n"]) / bottom if bottom else None
    match = _REPEATING.fullmatch(text)
    if match:
        once, again = match["once"], match["again"]
        tail = Fraction(int(again), (10 ** len(again) - 1) * 10 ** len(once))
        return Fraction(f"{match['whole'] or 0}.{once or 0}") + tail
    match = _MIXED.fullmatch(text)
    if match and match["fraction"][:1] not in ("-", "+") and not _NUMBER.fullmatch(match["fraction"]):
        part = _unsigned(match["fraction"])
        # 2\frac{10}{3} is a product or a slip, not a mixed number.
        return Fraction(int(match["whole"])) + part if part is not None and 0 < part < 1 else None
    return None


def _scaled(match: re.Match[str]) -> Fraction | None:
    exponent = int(match["power"] or match["e"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    return _decimal(match["digits"]) * Fraction(10) ** exponent


def _decimal(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").replace(" ", ""))
