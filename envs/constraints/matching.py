"""Finds words and phrases in a text. No regular expression is built from the words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from verigym.envs.constraints.arguments import Relation


def holds(actual: int, relation: Relation, threshold: int) -> bool:
    """Return whether `actual` stands in `relation` to `threshold`."""
    return actual < threshold if relation == "less than" else actual >= threshold


def count(phrase: str, text: str) -> int:
    """Return how often `phrase` occurs in `text`, ignoring case and also inside words. Occurrences do not overlap."""
    return text.lower().count(phrase.strip().lower())


def has_word(phrase: str, text: str, *, any_case: bool = True) -> bool:
    r"""Return whether `phrase` occurs in `text` between word boundaries (`\b` on either side)."""
    phrase, text = (phrase.lower(), text.lower()) if any_case else (phrase, text)
    return any(_edge(text, at) and _edge(text, at + len(phrase)) for at in _places(phrase, text))


def plain_letters(text: str) -> str:
    """Return `text` in ASCII with accents removed: "São" becomes "Sao"."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


def _places(phrase: str, text: str) -> Iterator[int]:
    at = text.find(phrase)
    while at >= 0:
        yield at
        at = text.find(phrase, at + 1)


def _edge(text: str, at: int) -> bool:
    before = at > 0 and _in_word(text[at - 1])
    after = at < len(text) and _in_word(text[at])
    return before != after


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
