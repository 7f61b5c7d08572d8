"""Kind `numeric`: one number, compared exactly or within a tolerance."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from verigym.envs.contract.errors import UsageError
from verigym.envs.latex.formatting import strip_formatting
from verigym.envs.match.kind import Kind, MatchReference, Verdict
from verigym.envs.math.reading.parse import ParseError, parse
from verigym.envs.math.tree import Div, Neg, Node, Number, Percent, Pow

MOST_DIGITS = 400
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*\$?(?P<whole>[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<power>[-+]?[0-9]{1,3}))?"
    r"(?:\s*/\s*(?P<under>[0-9]+))?\s*(?P<percent>%?)"
)
_COMMAS = ("{,}", "\\,", ",\\!")  # LaTeX's ways to part thousands
_SIGNS = str.maketrans({"\u2212": "-", "\uff0d": "-", "\uff0b": "+", "\u2009": " ", "\u00a0": " "})


_NAMED = re.compile(r"\A[A-Za-z](?:_\{?[A-Za-z0-9]{1,9}\}?)?\s*+(?:=|\\approx(?![A-Za-z])|\u2248)\s*+(?=\S)")
"""What is said to be the number: `x = 5`, `v_0 \\approx 3`."""
_GROUPED = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])")


def read_number(text: str) -> Fraction | None:
    r"""Return the exact value of the number that `text` spells, or None for any other text.

    Accepted are 1,234.5, -2/3, 1e-5, 45% (= 0.45), $12; and in LaTeX `\frac12`, `7\frac34`, `4.8 \times 10^3`,
    `0.\overline{3}`, `\text{12}`. Only fractions, percentages and powers of ten are computed: `2+3` and `5!` give None.
    """
    text = text.translate(_SIGNS)
    for comma in _COMMAS:
        text = text.replace(comma, ",")
    text = strip_formatting(text).strip("$").strip()
    if len(text) > MOST_DIGITS:
        return None
    match = _NUMBER.fullmatch(text)
    return _written(match) if match and (match["whole"] or match["part"]) else _parsed(text)


def _written(match: re.Match[str]) -> Fraction | None:
    digits = match["whole"].replace(",", "") + (match["part"] or "")
    value = Fraction(int(digits), 10 ** len(match["part"] or "")) * Fraction(10) ** int(match["power"] or 0)
    if match["under"] is not None:
        if int(match["under"]) == 0:
            return None
        value /= int(match["under"])
    if match["percent"]:
        value /= 100
    return -value if match["sign"] == "-" else value


def _parsed(text: str) -> Fraction | None:
    """Return the value of a number in another notation, read by the math grader's parser and told by the shape of the tree."""
    if not any(map(str.isnumeric, text)) or "," in _GROUPED.sub("", text) or re.search("[0-9][eE]", text):
        return None
    try:
        node = parse(text)
    except ParseError:
        return None
    negative = isinstance(node, Neg)
    value = _literal(node.of if isinstance(node, Neg) else node)
    return None if value is None else -value if negative else value


def _literal(node: Node) -> Fraction | None:
    match node:
        case Number(value):
            return value
        case Percent(Number(value)):
            return value / 100
        case Pow(Number(base), Number(power)) if base == 10 and power.denominator == 1 and power < MOST_DIGITS:
            return base ** int(power)
        case Div(Neg(Number(top)), bottom):
            magnitude = _literal(Div(Number(top), bottom))
            return None if magnitude is None else -magnitude
        case Div(Number(top), Number(bottom)) if bottom and top.denominator == bottom.denominator == 1:
            return top / bottom
    return None


def near(value: Fraction, gold: Fraction, reference: MatchReference) -> bool:
    """Return whether `value` is as near to `gold` as `reference` requires. The bounds themselves are accepted."""
    allowed = max(_exactly(reference.tolerance), _exactly(reference.relative_tolerance) * abs(gold))
    return abs(value - gold) <= allowed


def _exactly(tolerance: float) -> Fraction:
    return Fraction(repr(tolerance))  # 0.1 as it was written, not the binary fraction next to it


def as_number(given: object) -> Fraction | None:
    """Return the exact number that `given`, a number or a text in a reference, stands for; None if it is not a number."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return Fraction(given)
    if isinstance(given, float):
        return Fraction(repr(given)) if math.isfinite(given) else None
    return read_number(given) if isinstance(given, str) else None


def _golds(reference: MatchReference) -> list[Fraction | None]:
    return [as_number(value) for value in (reference.answer if isinstance(reference.answer, list) else [reference.answer])]


def _check(reference: MatchReference) -> None:
    values = _golds(reference)
    if not values or None in values:
        raise UsageError(f"field 'answer': kind='numeric' needs a number or a list of numbers; got {reference.answer!r:.80}")


def _judge(reference: MatchReference, answer: str) -> Verdict:
    value = read_number(_NAMED.sub("", strip_formatting(answer)))
    if value is None:
        return Verdict(None, "no single number")
    fits = any(near(value, gold, reference) for gold in _golds(reference) if gold is not None)
    return Verdict(fits, "within the tolerance" if fits else "another number")


def _gold(reference: MatchReference) -> str:
    first = reference.answer[0] if isinstance(reference.answer, list) else reference.answer
    return str(first)


NUMERIC = Kind(frozenset({"answer", "tolerance", "relative_tolerance"}), _check, _judge, _gold)
