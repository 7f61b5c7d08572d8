"""Turns characters of other blocks and scripts into the ASCII signs and digits that they stand for, by their Unicode data.

A digit is what Unicode gives a value: mathematical bold, Arabic, circled, raised on its own, an ideograph. A sign is what its
Unicode name says: `HEAVY PLUS SIGN`, `DOT PLUS`, `MULTIPLICATION X`, any dash. Signs of other operations (circled, squared,
plus-minus) stay, and so does a digit that is none of these: a claim with one cannot be judged. This takes linear time.
"""

from __future__ import annotations

import re
import unicodedata

_NO_SIGNS = frozenset(
    # Names of other operations, of relations that order, and of pictures.
    "CIRCLED SQUARED PLUS-MINUS MINUS-OR-PLUS NOT LONG SET MULTISET UNION INTEGRAL SUBGROUP TILDE SIMILAR QUESTIONED PARALLEL "
    "LESS-THAN GREATER-THAN PRECEDES SUCCEEDS SUBSET SUPERSET SMALLER LARGER ELEMENT IMAGE ORIGINAL ARROW TRIANGLE-HEADED "
    "TRIANGLE CIRCLE INFINITY BAR LINE MUSICAL APL REVERSE REVERSED INVERSE TAG SOFT DIAMOND SQUARE STAR HEART TRAIN KANGXI "
    "YEZIDI RADICAL".split()
)
_KINDS = frozenset(("Sm", "So", "Sk", "Po", "Pd", "Cf", "Lm"))
_TYPES = frozenset("<font> <wide> <narrow> <small> <square> <compat> <fraction>".split())
_KEPT = frozenset("\u2026\u2025\u2024\u00b4\u00a8\u00b7\u2212\u2013\u2014\u2015\u00d7\u00f7\u203c\u2033\u2034\u2057")
_RAISED = "\u00b2\u00b3\u00b9\u2070-\u207f"
_LOWERED = "\u2080-\u208e"
_SCRIPTS = re.compile(rf"[{_RAISED}]+|[{_LOWERED}]+")
_IDEOGRAPHS = re.compile(r"[\u3007\u3400-\u9fff\uf900-\ufaff]+")
_ENTITY = re.compile(r"&(times|divide|plus|minus|sdot|middot|bull|equals|nbsp|ndash|mdash|lt|gt|le|ge|ne|asymp|frasl);")
_ENTITIES = dict(
    times="*", divide="/", plus="+", minus="-", sdot="*", middot="*", bull="\xb7", equals="=", nbsp=" ", ndash="\u2013",
    mdash="\u2014", lt="<", gt=">", le="<=", ge=">=", ne="!=", asymp="\u2248", frasl="/",
)  # fmt: skip


class _Readings(dict[int, str]):
    """What characters stand for, each found when it is first seen."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _reading(chr(code))
        return found


def readable(text: str) -> str:
    """Return `text` with ASCII signs and digits wherever a character stands for one."""
    if "&" in text:
        text = _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)
    if text.isascii():
        return text
    text = _IDEOGRAPHS.sub(_ideographs, _SCRIPTS.sub(_script, text))
    return text.translate(_READINGS)


def _reading(char: str) -> str:
    """Return what one character stands for; itself where nothing is known of it."""
    if char.isascii() or char in _KEPT or _SCRIPTS.match(char):
        return char
    kind = unicodedata.category(char)
    if kind == "Zs":
        return " "
    name = unicodedata.name(char, "")
    sign = _sign(name, kind) if kind in _KINDS else ""
    if sign:
        return sign
    if kind == "Cf" or name.startswith("VARIATION SELECTOR"):
        return ""
    decimal = unicodedata.decimal(char, None)
    if decimal is not None:
        return str(decimal)
    number = unicodedata.numeric(char, None)
    if number is not None:
        if number != int(number) or not unicodedata.decomposition(char):
            return char
        # Circled and bracketed ones are marks of list items, too.
        return f" {int(number)} " if kind == "Nl" else f"({int(number)}) " if kind == "No" else char
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() and unicodedata.decomposition(char).partition(" ")[0] in _TYPES else char


def _sign(name: str, kind: str) -> str:
    """Return the sign that a character of this Unicode name and category is, or nothing."""
    words = set(name.split())
    if words & _NO_SIGNS or (kind == "Cf" and "INVISIBLE" not in words):
        return ""
    if "BOX" in words:
        return "=" if name == "BOX DRAWINGS DOUBLE HORIZONTAL" else ""
    if words & {"EQUALS", "EQUAL"}:
        return "" if words & _ABOUT else "="
    if "DOUBLE" in words and "HYPHEN" in words:
        return "="
    signs = [sign for sign, names in _NAMES.items() if words & names]
    if "ASTERISK" in words and kind == "So" and name != "HEAVY ASTERISK":
        return ""
    if signs:
        return signs[0] if len(signs) == 1 else ""
    if {"CROSS", "PRODUCT"} <= words:
        return "*"
    if (
        ("DOT" in words and words & {"OPERATOR", "MIDDLE"})
        or "HYPHENATION" in words
        or ("BULLET" in words and "HYPHEN" not in words)
    ):
        return "\u00b7"
    if (kind == "Pd" and not words & {"WAVE", "WAVY"}) or "HYPHEN" in words:
        return "-"
    return "," if name == "INVISIBLE SEPARATOR" else ""


_ABOUT = frozenset("ALMOST APPROXIMATELY ASYMPTOTICALLY GEOMETRICALLY IDENTICAL".split())
_NAMES = {
    "+": frozenset(("PLUS",)),
    "-": frozenset(("MINUS",)),
    "*": frozenset(("MULTIPLICATION", "TIMES", "ASTERISK")),
    "/": frozenset(("DIVISION", "SOLIDUS", "SLASH")),
}


def _script(match: re.Match[str]) -> str:
    """Return raised or lowered characters as what they are: behind an operand a power or an index, else plain ones."""
    text = match[0]
    plain = unicodedata.normalize("NFKC", text).replace("\u2212", "-")
    before = match.string[match.start() - 1 : match.start()]
    index = (before.isalnum() or before in (")", "]", "}", "\u221a")) and bool(before)
    if not index or "=" in plain or not any(char.isalnum() for char in plain):
        return plain
    return text if text[0] not in "\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089" else f"_{{{plain}}}"


def _ideographs(match: re.Match[str]) -> str:
    """Return a number in ideographs as digits; other runs of ideographs unchanged."""
    values = [unicodedata.numeric(char, -1.0) for char in match[0]]
    if any(value < 0 or value != int(value) for value in values) or len(values) > 20:
        return match[0]
    if all(value < 10 for value in values):
        return "".join(str(int(value)) for value in values)
    total = section = digit = 0
    for value in map(int, values):
        if value < 10:
            digit = value
        elif value < 10_000:
            section, digit = section + (digit or 1) * value, 0
        else:
            total, section, digit = (total + section + digit) * value, 0, 0
    return str(total + section + digit)


_READINGS = _Readings()
