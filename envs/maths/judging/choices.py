r"""The choices that a question lists: `(A) 1 (B) 2`, `\textbf{(A)}\ 1 \qquad \textbf{(B)}\ 2`, or `A. 1` on its own line."""

from __future__ import annotations

import re
from functools import lru_cache

from verigym.envs.maths.judging.question import MAX_CHARS, MAX_RUN_CHARS
from verigym.envs.maths.reading.parse import ParseError, parse
from verigym.envs.maths.tree import Node

_LABEL = re.compile(r"(?:\\(?:text|math)?(?:bf|rm)?\s*\{\s*)?\(([A-H])\)\s*\}?|(?:^|(?<=\n))[ \t]*([A-H])[.):](?=[\s$\\])")
_BLANK = r"(?:\\q?quad(?![A-Za-z])|\\[ ,;:!\\]|[\s~])"
_FIRST = re.compile(rf"{_BLANK}+")
_LAST = re.compile(rf"(?:{_BLANK}|[.,;\\])+$")


def listed_choice(question: str, letter: str) -> Node | None:
    """Return what the question lists under a letter; None where it lists nothing that can be read."""
    return _choices(question).get(letter)


@lru_cache(maxsize=256)
def _choices(question: str) -> dict[str, Node]:
    """Read the last row of labels that begins with A and leaves none out."""
    text = question[:MAX_CHARS]
    row: list[re.Match[str]] = []
    for match in _LABEL.finditer(text):
        letter = _letter(match)
        if letter == "A":
            row = [match]
        elif row and ord(letter) == ord(_letter(row[-1])) + 1:
            row.append(match)
    if len(row) < 2:
        return {}
    ends = [match.start() for match in row[1:]] + [len(text)]
    found: dict[str, Node] = {}
    for match, end in zip(row, ends, strict=True):
        told = text[match.end() : end].strip().partition("\n")[0][:MAX_RUN_CHARS]
        try:
            found[_letter(match)] = parse(_trimmed(told))
        except ParseError:
            continue
    return found


def _letter(match: re.Match[str]) -> str:
    return match.group(1) or match.group(2)


def _trimmed(text: str) -> str:
    """Take off the dollar signs of a choice, the blanks around it and the stop behind it."""
    text = text.replace("$", " ").strip()
    first = _FIRST.match(text)
    text = text[first.end() :] if first else text
    last = _LAST.search(text)
    return text[: last.start()] if last else text
