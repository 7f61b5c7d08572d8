"""Are two units one, and is a word one at all? Nothing is converted: 100 cm is not given where 1 m is asked."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile

from verigym.envs.maths.judging.question import MAX_CHARS
from verigym.envs.maths.judging.texts import hedges, takes_back
from verigym.envs.maths.reading.units import CASED, is_plural, singular

_SPELLINGS = {
    "cm": "centimeter centimetre", "mm": "millimeter millimetre", "km": "kilometer kilometre", "m": "meter metre",
    "kg": "kilogram kilo", "g": "gram gramme gm", "mg": "milligram", "l": "liter litre", "ml": "milliliter millilitre",
    "ft": "foot feet", "in": "inch inche", "yd": "yard", "mi": "mile", "lb": "pound lbs", "oz": "ounce", "gal": "gallon",
    "s": "second sec", "min": "minute", "h": "hour hr", "day": "days d", "week": "wk", "year": "yr", "month": "mo",
    "degree": "deg °", "dollar": "$ usd buck", "cent": "¢", "euro": "€ eur", "rupee": "₹ rs",
    "n": "newton", "j": "joule", "w": "watt", "pa": "pascal", "hz": "hertz", "v": "volt", "a": "ampere amp",
}  # fmt: skip
_UNIT = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in (unit, *spellings.split())}
_POWERS = {"square": "^2", "sq": "^2", "sq.": "^2", "cubic": "^3", "cu": "^3", "cu.": "^3"}


def same_unit(one: str, two: str) -> bool:
    """Whether two units are one, written in two ways: `square centimeters` and `cm^2`."""
    return one == two or _settled(one) == _settled(two)


def _settled(unit: str) -> tuple[str, ...]:
    text = unit.replace("mph", "mi/h").replace("²", "^2").replace("³", "^3").replace("{", "").replace("}", "")
    text = text.replace(" per ", "/").replace("squared", "^2").replace("cubed", "^3").replace("/", " / ").replace("^", " ^")
    parts: list[str] = []
    power = ""
    for word in text.split():
        word = word if word in CASED else word.casefold()  # mW is not MW
        if word in _POWERS:
            power = _POWERS[word]
            continue
        bare = word.removesuffix("s") if len(word) > 2 else word  # ms is no plural of m
        parts.append(_UNIT.get(word) or _UNIT.get(bare) or (bare if len(word) > 2 else word))
        if power:
            parts.append(power)
            power = ""
    return tuple(parts)


# Words that add, change or take back an answer, and so are never a unit that may be missing.
_NOT_UNITS = frozenset(
    "and not then than to plus minus times more less most least about over by of hundred hundreds thousand thousands "
    "million millions billion billions trillion mil mn bn k dozen dozens tens ones twos halves third thirds quarters pi "
    "sqrt sin cos tan log ln exp inf infinity mod modulo remainder rem basis base negative neg percentage pct pp bps "
    "squared cubed root factorial roots double triple twice thrice gross grand score ish hmm so "
    "below above under off ths th st nd rd wait percent".split()
)
_LETTERS = frozenset("m g s h l N J W V A C F K T L d".split())
_WORDS = re.compile(r"[^\W\d_]+")


def is_missable(unit: str) -> bool:
    """Whether a value without this unit is the same value: true of `cm` and `apples`, not of `dozen` or `below zero`."""
    found = _WORDS.findall(unit)
    if unit.startswith(("$", "€", "£", "°", "¥", "₹")) or not found:
        return True
    if len(unit) == 1 and unit.isascii():
        return unit in _LETTERS
    return len(found) <= 4 and not hedges(_POWER.sub("", unit)) and _NOT_UNITS.isdisjoint(word.lower() for word in found)


_SCALES = frozenset(
    "hundred thousand million billion trillion mil mn bn k dozen ten one two halve half third quarter gross grand score "
    "percent percentage pct pp bps pi lakh crore".split()
)
_ASKED = re.compile(r"\bhow many ((?:[a-z]+(?:-[a-z]+)*[ \n]+){0,7}[a-z]+(?:-[a-z]+)*)", re.IGNORECASE)
_AFTER = frozenset(
    "is are was were be been am do does did will would can could should must may might have has had there that which who whom "
    "with without in on at to from by for if so such between among and or than then as when where while he she it they we you "
    "the this these those his her its their".split()
)


@lru_cache(maxsize=256)
def _asked(question: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of what a question counts: `intersection points` of `How many intersection points are there?`."""
    found = []
    for match in _ASKED.finditer(question[:MAX_CHARS]):
        words = match.group(1).lower().split()
        found.append(tuple(takewhile(lambda word: word not in _AFTER, words)))
    return tuple(words for words in found if words)


def is_asked(unit: str, question: str) -> bool:
    """Whether a question asks how many of these there are, so that the words add nothing to the number.

    They end in a plural. Scale words count only where they come first in what is asked (`how many dozen`), and words that take
    an answer back only as all of it (`how many wrong answers`).
    """
    given = tuple(map(singular, unit.strip(" .").split()))
    if not given or "^" in unit or "how many" not in question.lower():
        return False
    scaled = not _SCALES.isdisjoint(given) or _NUMBERS.search(" ".join(given)) is not None
    for words in _asked(question):
        alike = tuple(map(singular, words))
        if takes_back(" ".join(given)):
            if given == alike and is_plural(words[-1]):
                return True
            continue
        for start in range(1 if scaled else len(words)):
            end = start + len(given)
            if alike[start:end] == given and (is_plural(words[end - 1]) or given[-1] in _SCALES):
                return True
    return False


_NUMBERS = re.compile(r"\d|\b(?:zero|three|four|five|six|seven|eight|nine|\w+teen|\w+ty|eleven|twelve)\b")
_POWER = re.compile(r"\^\{?-?[0-9]\}?")
