r"""Finding the answer in a completion: text in, text out, in one linear pass each.

Every function takes hostile text (two hundred thousand opened boxes, unclosed spans) in linear time: tokens are found by
regular expressions whose quantifiers are possessive, and braces are matched with a stack.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

Method = Literal["boxed", "hash", "final", "label", "last"]


class Extraction(NamedTuple):
    """An answer as it stands in the text, and the method that found it."""

    text: str
    method: Method


# Whatever its spelling, thinking is no answer; [THINK] is Mistral's.
_THINK = re.compile(r"<\s?(/?)\s?think(?:ing)?\s?>|\[(/?)THINK\]", re.IGNORECASE)


def strip_thinking(text: str) -> str | None:
    """Return what follows the last `</think>`; None when a `<think>` after it never closes.

    Chat templates often put `<think>` into the prompt, so a lone `</think>` ends the thinking too. An unclosed `<think>` means
    that the model did not stop thinking: nothing in it, and nothing before it, was given as the answer.
    """
    closed = 0
    opened = False
    for tag in _THINK.finditer(text):
        opened = not (tag.group(1) or tag.group(2))
        closed = closed if opened else tag.end()
    return None if opened else text[closed:]


_BOX_TOKEN = re.compile(
    r"(?P<box>\\(?:boxed|fbox)\s*+\{)"
    r"|\\(?:boxed|fbox)(?![A-Za-z])\s*+(?P<bare>[^\s{}$\\]++)"  # TeX allows \boxed 5
    r"|\\(?=\\(?:boxed|fbox))"  # a doubled backslash (text escaped twice) hides no box
    r"|\\."  # \{ and \} are characters, not groups
    r"|(?P<open>\{)|(?P<close>\})",
    re.DOTALL,
)


def box_spans(text: str) -> list[tuple[int, int, int]]:
    r"""Return (start, content start, content end) of every balanced outermost `\boxed{...}` or `\fbox{...}`, in order."""
    spans: list[tuple[int, int, int]] = []
    opened: list[tuple[int, int] | None] = []
    for token in _BOX_TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "box":
            opened.append((token.start(), token.end()))
        elif kind == "open":
            opened.append(None)
        elif kind == "bare":
            spans.append((token.start(), token.start("bare"), token.end("bare")))
        elif kind == "close" and opened:
            box = opened.pop()
            if box is not None:
                while spans and spans[-1][0] > box[0]:
                    spans.pop()
                spans.append((*box, token.start()))
    return spans


def last_box(text: str) -> str | None:
    r"""Return the content of the last balanced box, the outermost where boxes are nested; None where there is none.

    A box that never closes is no box: it neither counts nor hides an earlier balanced one.
    """
    spans = box_spans(text)
    if not spans:
        return None
    _, start, end = spans[-1]
    return text[start:end].strip()


_JOINER = re.compile(r"(?:[\s,;.$*]|and|\\(?:[()\[\],;: ]|q?quad(?![A-Za-z]))|\\text\s?\{[\s,]{0,4}and[\s,]{0,4}\})*+")


def row_of_boxes(text: str) -> tuple[str, ...]:
    """Return the contents of the boxes that end the text in a row, joined by commas or `and`; none where one stands alone."""
    spans = box_spans(text)
    row = spans[-1:]
    for span in reversed(spans[:-1]):
        gap = text[span[2] + 1 : row[-1][0]]
        if text[span[2] : span[2] + 1] != "}" or not gap or not _JOINER.fullmatch(gap):
            break
        row.append(span)
    return tuple(text[start:end].strip() for _, start, end in reversed(row)) if len(row) > 1 else ()


def after_hash(text: str) -> str | None:
    """Return the rest of the line after the last `####`."""
    _, mark, rest = text.rpartition("####")
    return _line(rest) or None if mark else None


_FINAL = re.compile(r"final answer is", re.IGNORECASE)
_MORE = re.compile(r"[0-9]|\\(?:boxed|fbox)|\$[^$]|(?<![A-Za-z])(?:or|not|no|wait|maybe|perhaps)(?![A-Za-z])")
_SENTENCE_END = re.compile(r"\.(?=\s|$)|\n")


def after_final(text: str) -> str | None:
    """Return what the last "final answer is" announces: a LaTeX span, a box, or the rest of the sentence."""
    mark = _last(_FINAL, text)
    if mark is None:
        return None
    rest = text[mark.end() :].lstrip(" \t:*_\n")
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if rest.startswith(opening):
            end = rest.find(closing, len(opening))
            if end >= 0 and not _goes_on(rest[end + len(closing) :]):
                return rest[len(opening) : end].strip() or None
    if rest.startswith(("\\boxed", "\\fbox")):
        spans = box_spans(rest)
        if not (spans and _goes_on(rest[spans[0][2] + 1 :])):
            return rest[spans[0][1] : spans[0][2]].strip() if spans else None
    return _line(_sentence(rest)) or None


def _sentence(text: str) -> str:
    end = _SENTENCE_END.search(text)
    return text[: end.start()] if end else text


def _goes_on(rest: str) -> bool:
    """Whether the sentence adds to the answer, or takes it back."""
    return _MORE.search(_sentence(rest)) is not None


_LABEL = re.compile(r"^[ \t>*#_-]*+A[ \t*_]*+:|(?<![A-Za-z])(?i:answer)[ \t*_]*+:", re.MULTILINE)


def after_label(text: str) -> str | None:
    """Return the rest of the line after the last `A:` that begins a line, or the last `Answer:` anywhere."""
    mark = _last(_LABEL, text)
    return _line(text[mark.end() :].lstrip()) or None if mark else None


_NUMBER = re.compile(
    r"(?:(?<![\w)\]}.])[-+\u2212])?(?<![\w.^])(?<!\^\{)\.?[0-9][0-9,]*+(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?"
    r"(?:/[0-9]++(?:\.[0-9]++)?)?(?:\s?\\?%| (?:hundred|thousand|million|billion|trillion)(?![A-Za-z])|[ijkKMB](?!\w))?"
    r"(?! ?\^)",
    re.ASCII,
)
_DOLLAR = re.compile(r"\\.|(\$\$?)", re.DOTALL)


def last_span(text: str) -> str | None:
    """Return the last number or LaTeX span, whichever ends later. For text that nobody asked to mark its answer."""
    found: list[tuple[int, str]] = []
    number = _last(_NUMBER, text)
    if number:
        found.append((number.end(), number.group().rstrip(",")))
    dollars = [m for m in _DOLLAR.finditer(text) if m.group(1)]
    if len(dollars) % 2 == 0 and dollars:
        found.append((dollars[-1].end(), text[dollars[-2].end() : dollars[-1].start()]))
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
        end = text.rfind(closing)
        start = text.rfind(opening, 0, end) if end > 0 else -1
        if start >= 0:
            found.append((end + 2, text[start + 2 : end]))
    spans = box_spans(text)
    if spans:
        found.append((spans[-1][2] + 1, text[spans[-1][1] : spans[-1][2]]))
    return max(found)[1].strip() or None if found else None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _line(text: str) -> str:
    """Return the first line without its markdown emphasis."""
    return text.lstrip(" \t*_").partition("\n")[0].strip().rstrip("*_ ")


METHODS: dict[Method, Callable[[str], str | None]] = {
    "boxed": last_box,
    "hash": after_hash,
    "final": after_final,
    "label": after_label,
    "last": last_span,
}


def extract(text: str, methods: Sequence[Method] = ("boxed",)) -> Extraction | None:
    r"""Return the answer by the first method that finds one; `methods` stand in order of trust.

    An empty string is an answer left empty (`\boxed{}`): it is returned, so that a less trusted method does not overrule it.
    """
    for method in methods:
        found = METHODS[method](text)
        if found is not None:
            return Extraction(found, method)
    return None
