"""Mutations of expressions: signs, exponents, functions, variables, elements."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from mathgen.registry import Registry, pure, signed_terms
from mathgen.text import compact, elements, kind, shell, split_top

EXPRESSIONS = Registry()


def _letters(text: str) -> str:
    return re.sub(r"\\[A-Za-z]+", "", text)


@EXPRESSIONS
def exponent_changed(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    found = list(re.finditer(r"\^(?:\{(\d+)\}|(\d))", body or ""))
    if body is None or not found:
        return None
    match = rng.choice(found)
    new = int(match[1] or match[2]) + rng.choice([1, 2])
    return f"{body[: match.start()]}^{{{new}}}{body[match.end() :]}"


@EXPRESSIONS
def operator_changed(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None:
        return None
    found = [
        match.start()
        for match in re.finditer(r"(?<=[\w)}\s])[+-](?=\s*[\w\\(])", body)
        if not re.search(r"[\^{(,&=]\s*$", body[: match.start()])
    ]
    found = [at for at in found if not re.search(r"\d[eE]$", body[:at]) and not body[at + 1 :].lstrip().startswith(r"\infty")]
    if not found or r"\pm" in body:
        return None
    at = rng.choice(found)
    return body[:at] + ("-" if body[at] == "+" else "+") + body[at + 1 :]


@EXPRESSIONS
def root_dropped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    return (
        re.sub(r"\\sqrt(?:\[[^\]]*\])?\s*(\{|\d)", lambda m: m[1] if m[1] == "{" else f"({m[1]})", body, count=1)
        if body
        else None
    )


@EXPRESSIONS
def pi_dropped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or r"\pi" not in body:
        return None
    return re.sub(r"\\pi(?![A-Za-z])", "1" if not re.search(r"\d\s*\\pi", body) else "", body, count=1)


@EXPRESSIONS
def i_dropped(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "scalar":
        return None
    return re.sub(r"(?<![a-zA-Z\\])i(?![a-zA-Z])", "", body, count=1) or None


@EXPRESSIONS
def function_changed(text: str, question: str, rng: random.Random) -> str | None:
    turn = {"sin": "cos", "cos": "sin", "tan": "cot", "cot": "tan", "sec": "csc", "csc": "sec"}
    body = pure(text)
    changed = re.sub(r"\\(sin|cos|tan|cot|sec|csc)(?![a-z])", lambda m: "\\" + turn[m[1]], body or "", count=1)
    return changed if body and changed != body else None


@EXPRESSIONS
def variable_renamed(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "expression" or re.search(r"\([a-z]\)|_|\\text|\\frac\{d", body):
        return None
    letters = sorted(set(re.findall(r"(?<![A-Za-z\\])[a-df-hj-z](?![A-Za-z])", _letters(body))))
    if not letters:
        return None
    old = rng.choice(letters)
    new = rng.choice([letter for letter in "xyztuwpq" if letter not in body])
    return re.sub(rf"(?<![A-Za-z\\]){old}(?![A-Za-z])", new, body)


@EXPRESSIONS
def base_changed(text: str, question: str, rng: random.Random) -> str | None:
    match = re.fullmatch(r"([\dA-F.]+)_\{?(\d+)\}?", shell(text))
    return (
        f"{match[1]}_{{{int(match[2]) + rng.choice([1, 2, 3])}}}"
        if match and match[1] not in ("0", "1") and len(match[1]) > 1
        else None
    )


def different(texts: Iterable[str]) -> bool:
    """Whether the texts, without their layout, are all different."""
    flat = [compact(text) for text in texts]
    return len(set(flat)) == len(flat)


@EXPRESSIONS
def element_negated(text: str, question: str, rng: random.Random) -> str | None:
    opening, parts, closing = elements(text)
    if kind(text, question) not in ("list", "tuple", "set", "interval") or len(parts) < 2 or r"\pm" in text or "=" in text:
        return None
    flat = [compact(part) for part in parts]
    plain = [part.removeprefix("-") for part in flat]
    usable = [
        at
        for at, part in enumerate(plain)
        if plain.count(part) == 1 and re.fullmatch(r"\d*[1-9]\d*|\\frac\{\d+\}\{\d+\}", part)
    ]
    if not usable:
        return None
    at = rng.choice(usable)
    parts[at] = plain[at] if flat[at].startswith("-") else f"-{plain[at]}"
    return f"{opening}{', '.join(parts)}{closing}"


@EXPRESSIONS
def matrix_entry_negated(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text) or ""
    found = list(re.finditer(r"(?<=[}&\\\s])(-?)(\d*[1-9]\d*)(?=\s*(?:&|\\\\|\\end))", body)) if r"\begin" in body else []
    if not found:
        return None
    match = rng.choice(found)
    return body[: match.start()] + ("" if match[1] else "-") + match[2] + body[match.end() :]


@EXPRESSIONS
def right_side_negated(text: str, question: str, rng: random.Random) -> str | None:
    body = pure(text)
    if body is None or kind(text, question) != "relation":
        return None
    sides = split_top(body, ("=",))
    if len(sides) != 2 or not re.search(r"[1-9a-zA-Z]", sides[1]) or sides[1].strip() == "0":
        return None
    left, right = sides[0].strip(), sides[1].strip()
    return (
        f"{left} = {right[1:]}"
        if right.startswith("-") and signed_terms(right) and len(signed_terms(right) or ()) == 1
        else f"{left} = -({right})"
    )
