r"""Reads lists: brackets of any kind, commas, semicolons or line breaks between the items, and quotation marks.

Kind `list` and the generated puzzles share it, so that `[a, b]`, `\{a, b\}`, `(a; b)` and `"a", "b"` are one list everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MARKS = ("\n", ";", ",")
"""What stands between items. The first of these that occurs in a list parts it."""
_SIZES = re.compile(r"\\(?:left|right|[Bb]igg?[lr]?)(?![A-Za-z])\s*|\\(?=[{}])")
_NAMED = re.compile(r"\\([lr](?:brace|angle|brack))(?![A-Za-z])[ \t]*")
_SIGNS = {"lbrace": "{", "rbrace": "}", "langle": "\u27e8", "rangle": "\u27e9", "lbrack": "[", "rbrack": "]"}
_SAME = str.maketrans("\u2329\u232a\u3008\u3009\uff08\uff09\uff3b\uff3d\uff5b\uff5d", "\u27e8\u27e9\u27e8\u27e9()[]{}")
_PAIRS = {"[": "]", "(": ")", "{": "}", "\u27e8": "\u27e9"}
_QUOTES = (
    ("``", "''"),
    ("`", "'"),
    ("`", "`"),
    ('"', '"'),
    ("'", "'"),
    ("\u201c", "\u201d"),
    ("\u201d", "\u201d"),
    ("\u2018", "\u2019"),
    ("\u2019", "\u2019"),
    ("\u201e", "\u201c"),
    ("\u201e", "\u201d"),
    ("\u201a", "\u2018"),
    ("\u00ab", "\u00bb"),
    ("\u00bb", "\u00ab"),
    ("\u2039", "\u203a"),
    ("\u300c", "\u300d"),
)
_WRAPPED_LINE = re.compile(r"([,;])[ \t]*\r?\n\s*")


def unquoted(text: str) -> str:
    """Return `text` without a pair of quotation marks around the whole of it."""
    for opening, closing in _QUOTES:
        inner = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and inner.strip() and not _occurs(inner, opening, closing):
            return inner.strip()
    return text


def _occurs(inner: str, *marks: str) -> bool:
    return any(mark in inner for mark in marks)


def unbracketed(text: str) -> str:
    r"""Return `text` without quotation marks and one pair of brackets around it: `\left\{a, b\right\}` is `a, b`."""
    text = _NAMED.sub(lambda found: _SIGNS[found[1]], _SIZES.sub("", text)).translate(_SAME)
    text = unquoted(text.strip())
    return text[1:-1].strip() if _encloses(text) else text


def _encloses(text: str) -> bool:
    """Return whether the bracket that begins `text` closes at its end, and no sooner."""
    closing = _PAIRS.get(text[:1])
    if closing is None or not text.endswith(closing):
        return False
    depth = 0
    for place, char in enumerate(text):
        depth += (char == text[0]) - (char == closing)
        if depth == 0:
            return place == len(text) - 1
    return False


def split_items(text: str, marks: Sequence[str] = MARKS) -> list[str]:
    """Return the items of a list without brackets around it (see `unbracketed`), each without quotation marks around it.

    A separator after the last item is ignored, and a line break after a separator is a space. Other empty items are returned as
    empty texts.
    """
    text = _WRAPPED_LINE.sub(r"\1 ", text)
    mark = next((mark for mark in marks if mark in text), marks[-1])
    items = text.split(mark)
    if len(items) > 1 and not items[-1].strip():
        items.pop()
    return [unquoted(item.strip()) for item in items]
