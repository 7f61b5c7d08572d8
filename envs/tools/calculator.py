"""A calculator: exact arithmetic on numbers, by a parser of our own."""

from __future__ import annotations

import re
from fractions import Fraction

from verigym.envs.tools.function import ToolError, tool

LONGEST = 400
DEEPEST = 40
MOST_BITS = 8192
_DIGITS = 12
_TOKEN = re.compile(r"\s*+(?:([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)|(\*\*|//|[-+*/%^()]))")
_SPELLED = str.maketrans({"\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-"})
_GROUPED = re.compile(r"(?<![0-9.])([0-9]{1,3})((?:,[0-9]{3})+)(?![0-9])")


@tool
def calculator(expression: str) -> str:
    """Work out an arithmetic expression, such as (3 + 4.5) * 12 ** 2 / 7. Operators: + - * / // % ** and parentheses."""
    if len(expression) > LONGEST:
        raise ToolError(f"the expression is longer than {LONGEST} characters")
    text = _GROUPED.sub(lambda match: match[0].replace(",", ""), expression.translate(_SPELLED)).strip()
    tokens, place = [], 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ToolError(f"not an arithmetic expression at {text[place : place + 20]!r}")
        tokens.append(match[1] or match[2])
        place = match.end()
    reader = _Reader(tokens)
    value = reader.total(0)
    if reader.at != len(tokens):
        raise ToolError(f"not an arithmetic expression at {tokens[reader.at]!r}")
    return _written(value)


class _Reader:
    """Recursive descent with Python's precedence: a power binds tighter than a sign before it, and to the right."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def take(self, *tokens: str) -> str:
        if self.at < len(self.tokens) and self.tokens[self.at] in tokens:
            self.at += 1
            return self.tokens[self.at - 1]
        return ""

    def total(self, depth: int) -> Fraction:
        value = self.product(depth)
        while sign := self.take("+", "-"):
            term = self.product(depth)
            value = _bounded(value + term if sign == "+" else value - term)
        return value

    def product(self, depth: int) -> Fraction:
        value = self.signed(depth)
        while sign := self.take("*", "/", "//", "%"):
            factor = self.signed(depth)
            if sign == "*":
                value = _bounded(value * factor)
            elif not factor:
                raise ToolError("division by zero")
            elif sign == "/":
                value = _bounded(value / factor)
            else:
                value = Fraction(value // factor) if sign == "//" else value % factor
        return value

    def signed(self, depth: int) -> Fraction:
        if depth > DEEPEST:
            raise ToolError("the expression is nested too deeply")
        if sign := self.take("-", "+"):
            value = self.signed(depth + 1)
            return -value if sign == "-" else value
        return self.power(depth)

    def power(self, depth: int) -> Fraction:
        base = self.atom(depth)
        return _power(base, self.signed(depth + 1)) if self.take("**", "^") else base

    def atom(self, depth: int) -> Fraction:
        if self.take("("):
            value = self.total(depth + 1)
            if not self.take(")"):
                raise ToolError("a parenthesis is not closed")
            return value
        if self.at == len(self.tokens):
            raise ToolError("the expression ends too soon")
        token = self.tokens[self.at]
        if not token[-1].isdigit() and not token[0].isdigit():
            raise ToolError(f"not an arithmetic expression at {token!r}")
        self.at += 1
        return Fraction(token.rstrip(".") if token.endswith(".") else token)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ToolError("an exponent has to be a whole number")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * size > MOST_BITS:
        raise ToolError("the result is too large")
    if not base and exponent < 0:
        raise ToolError("division by zero")
    return Fraction(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MOST_BITS:
        raise ToolError("the result is too large")
    return value


def _written(value: Fraction) -> str:
    """Return a whole number or a finite decimal exactly, and any other value as a fraction with a decimal beside it."""
    if value.denominator == 1:
        return str(value.numerator)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    decimals = max(_exponent(value.denominator, 2), _exponent(value.denominator, 5))
    if rest == 1 and decimals <= _DIGITS:
        digits = str(abs(value.numerator) * 10**decimals // value.denominator).rjust(decimals + 1, "0")
        return f"{'-' if value < 0 else ''}{digits[:-decimals]}.{digits[-decimals:]}"
    try:
        return f"{value} (about {float(value):.{_DIGITS}g})"
    except OverflowError:
        return str(value)


def _exponent(number: int, prime: int) -> int:
    count = 0
    while number % prime == 0:
        number //= prime
        count += 1
    return count
