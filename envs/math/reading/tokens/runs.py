"""Turns runs of letters into tokens, by the rules of `latex/vocabulary.py` and the neighbouring characters."""

from __future__ import annotations

import re

from verigym.envs.latex import vocabulary
from verigym.envs.latex.units import formula_unit, known_unit

_WORD = re.compile(r"[^\W\d_]++(?:['.-][^\W\d_]++)*")
_IDEOGRAPHS = re.compile("[\u2e80-\u9fff\uf900-\ufaff]{1,6}+")
_CAPITALS_OR_LETTER = re.compile(r"[A-Z]{2,}+|[a-zA-Z]")
_NEXT_WORD = re.compile(r" ++([a-z]{3,}+)(?![A-Za-z])")
_VALUE_ENDS = frozenset(("num", "}", ")", "]", "\\}", "rbar", "circ", "unit", "'"))
_CONNECTED = re.compile(r"(or|and)([A-Z]|[a-z](?:[A-Z]?))")
_ROMAN = frozenset("IVX")

Classified = tuple[list[tuple[str, str]], int]
"""Kinds and texts of tokens, and the end of the run."""


def classify(text: str, start: int, end: int, mode: str, before: str, alone: frozenset[str]) -> Classified:
    """Return the tokens for a run of letters in `text`, and the end of the run.

    Args:
        text: the whole answer.
        start: start of the run.
        end: end of the run.
        mode: `math` if the run is in a formula; any other value if it is in words.
        before: kind of the token before the run.
        alone: capital letters that stand on their own in the text.
    """
    if text[start] >= "\u2e80":
        return _ideographs(text, start, end)
    if mode == "math" and text[start] < "\x7f" and text[end : end + 1] < "\x7f":
        return _formula(text, start, end, before, alone), end
    match = _WORD.match(text, start)
    if match is None:
        return [("word", text[start:end])], end
    word, end = match.group(), match.end()
    if before == "num" and word.lower() in vocabulary.DAY_HALVES:
        if "." in word and text[end : end + 1] == ".":
            end += 1
        return [("half", vocabulary.DAY_HALVES[word.lower()])], end
    return [_word(word, text, end, mode, before)], end


def _ideographs(text: str, start: int, end: int) -> Classified:
    match = _IDEOGRAPHS.match(text, start)
    if match is None:
        return [("word", text[start:end])], end
    word, end = match.group(), match.end()
    special = _special(word, "num")
    if special is None and known_unit(word) is None and len(word) > 1:
        for size in (2, 1):  # connectives and multipliers are not set apart by blanks
            special = _special(word[:size], "num")
            if special is not None or known_unit(word[:size]):
                return [special or ("word", word[:size])], start + size
    return [special or ("word", word)], end


def _special(word: str, before: str) -> tuple[str, str] | None:
    """Return the token of a word that means the same in formulas and outside."""
    low = word.lower()
    if low in vocabulary.CONNECTIVES:
        return vocabulary.CONNECTIVES[low], low
    if low in vocabulary.PERCENT:
        return "%", "%"
    if before == "num" and low in vocabulary.SCALES:
        return "scale", low
    if low == "mod":
        return "mod", "mod"
    if low in ("sqrt", "cbrt"):
        return low, low
    if word in vocabulary.CONSTANTS:
        return "const", vocabulary.CONSTANTS[word]
    if word in vocabulary.GREEK:
        return "sym", word
    return None


def _word(word: str, text: str, end: int, mode: str, before: str) -> tuple[str, str]:
    special = _special(word, before)
    if special is not None:
        return special
    if mode == "upright" and word in ("e", "i"):
        return "const", word
    if mode == "upright" and word == "d":
        return "sym", word
    if mode == "upright" and word == "lim":
        return "big", word
    if word in vocabulary.FUNCTIONS and (mode == "upright" or text[end : end + 1] == "(" or text[end : end + 2] == "}("):
        if not (before in _VALUE_ENDS and known_unit(word)):
            return "func", vocabulary.FUNCTIONS[word]
    return "word", word


def _formula(text: str, start: int, end: int, before: str, alone: frozenset[str]) -> list[tuple[str, str]]:
    run = text[start:end]
    special = _special(run, before) or _measure(run, text, end, before)
    if special is not None:
        return [special]
    glued = _CONNECTED.fullmatch(run) if before in _VALUE_ENDS else None
    if glued:  # x=1orx=2
        return [(glued.group(1), glued.group(1)), *_each(glued.group(2))]
    if run in vocabulary.FUNCTIONS:
        return [("func", vocabulary.FUNCTIONS[run])]
    nearest, follow = _neighbours(text, start, end)
    if run.isupper() and len(run) <= 5 and (nearest or follow or run not in vocabulary.ALWAYS_WORDS):
        product = len(run) == 2 and run[0] != run[1] and alone.issuperset(run) and not _ROMAN.issuperset(run)
        return [("sym", letter) for letter in run] if product else [("sym", run)]
    split = vocabulary.split_function(run)
    if split is not None:
        return [("func", vocabulary.FUNCTIONS[split[0]]), *_each(split[1])]
    if follow == "(" and run[1:] in vocabulary.FUNCTIONS:  # xsin(x)
        return [*_each(run[0]), ("func", vocabulary.FUNCTIONS[run[1:]])]
    return [("word", run)] if vocabulary.is_word(run, nearest, follow) else _each(run)


def _measure(run: str, text: str, end: int, before: str) -> tuple[str, str] | None:
    """Return the token of a unit or half of a day behind a value."""
    if before == "num" and run.lower() in vocabulary.DAY_HALVES:
        return "half", run.lower()
    if before == "num" and run in ("sq", "cu"):
        return "word", run
    if (before in _VALUE_ENDS or before in ("word", ".")) and formula_unit(run):
        return "unit", run
    if (
        before in _VALUE_ENDS
        and run in ("min", "sec", "deg", "in")
        and text[end : end + 6].strip()[:1] in ("", ".", ",", "}", "$")
    ):
        return "unit", run
    return None


def _neighbours(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the nearest printed characters; a brace behind a blank is none."""
    before, after = text[max(0, start - 8) : start], text[end : end + 8]
    nearest, follow = before.rstrip()[-1:], after.lstrip()[:1]
    return (
        "" if nearest in "{}" and before[-1:].isspace() else nearest,
        "" if follow in "{}" and after[:1].isspace() else follow,
    )


def _each(run: str) -> list[tuple[str, str]]:
    return [("const" if part in "ei" else "sym", part) for part in _CAPITALS_OR_LETTER.findall(run)]


def is_article(text: str, end: int) -> bool:
    """Return whether the `a` that ends at `end` in `text` is the article in `a cat`, not a variable."""
    match = _NEXT_WORD.match(text, end)
    return match is not None and vocabulary.is_word(match.group(1), "", text[match.end() : match.end() + 1].strip())
