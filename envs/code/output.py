"""Compares printed text with the expected text, as bytes and piece by piece, so that megabytes of output cost no memory.

Only ASCII white space counts as white space. With a tolerance, two words that are both numbers are compared as decimals of any
length and exponent. Without a tolerance, nothing is converted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from verigym.envs.code import nearness, show
from verigym.envs.code.reference import Whitespace

_TOKEN = re.compile(rb"[^ \t\n\r\x0b\x0c]++")
_PIECE = re.compile(rb"[^ \t\n\r\x0b\x0c]++|[ \t\n\r\x0b\x0c]++")
_SPACE = b" \t\n\r\x0b\x0c"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two texts differ."""

    unit: str
    number: int
    expected: bytes | None
    got: bytes | None

    def __str__(self) -> str:
        want, have = (("nothing" if side is None else show.quoted(side)) for side in (self.expected, self.got))
        return f"{self.unit} {self.number}: expected {want}, got {have}" if self.unit else f"expected {want}, got {have}"


def difference(expected: bytes, got: bytes, whitespace: Whitespace = "lines", tolerance: float = 0.0) -> Difference | None:
    """Return the first difference between `expected` and `got`, or None if `whitespace` and `tolerance` make them equal."""
    if expected == got:
        return None
    if whitespace == "exact":
        same = tolerance > 0 and _same_pieces(expected, got, tolerance)
        return None if same else Difference("", 0, expected, got)
    if expected.rstrip(_SPACE) == got.rstrip(_SPACE):
        return None
    unit, parts = ("word", _tokens) if whitespace == "tokens" else ("line", _lines)
    for number, (want, have) in enumerate(itertools.zip_longest(parts(expected), parts(got)), 1):
        if want == have:
            continue
        if tolerance > 0 and want is not None and have is not None and _same_pieces(want, have, tolerance):
            continue
        return Difference(unit, number, want, have)
    return None


def _tokens(text: bytes) -> Iterator[bytes]:
    return (match.group() for match in _TOKEN.finditer(text))


def _lines(text: bytes) -> Iterator[bytes]:
    """Yield lines without trailing space, and without the empty ones at the end."""
    text = text.rstrip(_SPACE)
    start = 0
    while text and start <= len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end].rstrip(_SPACE)
        start = end + 1


def _same_pieces(expected: bytes, got: bytes, tolerance: float) -> bool:
    """Return whether words are equal or near and the white space between them is the same."""
    for want, have in itertools.zip_longest(_PIECE.finditer(expected), _PIECE.finditer(got)):
        if want is None or have is None:
            return False
        if want.group() != have.group() and not _near(want.group(), have.group(), tolerance):
            return False
    return True


def _near(expected: bytes, got: bytes, tolerance: float) -> bool:
    want, have = nearness.from_text(expected), nearness.from_text(got)
    return want is not None and have is not None and nearness.near(want, have, tolerance)
