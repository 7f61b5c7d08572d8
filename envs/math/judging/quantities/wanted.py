"""In what the question wants its answer: per cent, hours. A gold need not repeat it."""

from __future__ import annotations

import re
from functools import lru_cache

from verigym.envs.latex.units import known_unit, singular
from verigym.envs.math.judging.quantities.conversions import kind_of
from verigym.envs.math.judging.quantities.measures import Factors
from verigym.envs.math.judging.question import MAX_CHARS

_PERCENT = re.compile(
    r"\b(?:what|how many|which|find|determine|calculate|compute|give|state)(?: is| was| are| were)?(?: the| its)?"
    r"(?: (?:total|overall|approximate|exact|average|final|least|greatest|smallest|largest|maximum|minimum|annual|net))?"
    r" percent(?:age)?s?\b|\b(?:as|to|into) an? percent(?:age)?\b|\b(?:in|nearest(?: [a-z]+)?) percent\b|"
    r"\b(?:percent(?:age)?|%) (?:sign|symbol)\b",
    re.IGNORECASE,
)
_SYSTEMS = {"inch": "m", "ounce": "g", "gallon": "l"}
_UNIT = re.compile(r"\b(?:how many|in) ([a-z]+)\b", re.IGNORECASE)


def wants_percent(question: str) -> bool:
    """Whether the answer is a number of per cent: `what percent of 80 is 20`, not `what is 20 percent of 80`."""
    return _PERCENT.search(question[:MAX_CHARS]) is not None


@lru_cache(maxsize=256)
def _units(question: str) -> frozenset[str]:
    words = (match.group(1).lower() for match in _UNIT.finditer(question[:MAX_CHARS]))
    return frozenset(unit for word in words if (unit := known_unit(word) or known_unit(singular(word))))


def contradicts(unit: str, question: str) -> bool:
    """Whether the question asks for another unit of the same kind, and not for this one: minutes where hours are asked."""
    given, kind = _measured(unit)
    if not kind:
        return False
    wanted = _units(question)
    return given not in wanted and any(_kind(one) == kind for one in wanted)


@lru_cache(maxsize=1024)
def _measured(unit: str) -> tuple[str, Factors]:
    """Return the unit's name and what it measures: nothing where it is a word such as apples."""
    given = known_unit(unit)
    return (given or unit, () if given is None and unit.isalpha() else _kind(given or unit))


def _kind(unit: str) -> Factors:
    """Return what a unit measures: the same for miles and kilometres."""
    return tuple(sorted((_SYSTEMS.get(name, name), power) for name, power in kind_of(unit)))
