"""Splits text into words: runs of letters and digits, words between spaces, or tokens as in the Penn Treebank."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from verigym.envs.constraints.sentences import sentences

PUNCTUATION = string.punctuation
EDGES = PUNCTUATION + " "
"""What is taken off the ends of a word."""

_RUN = re.compile(r"\w+")
_NO_PUNCTUATION = str.maketrans("", "", PUNCTUATION)

# A token is a run of dots, a double dash or quote, one sign that always stands alone, or a word. A comma or a colon before a
# digit belongs to the word.
_TOKEN = re.compile(
    r"\.{2,}|--|''|``"
    r"|[;@#$%&*?!()\[\]{}<>\"`\u00ab\u00bb\u201c\u201d\u2018\u2019\u201e\u2012-\u2015]"
    r"|[:,](?!\d)"
    r"|(?:[^\s;@#$%&*?!()\[\]{}<>\"`\u00ab\u00bb\u201c\u201d\u2018\u2019\u201e\u2012-\u2015:,.'-]"
    r"|[:,](?=\d)|\.(?!\.)|'(?!')|-(?!-))+"
)
_FINAL_STOP = re.compile(r"\.[\])}>\"'\s\u00bb\u201d\u2019]*$")
_CLITIC = re.compile(r"(?:'[sS]|'[mM]|'[dD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)$")
_CLITICS_ALONE = frozenset(("'re", "'ve", "'ll", "'m", "'t", "'s", "'d", "'n"))
_JOINED = {
    "cannot": 3, "d'ye": 1, "gimme": 3, "gonna": 3, "gotta": 3, "lemme": 3, "more'n": 4, "wanna": 3, "'tis": 2, "'twas": 2,
}  # fmt: skip
_LONGEST_CLOSE = 64


def count_words(text: str) -> int:
    """Return the number of runs of letters, digits and underscores in `text`."""
    return sum(1 for _ in _RUN.finditer(text))


def runs(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores."""
    return _RUN.findall(text)


def without_punctuation(text: str) -> str:
    """Return `text` without ASCII punctuation: "don't" becomes "dont"."""
    return text.translate(_NO_PUNCTUATION)


def bare(word: str) -> str:
    """Return a word without the punctuation at its ends."""
    return word.strip(EDGES)


def tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of `text`, sentence by sentence: "Don't go." gives Do, n't, go and a full stop.

    A full stop stays with its word except at a sentence's end, so that "U.S." is one token. Takes linear time.
    """
    return [token for sentence in sentences(text) for token in _of_sentence(sentence)]


def _of_sentence(sentence: str) -> Iterator[str]:
    end = _FINAL_STOP.search(sentence, max(0, len(sentence) - _LONGEST_CLOSE))
    stop = end.start() if end and end.start() and sentence[end.start() - 1] != "." else -1
    position = 0
    while found := _TOKEN.search(sentence, position):
        first, position = found.span()
        if first < stop < position:
            position = stop
        yield from _split_word(sentence[first:position])


def _split_word(token: str) -> Iterator[str]:
    if token == "''" or ("'" not in token and token.lower() not in _JOINED):
        yield token
        return
    cut = _JOINED.get(token.lower())
    if cut:
        yield token[:cut]
        yield token[cut:]
        return
    if len(token) > 1 and token[0] == "'" and token.lower() not in _CLITICS_ALONE:
        yield "'"
        token = token[1:]
    if len(token) > 1 and token[-1] == "'":
        yield token[:-1]
        yield "'"
        return
    clitic = _CLITIC.search(token, max(0, len(token) - 3))
    if clitic and clitic.start():
        yield token[: clitic.start()]
        yield clitic[0]
    else:
        yield token
