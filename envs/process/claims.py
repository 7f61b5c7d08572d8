r"""The arithmetic that a step states: chains such as `(3 + 4) * 2 = 7 * 2 = 14`, found in one linear pass.

A chain is a run of numbers, operators, brackets and single-letter names with equals signs between its sides. A side that may be
cut off by the words around it (`half of 20 = 10`, `3 + 4 = 1 (mod 6)`) is left out, for a claim must be whole to be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"(?P<number>[0-9]{1,3}(?:,[0-9]{3}){1,8}+(?![0-9])(?:\.[0-9]++)?+|[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)"
    r"|(?P<equal>==?|\\approx(?![A-Za-z])|\u2248)"
    r"|(?P<power>(?<=[0-9)])\*\*(?=[0-9(-]))"
    r"|(?P<cross>(?<=[0-9) ])[xX](?=[0-9( ]))"
    r"|(?P<blank>[^\S\n]++|\*\*|\$|\\[,;!() ]|&)"
    r"|(?P<operator>[-+*/^()\[\]{}%\u00d7\u00f7\u00b7\u2212\u2013\u2217\u22c5]"
    r"|\\(?:times|cdot|div|left|right|[dt]?frac)(?![A-Za-z]))"
    r"|(?P<symbol>[A-Za-z](?![^\W_]|['_]))"
    r"|(?P<line>\n\s*+)"
    r"|(?P<word>[^\W\d_](?:[^\W_]|['_])*+)"
    r"|(?P<other>\\[A-Za-z]++|</|.)"
)
_BINARY = "+*/^%\u00d7\u00f7\u00b7\u2217\u22c5"
_OPERATION = re.compile(r"[-+*/^%\u00d7\u00f7\u00b7\u2212\u2013\u2217\u22c5]|\\(?:times|cdot|div|[dt]?frac)|[0-9)][ ]?\(")
_UNARY = re.compile(r"[-+\u2212\u2013(\s)]*+[0-9][0-9,.]*+[)\s]*+")
_SAFE = frozenset((*",.:;!?\"'\u2019\u201d\u201c\u3002\uff0c\uff1a_`#>|\u2192\u21d2~@", "</"))
# What stands between them belongs to the sum: "half of 20 = 10", "3 plus 4 = 7", "7 = 1 mod 3".
_BEFORE = frozenset("of plus minus times by over to from than per less more divided multiplied with base log sqrt".split())
_AFTER = frozenset(
    "plus minus times divided multiplied over per mod modulo remainder rem percent dozen hundred thousand million billion "
    "trillion half halves third thirds quarter quarters of base or".split()
)
_COMMANDS = frozenset(("\\implies", "\\Rightarrow", "\\Longrightarrow", "\\to", "\\rightarrow", "\\quad", "\\qquad", "\\item"))
MAX_SIDE = 400
"""Longer sides are not read."""


class Side(NamedTuple):
    """One side of a chain."""

    text: str
    rounded: bool
    """Whether an approximation sign stands before it."""


class Chain(NamedTuple):
    """Sides that are said to be equal, from left to right. None stands for one that is not whole."""

    start: int
    end: int
    sides: tuple[Side | None, ...]


class _Run:
    """What has been read of a chain."""

    def __init__(self, before: str) -> None:
        self.before = before
        self.start = -1
        self.end = 0
        self.parts: list[list[str]] = [[]]
        self.approximate = [False]

    def chain(self, after: str) -> Chain | None:
        """Return the chain, where there is more than one side."""
        if len(self.parts) < 2:
            return None
        texts = ["".join(part).strip() for part in self.parts]
        sides: list[Side | None] = []
        for number, text in enumerate(texts):
            first, last = number == 0, number == len(texts) - 1
            whole = _whole(text, self.before if first else "", after if last else "")
            trimmed = _trim(text) if whole else None
            sides.append(Side(trimmed, self.approximate[number]) if trimmed else None)
        return Chain(self.start, self.end, tuple(sides))


def chains(text: str) -> Iterator[Chain]:
    """Yield the chains of a text, in order; most texts hold none."""
    if "=" not in text and "\u2248" not in text and "\\approx" not in text:
        return
    run = _Run("")
    for token in _TOKEN.finditer(text):
        kind, found = token.lastgroup, token.group()
        if kind in ("word", "other", "line"):
            if kind == "line" and len(run.parts) == 1 and text.startswith(("=", "\\approx"), token.end()):
                continue
            if kind == "line" and len(run.parts) > 1 and text.startswith("=", token.end()):
                continue
            chain = run.chain(found if kind != "line" else "")
            if chain:
                yield chain
            run = _Run(found if kind != "line" else "")
            continue
        if run.start < 0 and kind != "blank":
            run.start = token.start()
        run.end = token.end()
        if kind == "equal":
            run.parts.append([])
            run.approximate.append(not found.startswith("="))
        elif kind == "blank":
            run.parts[-1].append(" ")
        else:
            run.parts[-1].append({"power": "^", "cross": "*", "number": found.replace(",", "")}.get(str(kind), found))
    chain = run.chain("")
    if chain:
        yield chain


def operates(text: str) -> bool:
    """Whether something is computed there: a bare number, with its sign and in brackets or not, is no claim."""
    return _UNARY.fullmatch(text) is None and _OPERATION.search(text) is not None


def _whole(text: str, before: str, after: str) -> bool:
    if not text or len(text) > MAX_SIDE:
        return False
    if before:
        if text[0] in _BINARY or (text[0] in "-\u2212\u2013" and text[1:2] == " "):
            return False
        if before[0].isalpha():
            if before.lower() in _BEFORE or not (operates(text) or text.isalpha()):
                return False
        elif before not in _SAFE and before not in _COMMANDS:
            return False
    if after:
        if after[0].isalpha():
            return after.lower() not in _AFTER
        return after in _SAFE or after in _COMMANDS
    return True


def _trim(text: str) -> str | None:
    """Return the side without brackets that open or close outside it; None where it has some in its middle."""
    opened: list[int] = []
    loose: list[int] = []
    for place, char in enumerate(text):
        if char in "([{":
            opened.append(place)
        elif char in ")]}":
            if opened:
                opened.pop()
            else:
                loose.append(place)
    low, high = 0, len(text)
    stray = {*opened, *loose}
    while low < high and (low in stray or text[low].isspace()):
        stray.discard(low)
        low += 1
    while high > low and (high - 1 in stray or text[high - 1].isspace()):
        stray.discard(high - 1)
        high -= 1
    return text[low:high] if not stray else None
