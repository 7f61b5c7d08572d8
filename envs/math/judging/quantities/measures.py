"""Compares units, and decides whether a unit may be left out. Nothing is converted: 100 cm is no answer where 1 m is asked."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import takewhile

from verigym.envs.latex.units import is_plural, known_unit, singular
from verigym.envs.math.judging.question import MAX_CHARS
from verigym.envs.math.judging.texts import hedges, takes_back

# Signs and words that stand for more than one unit.
_READINGS = {"¥": ("yen", "yuan"), "pound sterling": ("pound",)}


def same_unit(one: str, two: str) -> bool:
    """Return whether `one` and `two` are two spellings of the same unit, such as `kg*m^2` and `m^2*kg`.

    The sign that yen and yuan share is the same as either of them.
    """
    return one == two or not _readings(one).isdisjoint(_readings(two))


Factors = tuple[tuple[str, int], ...]


@lru_cache(maxsize=1024)
def _readings(unit: str) -> frozenset[Factors]:
    spellings = [unit]
    for sign, names in _READINGS.items():
        if sign in unit:
            spellings += [unit.replace(sign, name) for name in names]
    return frozenset(map(factors, spellings))


def factors(unit: str) -> Factors:
    """Return the factors of `unit` with their powers, sorted. Factors that cancel are left out: `cm/cm` has none.

    In `J/kg*K`, a product after a quotient, it is unclear what is divided, so such a unit is a single factor.
    """
    over, *under = unit.split("/")
    if any("*" in part for part in under):
        return ((unit.casefold(), 1),)
    powers: Counter[str] = Counter()
    for parts, sign in ((over.split("*"), 1), (under, -1)):
        for part in parts:
            name, _, power = part.partition("^")
            whole = _WHOLE_POWER.fullmatch(power) is not None
            name = name if whole or not power else part
            powers[_named(name)] += sign * (int(power) if whole else 1)
    return tuple(sorted((name, power) for name, power in powers.items() if power))


def _named(word: str) -> str:
    return known_unit(word) or word.casefold()


def product(one: str, two: str) -> str | None:
    """Return the unit of the product of quantities in the units `one` and `two`; None if it cannot be written unambiguously."""
    if "/" in one:
        one, two = two, one
    return None if "/" in one else f"{one}*{two}"


def quotient(one: str, two: str) -> str | None:
    """Return the unit of the quotient of quantities in the units `one` and `two`.

    It is None if the quotient has no unit, or the unit cannot be written unambiguously.
    """
    if not two:
        return one
    return None if not one or "/" in two or "*" in two else f"{one}/{two}"


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
    """Return whether a value keeps its meaning without `unit`: true of `cm` and `apples`, not of `dozen` or `below zero`."""
    words = _WORDS.findall(unit)
    if unit.startswith(("$", "€", "£", "°", "¥", "₹")) or not words:
        return True
    if len(unit) == 1 and unit.isascii():
        return unit in _LETTERS
    return len(words) <= 4 and not hedges(_POWER.sub("", unit)) and _NOT_UNITS.isdisjoint(word.lower() for word in words)


_SCALES = frozenset(
    "hundred thousand million billion trillion mil mn bn k dozen ten one two halve half third quarter gross grand score "
    "percent percentage pct pp bps pi lakh crore".split()
)
_HOW_MANY = re.compile(r"\bhow many ((?:[a-z]+(?:-[a-z]+)*[ \n]+){0,7}[a-z]+(?:-[a-z]+)*)", re.IGNORECASE)
_AFTER = frozenset(
    "is are was were be been am do does did will would can could should must may might have has had there that which who whom "
    "with without in on at to from by for if so such between among and or than then as when where while he she it they we you "
    "the this these those his her its their".split()
)


@lru_cache(maxsize=256)
def counted_things(question: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of what a question counts: `intersection points` of `How many intersection points are there?`."""
    counted = []
    for match in _HOW_MANY.finditer(question[:MAX_CHARS]):
        words = match.group(1).lower().split()
        counted.append(tuple(takewhile(lambda word: word not in _AFTER, words)))
    return tuple(words for words in counted if words)


def is_asked(unit: str, question: str) -> bool:
    """Return whether `question` asks how many `unit` there are, so that the unit adds nothing to the number.

    The unit must be a plural in the question. Words for a scale, such as `dozen`, count only directly after `how many`. A unit
    that could take the answer back, such as `wrong answers`, counts only if the question asks for exactly these words.
    """
    given = tuple(map(singular, unit.strip(" .").split()))
    if not given or "^" in unit or "how many" not in question.lower():
        return False
    scaled = not _SCALES.isdisjoint(given) or _NUMBERS.search(" ".join(given)) is not None
    for words in counted_things(question):
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


_ANGULAR = re.compile(
    r"angle|degree|temperature|celsius|fahrenheit|rotat|turn|bearing|latitude|longitude|triang|polygon|circ|\barcs?\b|"
    r"\\(?:sin|cos|tan|theta|alpha|beta|gamma|phi)|°",
    re.IGNORECASE,
)


def counts_things(question: str) -> bool:
    """Return whether `question` asks how many things there are, and mentions nothing measured in degrees, such as angles."""
    return bool(counted_things(question)) and not _ANGULAR.search(question)


_NUMBERS = re.compile(r"\d|\b(?:zero|three|four|five|six|seven|eight|nine|\w+teen|\w+ty|eleven|twelve)\b")
_WHOLE_POWER = re.compile(r"-?[0-9]{1,3}")
_POWER = re.compile(r"\^\{?-?[0-9]\}?")
