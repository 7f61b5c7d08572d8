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


_ABOUT_SIGN = r"\\(?:approx(?:eq)?|sim(?:eq)?)(?![A-Za-z])|[~\u223c\u2243\u2248]"
_NAMED = re.compile(rf"\A[A-Za-z](?:_\{{?[A-Za-z0-9]{{1,9}}\}}?)?\s*(?:=|{_ABOUT_SIGN})\s*(?=\S)")
"""What is said to be the number: `x = 5`, `v_0 \\approx 3`."""
_ABOUT = re.compile(
    rf"\A(?:(?:about|approximately|approx\.?|around|roughly|circa|ca\.)\s|{_ABOUT_SIGN})\s*(?=\S)", re.IGNORECASE
)
_MINUS = re.compile(r"\A(?:minus|negative)\s+(?=[0-9.\\$])", re.IGNORECASE)
_QUOTIENT = re.compile(
    r"(?:\\[dtc]?frac\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))|([0-9]+)\s*/\s*([0-9]+))\s*\Z"
)
_GROUPED = re.compile(r"(?<![0-9.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9,])")

_PERCENT = re.compile(r"\s?(?:\\?[%\uff05]|(?<![A-Za-z])percent)[$\s]?\Z", re.IGNORECASE)
_SHARE = r"(?:per ?cent(?:age)?s?\b|%)"
_ASKS_PERCENT = re.compile(
    rf"\b(?:what|which|how many) (?:(?:is|was|are|were|will be|would be) (?:the )?(?:[a-z]{{1,20}} ){{0,2}})?{_SHARE}"
    r"|\b(?:find|give|state|compute|calculate|determine|express) (?:the |an? )(?:[a-z]{1,20} ){0,2}percentage\b"
    rf"|\b(?:in|as an?|as) {_SHARE}",
    re.IGNORECASE,
)
"""A question for a percentage. `What is 45% of 80?` is none."""


def read_number(text: str, *, lowest: bool = False) -> Fraction | None:
    r"""Return the exact value of the number that `text` spells, or None for any other text.

    Accepted are 1,234.5, -2/3, 1e-5, 45% (= 0.45), $12; and in LaTeX `\frac12`, `7\frac34`, `4.8 \times 10^3`,
    `0.\overline{3}`, `\text{12}`. Only fractions, percentages and powers of ten are computed: `2+3` and `5!` give None.

    Args:
        text: the number as it is written.
        lowest: whether a fraction must be in lowest terms, with a denominator above 1, as a result is: `84/4` then gives None.
    """
    text = text.translate(_SIGNS)
    for comma in _COMMAS:
        text = text.replace(comma, ",")
    text = strip_formatting(text).strip("$").strip()
    if len(text) > MOST_DIGITS:
        return None
    match = _NUMBER.fullmatch(text)
    return _written(match, lowest) if match and (match["whole"] or match["part"]) else _parsed(text, lowest)


def _is_lowest(top: int, bottom: int) -> bool:
    return bottom > 1 and math.gcd(top, bottom) == 1


def _written(match: re.Match[str], lowest: bool) -> Fraction | None:
    digits = match["whole"].replace(",", "") + (match["part"] or "")
    value = Fraction(int(digits), 10 ** len(match["part"] or "")) * Fraction(10) ** int(match["power"] or 0)
    if match["under"] is not None:
        if int(match["under"]) == 0:
            return None
        plain = match["part"] is None and match["power"] is None
        if lowest and not (plain and _is_lowest(int(digits), int(match["under"]))):
            return None
        value /= int(match["under"])
    if match["percent"]:
        value /= 100
    return -value if match["sign"] == "-" else value


