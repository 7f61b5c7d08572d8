"""Converts quantities to another unit, to check chains of equations: `2 h + 30 min = 150 min` is true and claims 150 min."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from verigym.envs.math.build import rebuild, scaled
from verigym.envs.math.judging.quantities.measures import Factors, factors
from verigym.envs.math.tree import Node, Quantity

_SIZES = {
    "m": "km 1000, dm 1/10, cm 1/100, mm 1/1000, um 1/1000000, nm 1/1000000000",
    "g": "kg 1000, mg 1/1000, ton 1000000",
    "l": "ml 1/1000, cl 1/100",
    "second": "ms 1/1000, minute 60, hour 3600, day 86400, week 604800",
    "inch": "foot 12, yard 36, mile 63360",
    "ounce": "pound 16",
    "dollar": "cent 1/100",
    "year": "month 1/12, decade 10, century 100",
}
_IN: dict[str, tuple[str, Fraction]] = {}
for _base, _sizes in _SIZES.items():
    for _name, _size in map(str.split, _sizes.split(",")):
        _IN[_name] = (_base, Fraction(_size))


def converted(node: Node, unit: str) -> Node:
    """Return `node` with its quantities converted to `unit`.

    Quantities that cannot be measured in that unit stay as they are.
    """
    kind, size = _size_of(unit)

    def change(part: Node) -> Node:
        if not isinstance(part, Quantity) or part.unit == unit:
            return part
        other, times = _size_of(part.unit)
        return Quantity(scaled(part.value, times / size), unit) if other == kind else part

    return rebuild(node, change) if unit else node


def kind_of(unit: str) -> Factors:
    """Return what `unit` measures, as factors: the result is the same for hours and minutes."""
    return _size_of(unit)[0]


def _size_of(unit: str) -> tuple[Factors, Fraction]:
    """Return a unit's parts in basic units, and how many of these it is."""
    powers: Counter[str] = Counter()
    size = Fraction(1)
    for name, power in factors(unit):
        base, times = _IN.get(name, (name, Fraction(1)))
        powers[base] += power
        size *= times ** max(-9, min(9, power))
    return tuple(sorted((name, power) for name, power in powers.items() if power)), size
