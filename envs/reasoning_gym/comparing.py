r"""Compares an answer with the one right answer (the gold): exactly, in linear time, and as a whole.

There is one function for each kind of answer. It returns whether the answer and the gold are the same. Numbers and texts have
no tolerance, but `rounded` and `figures` round an answer that is more precise than the gold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from verigym.envs.generated.puzzles.expression import Unreadable, work_out
from verigym.envs.linear import JsonProblem, read_json
from verigym.envs.match.numeric import read_number
from verigym.envs.match.values import same_json

_INTEGER = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]{1,400}|0[bB][01]{1,400}|0[oO][0-7]{1,400})")
_OVER = re.compile(
    r"\s*(?:\\[dt]?frac\s*\{\s*([0-9]{1,400})\s*\}\s*\{\s*([0-9]{1,400})\s*\}|([0-9]{1,400})\s*/\s*([0-9]{1,400}))\s*"
)
_REAL = r"[0-9]{1,300}(?:\.[0-9]{0,300})?"
_COMPLEX = re.compile(rf"([+-]?{_REAL}(?![ij0-9.]))?(?:([+-]?)({_REAL})?[ij])?")
_ROLE = re.compile(r"(?:and\s+)?([a-z]+) is an? ([a-z]+)")
_FIGURES = 3


def _words(text: str) -> str:
    """Return the text with single spaces, without quotes around the whole."""
    text = " ".join(text.split())
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" else text


def text(answer: str, gold: str) -> bool:
    """Return whether `answer` has the same words as `gold`, ignoring case and a final full stop."""
    one, other = _words(answer).casefold(), _words(gold).casefold()
    return one == other or one.removesuffix(".") == other.removesuffix(".") != ""


def joined(answer: str, gold: str) -> bool:
    """The same letters; neither spaces nor case mean anything."""
    return "".join(answer.split()).casefold() == "".join(gold.split()).casefold()


def value(answer: str) -> Fraction | None:
    r"""Return the exact value of `answer` as a number, or None.

    Accepted are the spellings of `read_number`, 0x1F, 0b11, 0o17, \frac{1}{2}, and a degree sign after the number.
    """
    answer = answer.strip().removesuffix("\u00b0").removesuffix("^\\circ").strip()
    found = _INTEGER.fullmatch(answer)
    if found:
        return Fraction(int(found[1] + found[2], 0))
    under = _OVER.fullmatch(answer)
    if under:
        top, bottom = (int(part) for part in under.groups() if part is not None)
        return Fraction(top, bottom) if bottom else None
    return read_number(answer) if "%" not in answer else None


def number(answer: str, gold: str) -> bool:
    """The same number; where the gold is none, the same text."""
    right = value(gold)
    return text(answer, gold) if right is None else value(answer) == right


def _rounded(answer: str, gold: str) -> bool:
    given, right = value(answer), value(gold)
    if given is None or right is None:
        return False
    places = _places(gold)
    return given == right or (0 < places <= _places(answer) and abs(given - right) <= Fraction(1, 2 * 10**places))


def _places(answer: str) -> int:
    """Return how many digits stand behind the point."""
    found = re.fullmatch(r"[^.]*\.([0-9]+)\D*", answer.strip())
    return len(found[1]) if found else 0


def rounded(answer: str, gold: str) -> bool:
    """Return whether `answer` has the same numbers as `gold`. Their order matters only for pairs in parentheses.

    If a number of `gold` has decimal places and its counterpart in `answer` has more, the counterpart is first rounded to the
    same number of places.
    """
    pair = gold.lstrip().startswith("(")
    if pair is not answer.lstrip().startswith("("):
        return False
    given, right = (side.strip().removeprefix("(").removesuffix(")").split(",") for side in (answer, gold))
    if not pair:
        if any(value(one) is None for one in (*given, *right)):
            return False
        given, right = (sorted(side, key=lambda one: value(one) or 0) for side in (given, right))
    return len(given) == len(right) and all(map(_rounded, given, right))


def figures(answer: str, gold: str) -> bool:
    """Return whether `answer` and `gold` are the same number after both are rounded to three significant digits."""
    given, right = value(answer), value(gold)
    return given is not None and right is not None and _three(given) == _three(right)


def _three(number: Fraction) -> Fraction:
    if not number:
        return number
    power = len(str(abs(number.numerator))) - len(str(number.denominator)) - _FIGURES - 1
    unit = Fraction(10) ** power
    while abs(number) / unit >= 10**_FIGURES:
        unit *= 10
    return round(number / unit) * unit


def probability(answer: str, gold: str) -> bool:
    """Return whether `answer` and `gold` are the same number in double precision, with which `gold` is written."""
    given, right = value(answer), value(gold)
    if given is None or right is None or abs(given) > 1:
        return False
    return given == right or float(given) == float(right)


def lowest(answer: str, gold: str) -> bool:
    """The same numerator and the same denominator."""
    given, right = (_OVER.fullmatch(side.strip().strip("$")) for side in (answer, gold))
    if given is None or right is None:
        return False
    return [int(part) for part in given.groups() if part] == [int(part) for part in right.groups() if part]


def complex_number(answer: str, gold: str) -> bool:
    """The same real and the same imaginary part."""
    given = _parts(answer)
    return given is not None and given == _parts(gold)


def _parts(written: str) -> tuple[Fraction, Fraction] | None:
    written = "".join(written.replace("\u2212", "-").split()).casefold()
    found = _COMPLEX.fullmatch(written.removeprefix("(").removesuffix(")") if written.startswith("(") else written)
    if found is None or not found[0] or (found[1] and found[0] != found[1] and not found[2]):
        return None
    real, imaginary = Fraction(found[1] or 0), Fraction(0)
    if found[0][-1] in "ij":
        imaginary = Fraction(found[3] or 1) * (-1 if found[2] == "-" else 1)
    return real, imaginary


_MARKS = re.compile(r"[<>\u2227\u2228^v|+\-\s]*")


def _rows(grid: str) -> list[list[str]] | None:
    """Return the cells row by row: lines of cells, or a JSON list of them; lines of signs between the rows do not count."""
    grid = grid.strip()
    if grid.startswith("["):
        try:
            found = read_json(grid)
        except JsonProblem:
            return None
        rows = found if isinstance(found, list) and found and isinstance(found[0], list) else [found]
        if not all(isinstance(row, list) and all(isinstance(cell, int | float | str) for cell in row) for row in rows):
            return None
        return [[str(cell) for cell in row] for row in rows]
    lines = [line for line in grid.splitlines() if line.strip() and not _MARKS.fullmatch(line)]
    return [[cell for cell in line.split() if cell not in "<>"] for line in lines]


def grid(answer: str, gold: str) -> bool:
    """The same cells in the same rows; numbers by their value."""
    given, right = _rows(answer), _rows(gold)
    if given is None or right is None or [*map(len, given)] != [*map(len, right)]:
        return False
    return all(_same_cell(one, other) for one, other in zip(sum(given, []), sum(right, []), strict=True))


def _same_cell(answer: str, gold: str) -> bool:
    return answer == gold or (read_number(gold) is not None and read_number(answer) == read_number(gold))


def items(answer: str, gold: str) -> bool:
    """Return whether `answer` has the same comma-separated items as `gold` in the same order.

    Brackets and quotes are optional; case matters.
    """
    given, right = _items(answer), _items(gold)
    return len(given) == len(right) and all(map(_same_cell, given, right))


def _items(listed: str) -> list[str]:
    listed = listed.strip()
    if listed.startswith("[") and listed.endswith("]"):
        listed = listed[1:-1]
    return [_words(item) for item in listed.split(",")]


def json_value(answer: str, gold: str) -> bool:
    """The same JSON value."""
    try:
        return same_json(read_json(answer), read_json(gold))
    except JsonProblem:
        return False


def groups(answer: str, gold: str) -> bool:
    """Return whether `answer` has the same lists of texts as `gold`, in any order and with any order inside the lists."""
    given, right = _lists(answer), _lists(gold)
    return given is not None and right is not None and sorted(map(sorted, given)) == sorted(map(sorted, right))


def lists(answer: str, gold: str) -> bool:
    """The same lists of texts; their order means nothing."""
    given, right = _lists(answer), _lists(gold)
    return given is not None and right is not None and sorted(given) == sorted(right)


def _lists(listed: str) -> list[list[str]] | None:
    try:
        found: Any = read_json(listed)
    except JsonProblem:
        return None
    if not isinstance(found, list) or not all(isinstance(one, list) for one in found):
        return None
    return found if all(isinstance(text, str) for one in found for text in one) else None


def factors(answer: str, gold: str) -> bool:
    """The same whole numbers in any order, between times signs."""
    given, right = _factors(answer), _factors(gold)
    return given is not None and given == right


def _factors(product: str) -> list[int] | None:
    parts = re.split(r"\u00d7|\*|\\times|\\cdot|\u22c5|x", product)
    if not all(re.fullmatch(r"\s*[0-9]{1,300}\s*", part) for part in parts):
        return None
    return sorted(int(part) for part in parts)


def roles(answer: str, gold: str) -> bool:
    """The same role for everybody, in any order."""
    given = _roles(answer)
    return given is not None and given == _roles(gold)


def _roles(statement: str) -> dict[str, str] | None:
    sentence = _words(statement).casefold().removesuffix(".").replace(" and ", ", ")
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, sentence.split(","))):
        clause = _ROLE.fullmatch(part)
        if clause is None or clause[1] in found:
            return None
        found[clause[1]] = clause[2]
    return found


def total(answer: str, gold: str) -> bool:
    """Return whether `answer` is an expression with the same value as `gold` that uses the same numbers equally often."""
    try:
        given, numbers, stated = work_out(answer)
        right, wanted, _ = work_out(gold)
    except Unreadable:
        return False
    return given == right and stated in (None, given) and sorted(numbers) == sorted(wanted)


KINDS: Mapping[str, Callable[[str, str], bool]] = {
    "text": text,
    "joined": joined,
    "number": number,
    "rounded": rounded,
    "figures": figures,
    "probability": probability,
    "lowest": lowest,
    "complex": complex_number,
    "grid": grid,
    "items": items,
    "json": json_value,
    "groups": groups,
    "lists": lists,
    "factors": factors,
    "roles": roles,
    "sum": total,
}
"""Ways of comparing, by the names that `tasks.TASKS` uses."""
