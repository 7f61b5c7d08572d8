"""Sentence boundaries by the Punkt algorithm (Kiss and Strunk, 2006), which the reference checkers use.

Punkt learns abbreviations, frequent first words of sentences and the usual case of words from a corpus. This module uses fixed
lists instead, so that no model has to be downloaded. docs/constraints.md says where its counts differ from Punkt's.
"""

from __future__ import annotations

import re

from verigym.envs.constraints.wordlists import ABBREVIATIONS, FUNCTION_WORDS, SENTENCE_STARTERS

_CHUNK = re.compile(r"\S+")
# Characters that end a word wherever they stand; after a full stop they make it a candidate.
_CUTS = ")\";}]*:@'({[\u2018\u2019\u201c\u201d\u00ab\u00bb!?"
_CANDIDATE = re.compile(rf"[.?!](?=[{re.escape(_CUTS)}])")
_BEFORE_WORD = re.compile(r".*[)\";}\]*:@({\[]|--", re.DOTALL)
_CLOSERS = re.compile("[\"')\\]}\u2018\u2019\u201c\u201d\u00ab\u00bb]+(?:\\s+|(?=--)|$)", re.MULTILINE)
_NUMBER = re.compile(r"-?[.,]?\d[\d,.-]*\.?")
_INITIAL = re.compile(r"[^\W\d]\.")
# A word longer than this is no abbreviation, initial or number that a person would write.
_LONGEST = 40


def sentences(text: str) -> list[str]:
    """Return the sentences of `text`, each without surrounding white space. Takes linear time."""
    found: list[str] = []
    start = 0
    for end, following in _breaks(text):
        if end <= start:
            continue
        closers = _CLOSERS.match(text, following)
        stop = following + len(closers[0].rstrip()) if closers else end
        found.append(text[start:stop])
        start = closers.end() if closers else following
    found.append(text[start:])
    return [sentence.strip() for sentence in found if sentence.strip()]


def _breaks(text: str) -> list[tuple[int, int]]:
    """Return for each break where the sentence ends and where the next begins."""
    chunks = [match.span() for match in _CHUNK.finditer(text)]
    found = []
    for number, (start, end) in enumerate(chunks):
        following = chunks[number + 1] if number + 1 < len(chunks) else None
        if following and text[end - 1] in ".?!":
            at = end - 1
        else:
            candidates = [match.start() for match in _CANDIDATE.finditer(text, start, end)]
            if not candidates:
                continue
            at = candidates[-1]
        if at == end - 1 and following:
            after, begin = text[following[0] : min(following[1], following[0] + _LONGEST)], following[0]
        else:
            after, begin = text[at + 1], at + 1
        if _is_break(text[start : at + 1], after):
            found.append((at + 1, begin))
    return found


def _is_break(before: str, after: str) -> bool:
    """Return whether a sentence ends with `before`, a word that ends in `.`, `?` or `!`, where `after` is the next word."""
    if before[-1] != "." or any(mark in before for mark in "?!"):
        return True
    word = before[-_LONGEST:]
    cut = _BEFORE_WORD.match(word)
    word = word[cut.end() :].lstrip(",-&#`") if cut and cut.end() < len(word) else word
    starts = _starts_sentence(after)
    if word.endswith(".."):
        return starts is True
    stem = word[:-1].lower()
    if _INITIAL.fullmatch(word):
        return stem not in ABBREVIATIONS and (starts is True or (starts is None and not after[0].isupper()))
    if stem in ABBREVIATIONS or stem.rpartition("-")[2] in ABBREVIATIONS:
        return starts is True
    return not (_NUMBER.fullmatch(word) and starts is False)


def _starts_sentence(word: str) -> bool | None:
    """Return whether a sentence starts with this word, by its case; None where that cannot be told."""
    first = word[0]
    if first in ";:,.!?" or first.islower():
        return False
    if first.isupper():
        bare = re.split(r"[^\w']", word, maxsplit=1)[0].lower()
        return True if bare in FUNCTION_WORDS or bare in SENTENCE_STARTERS else None
    return None
