r"""Mutations of the shape: elements, ends, order, matrices, relations, units."""

from __future__ import annotations

import random
import re

from mathgen.mutate_expressions import different
from mathgen.registry import Registry, pure
from mathgen.text import TEXT_COMMAND, compact, elements, kind, shell, split_top, tokens, words_in
from mathgen.value import differ

SHAPES = Registry()

_SCALARS = ("integer", "decimal", "fraction", "scalar", "expression", "mixed")
_ORDERED = ("tuple", "interval")


def _row(text: str, question: str, *kinds: str) -> tuple[str, list[str], str] | None:
    body = pure(text)
    if body is None or kind(text, question) not in kinds or "dots" in text:
        return None
    opening, parts, closing = elements(body)
    return None if any(sign in body for sign in ("|", r"\mid", ":")) else (opening, [part.strip() for part in parts], closing)


@SHAPES
def coordinates_swapped(text: str, question: str, rng: random.Random) -> str | None:
    row = _row(text, question, *_ORDERED)
    if not row or len(row[1]) < 2:
        return None
    one, two = rng.sample(range(len(row[1])), 2)
    row[1][one], row[1][two] = row[1][two], row[1][one]
    return (
        f"{row[0]}{', '.join(row[1])}{row[2]}"
        if different((row[1][one], row[1][two])) and not _same(row[1], one, two)
        else None
    )


def _same(parts: list[str], one: int, two: int) -> bool:
    return differ(parts[one], parts[two]) is False


@SHAPES
def element_dropped(text: str, question: str, rng: random.Random) -> str | None:
    row = _row(text, question, "list", "tuple", "set")
    if not row or len(row[1]) < 2:
        return None
    dropped = row[1].pop(rng.randrange(len(row[1])))
    if any(compact(dropped) == compact(part) for part in row[1]) and not row[0].endswith("("):
        return None
    return f"{row[0]}{', '.join(row[1])}{row[2]}" if len(row[1]) > 1 or row[0].endswith(r"\{") else row[1][0]


@SHAPES
def element_added(text: str, question: str, rng: random.Random) -> str | None:
    row = _row(text, question, "list", "tuple", "set")
    if row and len(row[1]) > 1:
        inside = [part for part in row[1] if re.fullmatch(r"\(.*\)", part)]
        new = "(97, 98)" if inside else rng.choice(["97", r"\frac{97}{3}", "-113"])
        if re.search("97|113", text):
            return None
        parts = [*row[1]]
        parts.insert(rng.randrange(len(parts) + 1), new)
        return f"{row[0]}{', '.join(parts)}{row[2]}"
    body = pure(text)
    return None if body is None or kind(text, question) not in _SCALARS else f"{body}, {rng.choice(['97', '-113'])}"


@SHAPES
def end_changed(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) not in ("interval", "union"):
        return None
    turn = {"(": "[", "[": "(", ")": "]", "]": ")"}
    parts = tokens(body)
    ends = [at for at, part in enumerate(parts) if part in turn and not _at_infinity(parts, at)]
    if not ends:
        return None
    at = rng.choice(ends)
    parts[at] = turn[parts[at]]
    return "".join(parts) if r"\sqrt" not in body and r"\{" not in body else None


def _at_infinity(parts: list[str], at: int) -> bool:
    around = "".join(parts[at + 1 : at + 4] if parts[at] in "([" else parts[max(0, at - 3) : at])
    return r"\infty" in around


@SHAPES
def infinity_replaced(text: str, question: str, rng: random.Random) -> str | None:
    return re.sub(r"\\infty", rng.choice(["100", "999"]), text, count=1) if r"\infty" in text else None


@SHAPES
def part_of_union_dropped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "union":
        return None
    parts = split_top(body, (r"\cup",))
    parts.pop(rng.randrange(len(parts)))
    return r"\cup".join(parts).strip()


@SHAPES
def union_for_intersection(text: str, question: str, rng: random.Random) -> str | None:
    return text.replace(r"\cup", r"\cap", 1) if r"\cup" in text else None


@SHAPES
def tuple_as_set(text: str, question: str, rng: random.Random) -> str | None:
    row = _row(text, question, "tuple")
    return rf"\{{{', '.join(row[1])}\}}" if row and len(row[1]) > 1 else None


@SHAPES
def matrix_transposed(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"\\begin\{([a-z]*matrix)\}(.*)\\end\{\1\}", shell(text), re.DOTALL)
    if not match:
        return None
    rows = [[entry.strip() for entry in row.split("&")] for row in match[2].split(r"\\")]
    turned = list(zip(*rows, strict=True)) if len({len(row) for row in rows}) == 1 else []
    if not turned or [list(row) for row in turned] == rows or len(rows) == 1 or len(turned) == 1:
        return None
    return rf"\begin{{{match[1]}}}" + r" \\ ".join(" & ".join(row) for row in turned) + rf"\end{{{match[1]}}}"


@SHAPES
def matrix_rows_swapped(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"(\\begin\{[a-z]*matrix\})(.*)(\\end\{.*)", shell(text), re.DOTALL)
    if not match:
        return None
    rows = [row.strip() for row in match[2].split(r"\\")]
    swapped = [*rows[1:], rows[0]]
    return None if swapped == rows else match[1] + r" \\ ".join(swapped) + match[3]


@SHAPES
def comparison_changed(text: str, question: str, rng: random.Random) -> str | None:
    turn = {
        "<": r"\le",
        ">": r"\ge",
        r"\le": "<",
        r"\leq": "<",
        r"\ge": ">",
        r"\geq": ">",
        r"\geqslant": ">",
        r"\leqslant": "<",
    }
    if rng.random() < 0.5:
        turn = {
            "<": ">",
            ">": "<",
            r"\le": r"\ge",
            r"\leq": r"\geq",
            r"\ge": r"\le",
            r"\geq": r"\leq",
            r"\geqslant": r"\leqslant",
        }
    parts = tokens(text)
    found = [at for at, part in enumerate(parts) if part in turn]
    if not found or "$" in shell(text):
        return None
    at = rng.choice(found)
    parts[at] = f" {turn[parts[at]]} "
    return "".join(parts)


@SHAPES
def equation_shifted(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "relation" or "=" not in body:
        return None
    return f"{body.rstrip('.')} + {rng.choice(['1', '2', '7'])}"


@SHAPES
def unit_changed(text: str, question: str, rng: random.Random) -> str | None:
    body, what = shell(text), kind(text, question)
    if what == "degrees":
        return re.split(r"\^|°", body)[0] + rng.choice([r"\text{ radians}", r"\%", r"\text{ cm}"])
    if what == "money":
        number = body.replace(r"\$", "").strip()
        return number + rng.choice([r"\text{ euros}", r"\%", r"\text{ cents}", r"\text{ kg}"])
    if what == "percent":
        return re.sub(r"\\?%", r"\\text{ cm}", body)
    if what != "quantity":
        return None
    number, unit, power = re.fullmatch(rf"(.*?)({TEXT_COMMAND}\s*\{{.*\}})(.*)", body, re.DOTALL).groups()  # type: ignore[union-attr]
    words = " ".join(words_in(unit).split())
    new = rng.choice([unit for unit in ("kg", "liters", "hours", "volts", "miles") if unit not in words])
    return rf"{number}\text{{ {new}}}" if not power or rng.random() < 0.5 else f"{number}{unit}^{7}"
