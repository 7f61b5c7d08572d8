r"""Finds the suffix of a box that belongs to its answer, as in `\boxed{28}\%`, `\boxed{204}_5`, `\boxed{5}$ square miles`."""

from __future__ import annotations

import re

from verigym.envs.latex.units import dimension, formula_unit, known_unit

_REACH = 120
_SKIP = r"(?:[ \t$*}~]|\\[)\],;:! ])*"
_POWER = r"\^\{?[23]\}?"
_SIGN = re.compile(rf"{_SKIP}(?P<sign>\\?%|\uff05|\u00b0|\^\s?\{{?\\circ\}}?|\\(?:degree|circ)(?![A-Za-z]))")
_IN_TEXT = re.compile(
    rf"{_SKIP}\\(?:text|textbf|mathrm|mbox)\s?\{{(?P<words>[^{{}}]{{1,60}})\}}(?P<power>\s?{_POWER})?",
)
_IN_WORDS = re.compile(
    rf"{_SKIP}(?P<words>[^\W\d_]++(?: [^\W\d_]++){{0,3}})(?P<power>\$?{_POWER}\$?|[\u00b2\u00b3])?",
)
# A letter is a unit only at the end of a sentence or formula.
_LETTER = re.compile(rf"{_SKIP}(?P<unit>[A-Za-z])(?P<power>\s?{_POWER}|[\u00b2\u00b3])?(?=[ \t]*+(?:[.,;)$\n]|\\[)\]]|\Z))")
_BASE = re.compile(r"_(?:[0-9](?![0-9])|\{[0-9]{1,2}\})")
_PERCENT = frozenset("percent pct percents".split())
_SCALES = frozenset("hundred thousand million billion trillion lakh crore dozen".split())

_PLAIN = _SCALES | {"square", "cubic"}


def after_box(text: str, start: int = 0) -> str:
    r"""Return the percent sign, degree sign, base, scale word or unit at `start` in `text`, or an empty string.

    Inside a formula, a unit such as `m` would be parsed as a variable, so it is returned as `\text{m}`.
    """
    text = text[start : start + _REACH]
    sign = _SIGN.match(text)
    if sign:
        return sign["sign"]
    base = _BASE.match(text)
    if base:
        return base.group()
    letter = _LETTER.match(text)
    if letter:
        return rf"\text{{{letter['unit']}}}{(letter['power'] or '').strip()}" if known_unit(letter["unit"]) else ""
    found, known = _IN_TEXT.match(text), known_unit
    if found is None:
        found, known = _IN_WORDS.match(text), formula_unit
    words = found["words"].replace("/", " per ").split() if found else []
    if not found or not words:
        return ""
    first = words[0].lower()
    if first in _PERCENT or [first, *words[1:2]] == ["per", "cent"]:
        return "percent" if words[1:2] not in (["point"], ["points"]) else ""
    taken = 1 if first in _SCALES else 0
    rest = words[taken:]
    if len(rest) > 1 and dimension(rest[0]) and known(rest[1]):
        taken += 2
    elif rest and (known(rest[0]) or (rest == ["in"] and found["power"])):
        taken += 3 if rest[1:2] == ["per"] and len(rest) > 2 and known_unit(rest[2]) else 1
    power = (found["power"] or "").replace("$", "").strip()
    unit = " ".join(words[:taken])
    if unit == "in" and len(words) > 1:  # a preposition
        return ""
    if any(word.lower() not in _PLAIN and formula_unit(word) is None for word in unit.split(" per ")[0].split()):
        unit = rf"\text{{{unit}}}"  # `m`, `in` and `sq` are letters and words in a formula
    return unit + (power if taken == len(words) else "")
