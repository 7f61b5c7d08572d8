"""Splits a solution into steps, which are spans that cover the text. Each way of splitting is one linear pass.

The separator between two steps (blank lines, the line break, the space after a full stop) belongs to the step before it, so
each step ends where the next begins and no text is left out. No step is blank.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

Splitting = Literal["paragraphs", "lines", "numbered", "sentences"]
Ends = tuple[str, ...]
"""Texts after which a step ends, for layouts of one's own."""

# Quantifiers are possessive, and a match begins where the one before it cannot have begun: linear on hostile text.
_PARAGRAPH = re.compile(r"\n[^\S\n]*+\n\s*+")
_LINE = re.compile(r"\n\s*+")
_NUMBERED = re.compile(
    r"^[ \t>*#_-]*+(?:(?i:step)[ \t]?[0-9]{1,4}(?![0-9])|[0-9]{1,4}[.)](?=\s)|\([0-9]{1,4}\)(?=\s))", re.MULTILINE
)
_SENTENCE = re.compile(r"(?<![.!?])[.!?]++[\"')\]\u2019\u201d]*+\s++|(?<![\u3002\uff01\uff1f])[\u3002\uff01\uff1f]++\s*+")
_BEFORE = 16
_LAST_WORD = re.compile(r"(?:^|[\s(])([A-Za-z.]{1,8}|[0-9]{1,4})$")
_ABBREVIATIONS = frozenset(
    "al approx cf dr e.g ed eq etc fig i.e mr mrs ms no p pp prof resp sec st viz vs".split()  # without their last point
)
_ANSWER = re.compile(r"\\(?:boxed|fbox)|####|(?i:\banswer\b(?:[ \t*_]*+(?:is|:|=)))|\u7b54\u6848", re.MULTILINE)


class Span(NamedTuple):
    """Characters [start, end) of the text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the characters, without space at the ends."""
        return text[self.start : self.end].strip()


def split(text: str, how: Splitting | Ends = "paragraphs", *, answer: bool = True) -> list[Span]:
    """Return the steps of `text`. They cover the text without gaps, and none is blank; a blank text has no steps.

    Args:
        text: the text of the solution.
        how: where to split: `paragraphs` at blank lines, `lines` at line breaks, `numbered` before lines that begin with `Step
            2`, `2.`, `2)` or `(2)`, `sentences` after full stops (not after an abbreviation, an initial or a list's number); or
            a collection of texts after each of which a step ends.
        answer: whether to keep the last step if it states the final answer (a box, `####`, "the answer is").
    """
    cuts_of = _CUTS[how] if isinstance(how, str) else _after(_any_of(how))
    cuts = [0, *(cut for cut in cuts_of(text) if 0 < cut < len(text)), len(text)]
    spans: list[Span] = []
    start = 0
    for low, high in zip(cuts, cuts[1:], strict=False):
        if not text[low:high].strip():
            continue  # joins the step before it, below
        if spans:
            spans[-1] = Span(spans[-1].start, low)
            start = low
        spans.append(Span(start, high))
    if spans:
        spans[-1] = Span(spans[-1].start, len(text))
        if not answer and states_answer(text[spans[-1].start :]):
            spans.pop()
    return spans


def states_answer(step: str) -> bool:
    """Return whether the text of a step announces a final answer."""
    return _ANSWER.search(step) is not None


def _after(pattern: re.Pattern[str]) -> Callable[[str], Iterator[int]]:
    return lambda text: (match.end() for match in pattern.finditer(text))


@functools.lru_cache(maxsize=32)
def _any_of(ends: Ends) -> re.Pattern[str]:
    # The longest first: the end of a step is the end of the whole mark.
    return re.compile("|".join(re.escape(end) for end in sorted(ends, key=lambda end: (-len(end), end))))


def _numbered(text: str) -> Iterator[int]:
    return (match.start() for match in _NUMBERED.finditer(text))


def _sentences(text: str) -> Iterator[int]:
    for match in _SENTENCE.finditer(text):
        if text[match.start()] == "." and _abbreviates(text, match.start()) and "\n" not in match.group():
            continue
        yield match.end()


def _abbreviates(text: str, point: int) -> bool:
    """Return whether the point belongs to the word before it: `e.g.`, an initial, the number of a list's item."""
    before = text[max(0, point - _BEFORE) : point]
    word = _LAST_WORD.search(before)
    if word is None:
        return False
    abbreviation = word.group(1)
    if abbreviation[0].isdigit():
        line = before[: word.start(1)]
        return not line.rpartition("\n")[2].strip() and (len(before) < _BEFORE or "\n" in line)
    return abbreviation.lower() in _ABBREVIATIONS or (len(abbreviation) == 1 and abbreviation.isupper() and abbreviation != "I")


_CUTS: dict[Splitting, Callable[[str], Iterator[int]]] = {
    "paragraphs": _after(_PARAGRAPH),
    "lines": _after(_LINE),
    "numbered": _numbered,
    "sentences": _sentences,
}
