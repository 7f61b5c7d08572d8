r"""A small evaluator of LaTeX scalars, to see independently of the grader whether two texts mean the same number.

It reads what the generators meet most and returns None for the rest. Letters get values by hash, so expressions compare too.
"""

from __future__ import annotations

import re
from typing import Any

import mpmath  # type: ignore[import-untyped]

from mathgen.text import compact, plain_number, seeded, shell, tokens

_MP = mpmath.MPContext()
_MP.dps = 60
_FUNCTIONS = {r"\sin": "sin", r"\cos": "cos", r"\tan": "tan", r"\ln": "ln", r"\log": "log10", r"\cot": "cot", r"\sec": "sec"}
_GREEK = frozenset(
    (r"\alpha", r"\beta", r"\theta", r"\omega", r"\tau", r"\lambda", r"\zeta", r"\sigma", r"\delta", r"\rho", r"\mu")
)


class _Unread(Exception):
    pass


def value(text: str) -> Any:
    """Return a complex number of 60 digits, or None where the text is no scalar that this reads."""
    try:
        body = compact(_as_latex(shell(text))).rstrip(".")
        number = plain_number(body)
        return _MP.mpc(number) if number else _Reader(tokens(body.replace("{,}", ""))).whole()
    except (_Unread, ZeroDivisionError, ValueError, OverflowError, IndexError, mpmath.libmp.ComplexResult):
        return None


def differ(one: str, other: str) -> bool | None:
    """Say whether two scalars are different numbers; None where one of them cannot be read."""
    left, right = value(one), value(other)
    if left is None or right is None:
        return None
    return bool(abs(left - right) > _MP.mpf(10) ** -40 * (abs(left) + abs(right)))


def _as_latex(text: str) -> str:
    """Turn the plain text that the generators write (`sqrt(2)*pi`, `1.5e3`) into LaTeX."""
    for plain, latex in (
        (r"(?<![\\a-z])(sqrt|pi|sin|cos|ln)(?![a-z])", r"\\\1 "),
        ("π", r"\\pi "),
        ("−", "-"),
        ("√", r"\\sqrt "),
    ):
        text = re.sub(plain, latex, text)
    text = re.sub(r"(\d)[eE]([-+]?\d+)", r"\1\\cdot 10^{\2}", text)
    text = re.sub(
        r"(?<!\d)(\d+)\s*\\[dtc]?frac\s*(?:\{\s*(\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))", r"(\1+\\frac{\2\3}{\4\5})", text
    )
    text = re.sub(r"(?<!\d)(\d+) (\d+)/(\d+)$", r"(\1+\2/\3)", text)
    if re.search(r"[^\x00-\x7f]|[a-zA-Z]{3}", re.sub(r"\\[A-Za-z]+", "", text)):
        raise _Unread
    return text


class _Reader:
    """Recursive descent over tokens without spaces."""

    def __init__(self, items: list[str]) -> None:
        self.items = [item for item in items if not item.isspace()]
        self.at = 0

    def whole(self) -> Any:
        result = self.sum()
        if self.at < len(self.items):
            raise _Unread
        return result

    def peek(self) -> str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise _Unread
        self.at += 1
        return token

    def sum(self) -> Any:
        total = self.signed()
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            total = total + term if sign == "+" else total - term
        return total

    def signed(self) -> Any:
        if self.peek() in ("+", "-"):
            return -self.signed() if self.take() == "-" else self.signed()
        return self.product()

    def product(self) -> Any:
        total = self.power()
        while self.peek():
            token = self.peek()
            if token in (r"\cdot", r"\times", "*"):
                self.take()
                total = total * self.factor()
            elif token in ("/", r"\div"):
                self.take()
                total = total / self.factor()
            elif token in ("+", "-", ")", "]", "}", r"\rfloor", r"\rceil", ","):
                break
            else:
                total = total * self.power()
        return total

    def factor(self) -> Any:
        return -self.factor() if self.peek() == "-" and self.take() else self.power()

    def power(self) -> Any:
        base = self.atom()
        while self.peek() in ("^", "!"):
            if self.take() == "!":
                base = _MP.factorial(base) if base.imag == 0 and 0 <= base.real < 3000 else self.fail()
            elif self.peek() == r"\circ" or self.items[self.at : self.at + 3] == ["{", r"\circ", "}"]:
                raise _Unread
            else:
                exponent = self.argument()
                if abs(exponent) > 20_000:
                    raise _Unread
                base = _MP.power(base, exponent)
        return base

    def fail(self) -> Any:
        raise _Unread

    def argument(self) -> Any:
        if self.peek() == "{":
            return self.bracket("{", "}")
        token = self.peek()
        if token.isdigit() and len(token) > 1:  # \frac12: one digit is the argument
            self.items[self.at : self.at + 1] = list(token)
        return self.atom()

    def bracket(self, opening: str, closing: str) -> Any:
        self.take(opening)
        inner = self.sum()
        self.take(closing)
        return inner

    def atom(self) -> Any:
        token = self.peek()
        if token in ("(", "{", "["):
            return self.bracket(token, {"(": ")", "{": "}", "[": "]"}[token])
        if token == r"\lfloor":
            return _MP.mpc(_MP.floor(self.bracket(token, r"\rfloor").real))
        self.take()
        if token[0].isdigit() or (token[0] == "." and len(token) > 1):
            return _MP.mpc(token)
        return self.named(token)

    def named(self, token: str) -> Any:
        if token in (r"\frac", r"\dfrac", r"\tfrac", r"\cfrac"):
            top = self.argument()
            return top / self.argument()
        if token == r"\sqrt":
            degree = self.bracket("[", "]") if self.peek() == "[" else 2
            return _MP.power(self.argument(), _MP.mpf(1) / degree)
        if token in _FUNCTIONS and self.peek() not in ("^", "_"):
            return getattr(_MP, _FUNCTIONS[token])(self.power())
        if token in (r"\pi", "i", "e"):
            return {r"\pi": _MP.mpc(_MP.pi), "i": _MP.mpc(0, 1), "e": _MP.mpc(_MP.e)}[token]
        if (token.isalpha() and len(token) == 1) or token in _GREEK:
            name = token
            if self.peek() == "_":
                self.take()
                subscript = self.take()
                name += "_" + (self.take() if subscript == "{" else subscript)
                if subscript == "{":
                    self.take("}")
            return _MP.mpc(seeded("value of", name).uniform(1.5, 3.5))
        raise _Unread