def _parsed(text: str, lowest: bool) -> Fraction | None:
    """Return the value of a number in another notation, read by the math grader's parser and told by the shape of the tree."""
    if not any(map(str.isnumeric, text)) or "," in _GROUPED.sub("", text) or re.search("[0-9][eE]", text):
        return None
    try:
        node = parse(text)
    except ParseError:
        return None
    negative = isinstance(node, Neg)
    node = node.of if isinstance(node, Neg) else node
    if lowest and isinstance(node, Number) and node.style == "mixed" and (quotient := _QUOTIENT.search(text)):
        top, bottom = (int(part) for part in quotient.groups() if part is not None)
        if top > bottom or not _is_lowest(top, bottom):
            return None
    value = _literal(node, lowest)
    return None if value is None else -value if negative else value


def _literal(node: Node, lowest: bool) -> Fraction | None:
    match node:
        case Number(value):
            return value
        case Percent(Number(value)):
            return value / 100
        case Pow(Number(base), Number(power)) if base == 10 and power.denominator == 1 and power < MOST_DIGITS:
            return base ** int(power)
        case Div(Neg(Number(top)), bottom):
            magnitude = _literal(Div(Number(top), bottom), lowest)
            return None if magnitude is None else -magnitude
        case Div(Number(top, top_decimals), Number(bottom, decimals)) if bottom and top.denominator == bottom.denominator == 1:
            written_out = top_decimals == decimals == 0 and _is_lowest(top.numerator, bottom.numerator)
            return top / bottom if written_out or not lowest else None
    return None


def near(value: Fraction, gold: Fraction, reference: MatchReference) -> bool:
    """Return whether `value` is as near to `gold` as `reference` requires. The bounds themselves are accepted."""
    allowed = max(_exactly(reference.tolerance), _exactly(reference.relative_tolerance) * abs(gold))
    return abs(value - gold) <= allowed


def _exactly(tolerance: float) -> Fraction:
    return Fraction(repr(tolerance))  # 0.1 as it was written, not the binary fraction next to it


def as_number(given: object, *, lowest: bool = False) -> Fraction | None:
    """Return the exact number that `given`, a number or a text, stands for, or None if it is not a number.

    `lowest` tells whether a fraction must be in lowest terms, as in an answer; the author of a reference may write any.
    """
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        return Fraction(given)
    if isinstance(given, float):
        return Fraction(repr(given)) if math.isfinite(given) else None
    return read_number(given, lowest=lowest) if isinstance(given, str) else None


def percentages(answer: str, question: str) -> tuple[str, ...]:
    """Return `answer` without its percent sign where `question` asks for a percentage: 45% then may mean 45 as well as 0.45."""
    sign = _PERCENT.search(answer)
    return (answer[: sign.start()],) if sign and sign.start() and _ASKS_PERCENT.search(question) else ()


def _golds(reference: MatchReference) -> list[Fraction | None]:
    return [as_number(value) for value in (reference.answer if isinstance(reference.answer, list) else [reference.answer])]


def _check(reference: MatchReference) -> None:
    values = _golds(reference)
    if not values or None in values:
        raise UsageError(f"field 'answer': kind='numeric' needs a number or a list of numbers; got {reference.answer!r:.80}")


def _judge(reference: MatchReference, answer: str) -> Verdict:
    golds = reference.answer if isinstance(reference.answer, list) else [reference.answer]
    text = _ABOUT.sub("", _NAMED.sub("", strip_formatting(answer)))
    # A reference's own spelling is right, even if it is no fraction in lowest terms.
    value = read_number(_MINUS.sub("-", text), lowest=answer not in golds)
    if value is None:
        return Verdict(None, "no single number")
    fits = any(near(value, gold, reference) for gold in _golds(reference) if gold is not None)
    return Verdict(fits, "within the tolerance" if fits else "another number")


def _gold(reference: MatchReference) -> str:
    first = reference.answer[0] if isinstance(reference.answer, list) else reference.answer
    return str(first)


NUMERIC = Kind(frozenset({"answer", "tolerance", "relative_tolerance"}), _check, _judge, _gold)
