"""Finds the units that a question asks for, and tells whether an answer's unit is another one."""

from __future__ import annotations

import re
from functools import lru_cache

from verigym.envs.latex.units import dimension, known_unit, singular
from verigym.envs.math.judging.quantities.conversions import kind_of
from verigym.envs.math.judging.quantities.measures import Factors, counted_things, factors, same_unit
from verigym.envs.math.judging.question import MAX_CHARS

_CURRENCIES = ("euro", "pound sterling", "yen", "yuan", "rupee")
_SYSTEMS = {"inch": "m", "ounce": "g", "gallon": "l"} | dict.fromkeys(_CURRENCIES, "dollar")
_WORD = r"[A-Za-z\u00b5]{1,20}"
_REQUEST = re.compile(
    rf"\b(?:how many|in|number of) +((?:(?:square|sq|cubic|cu)\b\.? *)?{_WORD}"
    rf"(?:(?: +per +| ?/ ?){_WORD}(?:\^?[23]|[\u00b2\u00b3])?)?)"
    r"(?P<end> *(?:[?.,;:)]|$))?",
    re.IGNORECASE,
)
_LAST = re.compile(r"[.?!](?=\s|$)")
_COUNTS = frozenset("unit unit^2 point person child man woman piece time way degree".split())
_TEMPERATURES = ("°", "celsius", "fahrenheit", "kelvin")
_MONEY = frozenset(("dollar", "cent", *_CURRENCIES))
_LITRES = {"ml": "cm^3", "l": "dm^3"}
_RAISED = {"\u00b2": "2", "\u00b3": "3"}
_OTHERWISE = re.compile(r"\b(?:how much|what|which|find|cost|costs|price|pays?)\b", re.IGNORECASE)
_RATE = re.compile(r"\b(?:per|each|every|rate|speed|fast|average)\b|/", re.IGNORECASE)


def contradicts(unit: str, question: str) -> bool:
    """Return whether `question` asks for another unit than `unit`.

    It does if it asks for one of the same kind, as hours instead of minutes, anywhere; if its last sentence asks for a unit and
    this one measures something else, as square feet instead of feet; or if its last sentence counts things that are no units.
    """
    given, kind = _measured(unit)
    if not kind:
        return False
    anywhere, last, counts = _requested(question)
    if any(same_unit(given, one) or same_unit(_LITRES.get(given, given), one) for one in anywhere):
        return False
    if given in _MONEY and any(one.startswith(f"{given}/") for one in anywhere):
        return False  # $4 where dollars per hour are asked
    if any(_measured_kind(one) == kind for one in anywhere):
        return True
    physical = all(known_unit(name) and name not in _COUNTS for name, _ in factors(given))
    if not physical or given.lower().startswith(_TEMPERATURES):
        return False
    return counts or bool(last)


@lru_cache(maxsize=256)
def _requested(question: str) -> tuple[frozenset[str], frozenset[str], bool]:
    """Return the units that a question names, those that its last sentence asks for, and whether that counts other things."""
    text = question[:MAX_CHARS]
    anywhere = frozenset(unit for match in _REQUEST.finditer(text) for unit in _read(match[1]))
    ends = [match.end() for match in _LAST.finditer(text) if match.end() < len(text.rstrip())]
    sentence = text[ends[-1] if ends else 0 :]
    last: set[str] = set()
    for match in _REQUEST.finditer(sentence):
        units = _read(match[1])
        asked = match.group().lower().startswith(("how", "number")) and not _RATE.search(sentence)
        if any(sign in unit for unit in units for sign in "^/") or match["end"] is not None or asked:
            last.update(units[:1])
    if any(unit.lower().startswith(_TEMPERATURES) for unit in anywhere) or re.search("celsius|fahrenheit", text, re.IGNORECASE):
        last.clear()
    counted = [word for words in counted_things(sentence) for word in words]
    counts = bool(counted) and not _OTHERWISE.search(sentence) and not any(map(_known, counted))
    return anywhere, frozenset(last), counts


def _read(words: str) -> list[str]:
    """Return the unit that words spell, the whole of them first: `foot^2` and `foot` for `square feet`."""
    over, _, under = re.sub(r" +per +| ?/ ?", "/", words.strip()).partition("/")
    parts = over.replace(".", " ").split()
    power = dimension(parts[0]) or "" if len(parts) > 1 else ""
    top = _known(parts[-1])
    if top is None:
        return []
    whole = top + power
    if under:
        bottom = _known(re.sub(r"\^?[23]|[\u00b2\u00b3]", "", under))
        if bottom is None:
            return [whole]
        raised = re.search(r"[23\u00b2\u00b3]", under)
        whole += f"/{bottom}" + (f"^{_RAISED.get(raised[0], raised[0])}" if raised else "")
    return [whole]


def _known(word: str) -> str | None:
    return known_unit(word) or known_unit(singular(word))


@lru_cache(maxsize=1024)
def _measured(unit: str) -> tuple[str, Factors]:
    """Return the unit's name and dimension; no dimension for words such as apples."""
    given = known_unit(unit)
    return (given or unit, () if given is None and unit.isalpha() else _measured_kind(given or unit))


def _measured_kind(unit: str) -> Factors:
    """Return the dimension of a unit: equal for miles and kilometres."""
    return tuple(sorted((_SYSTEMS.get(name, name), power) for name, power in kind_of(unit)))
