"""Splits a value from its unit and percent sign; works out sums, products, quotients of quantities: `12 cm + 3 cm` is 15 cm."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from verigym.envs.math.build import add, div, mul, negative
from verigym.envs.math.judging.quantities.measures import factors, product, quotient, same_unit
from verigym.envs.math.tree import (
    Add,
    Clock,
    Div,
    InBase,
    Mul,
    Neg,
    Node,
    Number,
    Percent,
    Pow,
    Quantity,
    children,
    walk,
)  # fmt: skip


class Measure(NamedTuple):
    """A value, its unit, and whether it was written with a percent sign."""

    value: Node
    unit: str = ""
    percent: bool = False


def measure(node: Node) -> Measure:
    """Split `node` into its value, its unit, and whether it has a percent sign."""
    match node:
        case Quantity(Clock(), _):
            return Measure(node)  # 1:03 PF is no time
        case Neg(inner):
            inside = measure(inner)
            return inside._replace(value=negative(inside.value)) if inside.unit or inside.percent else Measure(node)
        case InBase(digits, 10) if digits.isdigit():
            return Measure(Number(Fraction(int(digits))))
        case Quantity(value, "per cent" | "percent"):
            return Measure(value, "", True)
        case Quantity(Percent(value), unit):
            return Measure(value, unit, True)
        case Quantity(value, unit):
            return Measure(value, unit)
        case Percent(value):
            return Measure(value, "", True)
        case Add() | Mul() | Div() | Pow() if is_measured(node):
            return _worked_out(node) or Measure(node)
    return Measure(node)


def is_measured(node: Node) -> bool:
    """Return whether `node` contains a unit or a percent sign."""
    return any(isinstance(part, Quantity | Percent) for part in walk(node))


def _worked_out(node: Add | Mul | Div | Pow) -> Measure | None:
    """Return what arithmetic makes of quantities; None where their units do not fit."""
    match node:
        case Add(terms):
            return _sum([measure(term) for term in terms])
        case Pow(base, Number(Fraction(numerator=2 | 3 as count, denominator=1))):
            inside = measure(base)
            unit = _product([inside.unit] * count)
            return None if inside.percent or not unit else Measure(Pow(inside.value, node.exponent), unit)
        case Mul():
            parts = [measure(factor) for factor in node.factors]
            unit, value = _product([part.unit for part in parts]), mul([part.value for part in parts])
        case Div():
            parts = [measure(part) for part in children(node)]
            unit, value = quotient(parts[0].unit, parts[1].unit), div(parts[0].value, parts[1].value)
        case _:
            return None
    return None if unit is None or any(part.percent for part in parts) else Measure(value, unit if factors(unit) else "")


def _sum(terms: list[Measure]) -> Measure | None:
    value, last = add([term.value for term in terms]), terms[-1]
    if last.unit == "degree" and all(not term.unit and _is_number(term.value) for term in terms[:-1]):
        return Measure(value, last.unit)  # 144 - 108 degrees, as 144 - 108 cm is read
    alike = all(term.percent == last.percent and same_unit(term.unit, last.unit) for term in terms)
    return Measure(value, last.unit, last.percent) if alike else None


def _is_number(node: Node) -> bool:
    return isinstance(node.of if isinstance(node, Neg) else node, Number)


def _product(units: list[str]) -> str | None:
    combined: str | None = ""
    for unit in units:
        combined = product(combined, unit) if combined and unit else None if combined is None else combined or unit
    return combined
