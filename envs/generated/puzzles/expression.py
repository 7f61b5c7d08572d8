r"""Parser of arithmetic: whole numbers, `+ - * /`, parentheses, `\frac`. Values are exact. Linear time, bounded depth."""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 300
DEEPEST = 40
_TOKEN = re.compile(r"\s*(?:([0-9]{1,9})(?![0-9.])|([-+*/(){}=])|(\\(?:frac|dfrac|tfrac)(?![A-Za-z])))", re.ASCII)
_SPELLED = {"\u00d7": "*", "\u2217": "*", "\u22c5": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "[": "(", "]": ")"}
_COMMANDS = re.compile(r"\\(times|cdot|ast|div|left|right|[Bb]igg?[lr]?)(?![A-Za-z])")
_MEANING = {"times": "*", "cdot": "*", "ast": "*", "div": "/"}
_UNBRACED = re.compile(r"\\[dt]?frac ?([0-9]) ?([0-9])")


class Unreadable(ValueError):
    """The text is not an arithmetic expression, or divides by zero.

    The message is the end of a sentence whose beginning, "the answer", the caller adds: "divides by zero", for example.
    """


class _Reader:
    """Reads tokens by recursive descent; `numbers` collects the numbers met."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.numbers = tokens, 0, list[int]()

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise Unreadable(f"lacks {expected!r}")
        self.at += 1

    def total(self, depth: int) -> Fraction:
        value = self.product(depth)
        while self.peek() in ("+", "-"):
            sign = self.peek()
            self.at += 1
            term = self.product(depth)
            value = value + term if sign == "+" else value - term
        return value

    def product(self, depth: int) -> Fraction:
        value = self.part(depth)
        while (sign := self.peek()) in ("*", "/"):
            self.at += 1
            factor = self.part(depth)
            value = value * factor if sign == "*" else _quotient(value, factor)
        return value

    def part(self, depth: int) -> Fraction:
        if depth > DEEPEST:
            raise Unreadable("is nested too deeply")
        token = self.peek()
        self.at += 1
        if token.isdigit():
            self.numbers.append(int(token))
            return Fraction(int(token))
        if token == "-":
            return -self.part(depth + 1)
        if token == "(":
            value = self.total(depth + 1)
            self.take(")")
            return value
        if token.startswith("\\"):
            return _quotient(self.braced(depth + 1), self.braced(depth + 1))
        raise Unreadable("is not a sum of whole numbers")

    def braced(self, depth: int) -> Fraction:
        self.take("{")
        value = self.total(depth)
        self.take("}")
        return value


def _quotient(value: Fraction, divisor: Fraction) -> Fraction:
    if not divisor:
        raise Unreadable("divides by zero")
    return value / divisor


def work_out(text: str) -> tuple[Fraction, list[int], Fraction | None]:
    """Return (value, numbers, stated) of the arithmetic expression `text`, beside which `= NUMBER` or `NUMBER =` may stand.

    `value` is the value of the expression, `numbers` are the numbers in it, in order, and `stated` is the number on the other
    side of the equals sign, or None if there is no equals sign. Of two numbers (`6 = 6`) the first is the expression.

    Raises:
        Unreadable: `text` is not an arithmetic expression, or divides by zero.
    """
    if len(text) > LONGEST:
        raise Unreadable(f"is longer than {LONGEST} characters")
    text = _COMMANDS.sub(lambda found: _MEANING.get(found[1], ""), text).strip().rstrip(".")
    text = _UNBRACED.sub(r"\\frac{\1}{\2}", text)
    text = "".join(_SPELLED.get(char, char) for char in text)
    tokens, place = [], 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise Unreadable("is not a sum of whole numbers")
        tokens.append(found[0].strip())
        place = found.end()
    if tokens.count("=") > 1:
        raise Unreadable("has more than one equals sign")
    if "=" not in tokens:
        return *_sum(tokens), None
    left, right = tokens[: tokens.index("=")], tokens[tokens.index("=") + 1 :]
    stated = _whole(right)
    if stated is not None:
        return *_sum(left), stated
    stated = _whole(left)
    if stated is None:
        raise Unreadable("has no number on either side of the equals sign")
    return *_sum(right), stated


def _sum(tokens: list[str]) -> tuple[Fraction, list[int]]:
    reader = _Reader(tokens)
    value = reader.total(0)
    if reader.at != len(tokens):
        raise Unreadable("is not one sum")
    return value, reader.numbers


def _whole(tokens: list[str]) -> Fraction | None:
    """Return the whole number that the tokens spell, if they are nothing else."""
    sign, digits = (-1, tokens[1:]) if tokens[:1] == ["-"] else (1, tokens)
    return Fraction(sign * int(digits[0])) if len(digits) == 1 and digits[0].isdigit() else None
