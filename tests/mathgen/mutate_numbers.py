"""Mutations of numbers: digits, signs, powers, fractions, near values. Each changes the value by more than rounding could."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from typing import Any

from mathgen.registry import Registry, pure, signed_terms
from mathgen.text import compact, kind, plain_number, shell
from mathgen.value import value

NUMBERS = Registry()

_NUMBER = re.compile(r"\d{1,3}(?:(?:,|\{,\}|,\\!\s?)\d{3})+(?:\.\d+)?(?!\d)|\d+\.\d+|\.\d+|\d+")
_HIDDEN = re.compile(r"\\begin\{array\}\{[clr]+\}|\\(?:begin|end)\{[a-z]+\}|_\s*\{?\d+\}?")
_VALUES = ("integer", "decimal", "fraction", "scalar", "mixed")


def _numbers(body: str) -> list[re.Match[str]]:
    hidden = [match.span() for match in _HIDDEN.finditer(body)]
    return [found for found in _NUMBER.finditer(body) if not any(a <= found.start() < b for a, b in hidden)]


def _replaced(body: str, match: re.Match[str], new: str) -> str | None:
    old = match.group()
    plain = [Fraction(re.sub(r"[^\d.]", "", text) or "0") for text in (old, new)]
    return None if plain[0] == plain[1] else body[: match.start()] + new + body[match.end() :]


def _digits(text: str) -> list[int]:
    return [index for index, character in enumerate(text) if character.isascii() and character.isdigit()]


def _pick(body: str | None, rng: random.Random) -> re.Match[str] | None:
    found = _numbers(body) if body else []
    return rng.choice(found) if found else None


@NUMBERS
def digit_changed(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    match = _pick(body, rng)
    if body is None or match is None:
        return None
    old = match.group()
    at = rng.choice(_digits(old))
    return _replaced(body, match, old[:at] + rng.choice([d for d in "123456789" if d != old[at]]) + old[at + 1 :])


@NUMBERS
def digit_dropped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    match = _pick(body, rng)
    if body is None or match is None or not match.group().isdigit() or len(match.group()) < 2:
        return None
    at = rng.choice(_digits(match.group()))
    return _replaced(body, match, match.group()[:at] + match.group()[at + 1 :])


@NUMBERS
def digit_added(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    match = _pick(body, rng)
    if body is None or match is None or not re.fullmatch(r"\d+(?:\.\d+)?", match.group()):
        return None
    rest = body[match.end() :]
    if re.match(r"\s*(?:\\[dtc]?frac|,\s*\d)", rest) or re.search(r"frac\s*\d?\s*$", body[: match.start()]):
        return None
    if len(match.group()) == 1 and body[: match.start()].rstrip().endswith("}"):  # the one digit below \\frac{270}7
        return None
    return _replaced(body, match, match.group() + rng.choice("123456789"))


@NUMBERS
def digits_swapped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    match = _pick(body, rng)
    if body is None or match is None or not match.group().isdigit() or len(match.group()) < 2:
        return None
    old = match.group()
    at = rng.randrange(len(old) - 1)
    return _replaced(body, match, old[:at] + old[at + 1] + old[at] + old[at + 2 :])


@NUMBERS
def last_digit_off_by_one(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    match = _pick(body, rng)
    if body is None or match is None:
        return None
    old = match.group()
    return _replaced(body, match, old[:-1] + str((int(old[-1]) + rng.choice([1, 9])) % 10))


@NUMBERS
def point_moved(text: str, question: str, rng: random.Random) -> str | None:
    body = shell(text)
    number = plain_number(body)
    if number is None or not Fraction(number):
        return None
    whole, _, rest = number.partition(".")
    return (
        f"{whole}{rest[:1] or '0'}.{rest[1:] or '0'}"
        if rng.random() < 0.5 or len(whole) < 3
        else f"{whole[:-1]}.{whole[-1]}{rest}"
    )


@NUMBERS
def sign_flipped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in (*_VALUES, "percent", "degrees", "expression") or r"\pm" in body:
        return None
    if not re.search(r"[1-9A-Za-z]", body) or re.match(r"[A-Z]+$", body):
        return None
    terms = signed_terms(compact(body))
    if terms is None or len(terms) == 1:
        return body[1:].lstrip() if body.startswith("-") else f"-{body}"
    at = rng.randrange(len(terms))
    turned = [("-" if (sign == "+") is (index == at) else "+", term) for index, (sign, term) in enumerate(terms)]
    return " ".join(f"{sign} {term}" for sign, term in turned).removeprefix("+ ")


def _decimal(number: Any) -> str:
    return f"{float(number):.12g}"


def _near(text: str, question: str, factor: float) -> str | None:
    number = value(text) if kind(text, question) in _VALUES else None
    if number is None or number.imag or abs(number.real) > 1e300 or number.real == 0:
        return None
    near = number.real * factor
    short = _decimal(near)
    if not re.fullmatch(r"-?\d+\.\d+", short):
        return None
    half_a_digit = Fraction(1, 2 * 10 ** len(short.partition(".")[2]))  # 3.33333 is 10/3 rightly rounded
    return short if abs(Fraction(short) - Fraction(str(number.real))) > half_a_digit else None


@NUMBERS
def near_1e_4(text: str, question: str, rng: random.Random) -> str | None:
    return _near(text, question, 1.0001)


@NUMBERS
def near_1e_6(text: str, question: str, rng: random.Random) -> str | None:
    return _near(text, question, rng.choice([1 + 1e-6, 1 - 1e-6]))


@NUMBERS
def rounded_to_three_digits(text: str, question: str, rng: random.Random) -> str | None:
    number = (
        value(text) if kind(text, question) in (*_VALUES, "expression") and not re.search("[a-zA-Z]", _letters(text)) else None
    )
    if number is None or number.imag or not 1e-3 < abs(number.real) < 1e15:
        return None
    short = f"{float(number.real):.3g}"
    return None if "e" in short or abs(Fraction(short) - Fraction(str(number.real))) < abs(Fraction(short)) / 10**7 else short


def _letters(text: str) -> str:
    return re.sub(r"\\[A-Za-z]+", "", text)


@NUMBERS
def off_by_one(text: str, question: str, rng: random.Random) -> str | None:
    number = plain_number(shell(text))
    return str(int(number) + rng.choice([1, -1])) if number and "." not in number else None


@NUMBERS
def reciprocal(text: str, question: str, rng: random.Random) -> str | None:
    body = compact(shell(text))
    match = re.fullmatch(r"(-?\\[dtc]?frac)\{(.*)\}\{(.*)\}", body)
    if match and "}{" not in match[2] + match[3] and match[2] != match[3]:
        return f"{match[1]}{{{match[3]}}}{{{match[2]}}}"
    number = plain_number(body)
    return rf"\frac{{1}}{{{number}}}" if number and Fraction(number) not in (0, 1, -1) else None
