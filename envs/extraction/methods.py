r"""Methods of finding the answer in a completion; each takes one linear pass over the text.

Hostile text (two hundred thousand opened boxes, unclosed spans) takes linear time too: the quantifiers of the token patterns
are possessive, and a stack matches the braces.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from verigym.envs.extraction.box_suffix import after_box
from verigym.envs.extraction.boxes import MARK, BoxRow, box_row, box_spans, scan
from verigym.envs.extraction.partial import beside
from verigym.envs.extraction.rivals import rivals

__all__ = ["METHODS", "Extraction", "Method", "box_spans", "extract", "last_box", "strip_thinking"]

Method = Literal["boxed", "hash", "final", "label", "last"]


class Extraction(NamedTuple):
    """An answer exactly as the completion has it, and the method that found it."""

    text: str
    method: Method
    after: str = ""
    """For a box: the percent sign, degree sign, base, scale word or unit that directly follows it; see `after_box`."""
    row: BoxRow | None = None
    """For a box: the row of boxes that ends with this box; None if the box stands alone."""
    part: str = ""
    r"""For a box: the text around it that makes it a part of something larger (`-\boxed{5}`); see `beside`."""


# Marks of reasoning, which holds no answer: [THINK] is Mistral's, seed:think ByteDance's, begin_of_thought Sky's, the triangles
# are Kimi's; OpenAI's gpt-oss reasons in channels.
THINKING = re.compile(
    r"<\s?(/?)\s?(?:seed:)?(?:think(?:ing)?|thoughts?|reasoning)\s?>|\[(/?)THINK\]|\u25c1(/?)think\u25b7"
    r"|<\|(?:begin|(end))_of_thought\|>|<\|channel\|>\s?(?:(?:analysis|commentary)\b|(final)\b)",
    re.IGNORECASE,
)


def strip_thinking(text: str) -> str | None:
    """Return `text` after the last `</think>`, or None if a later `<think>` never closes.

    Chat templates often put `<think>` into the prompt, so a lone `</think>` ends the reasoning too. After an unclosed `<think>`
    the model did not stop reasoning, so no answer counts, even if one was written before the tag.
    """
    if text.isascii():  # most texts hold no tag, and this is quicker than the search
        lowered = text.lower()
        if "think" not in lowered and "thought" not in lowered and "reasoning" not in lowered and "|>" not in lowered:
            return text
    closed = 0
    opened = False
    for tag in THINKING.finditer(text):
        opened = not any(tag.groups())
        closed = closed if opened else tag.end()
    return None if opened else text[closed:]


def last_box(text: str) -> str | None:
    r"""Return the content of the last balanced box in `text`, the outermost if boxes are nested, or None if there is none.

    A box that never closes is ignored, and does not hide an earlier balanced box.
    """
    extraction = _boxed(text)
    return extraction.text if extraction else None


def _boxed(text: str) -> Extraction | None:
    boxes = scan(text)
    if not boxes:
        return None
    last = boxes[-1]
    joined = box_row(text, boxes) if len(boxes) > 1 else None
    part = beside(text, joined.first if joined else last, last)
    if part and joined and joined.loose:  # words stand between: the last may be the answer by itself
        joined, part = None, beside(text, last)
    if joined is None and not part:
        joined = rivals(text, last)
    return Extraction(last.content(text), "boxed", after_box(text, last.after), joined, part)


def after_hash(text: str) -> str | None:
    """Return the rest of the line after the last `####`."""
    _, mark, rest = text.rpartition("####")
    return _line(rest) or None if mark else None


_FINAL = re.compile(r"final answer is|\u6700\u7ec8\u7b54\u6848(?:\u662f|\u4e3a)", re.IGNORECASE)
_MORE = re.compile(r"[0-9]|\\(?:boxed|fbox)|\$[^$]|(?<![A-Za-z])(?:or|not|no|wait|maybe|perhaps)(?![A-Za-z])")
_SENTENCE_END = re.compile(r"\.(?=[\s*_]|$)|\n")


def after_final(text: str) -> str | None:
    """Return the answer after the last "final answer is" in `text`: a LaTeX span, a box, or the rest of the sentence.

    Return None if there is no such phrase.
    """
    mark = _last(_FINAL, text)
    if mark is None:
        return None
    rest = text[mark.end() :].lstrip(" \t:\uff1a*_\n")
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if rest.startswith(opening):
            end = rest.find(closing, len(opening))
            if end >= 0 and not _goes_on(rest[end + len(closing) :]):
                return rest[len(opening) : end].strip() or None
    if MARK.match(rest):
        boxes = scan(rest)
        if not (boxes and (_goes_on(rest[boxes[0].after :]) or beside(rest, boxes[0]))):
            return boxes[0].content(rest) if boxes else None
    return _line(_sentence(rest)) or None


def _sentence(text: str) -> str:
    end = _SENTENCE_END.search(text)
    return text[: end.start()] if end else text


def _goes_on(rest: str) -> bool:
    """Return whether the rest of the sentence adds to the answer or takes it back."""
    return _MORE.search(_sentence(rest)) is not None


_LABEL = re.compile(
    r"^[ \t>*#_-]*+A[ \t*_]*+:|(?<![A-Za-z])(?i:answer)[ \t*_]*+[:\uff1a]|\u7b54\u6848[\u662f\u4e3a]?[ \t*_]*+[:\uff1a]",
    re.MULTILINE,
)


def after_label(text: str) -> str | None:
    """Return the rest of the line after the last `A:` at the start of a line, or after the last `Answer:` anywhere, or None."""
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
    """Return the last number or LaTeX span in `text`, whichever ends later. For prompts that ask for no mark of the answer."""
    spans = _spans(text)
    return max(spans)[1].strip() or None if spans else None


def _spans(text: str) -> list[tuple[int, str]]:
    """Return the last number, the last LaTeX spans and the last box, each with its end."""
    spans: list[tuple[int, str]] = []
    number = _last(_NUMBER, text)
    if number:
        spans.append((number.end(), number.group().rstrip(",")))
    dollars = [m for m in _DOLLAR.finditer(text) if m.group(1)]
    if len(dollars) % 2 == 0 and dollars:
        spans.append((dollars[-1].end(), text[dollars[-2].end() : dollars[-1].start()]))
    for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
        end = text.rfind(closing)
        start = text.rfind(opening, 0, end) if end > 0 else -1
        if start >= 0:
            spans.append((end + 2, text[start + 2 : end]))
    boxes = scan(text)
    if boxes:
        spans.append((boxes[-1].after, boxes[-1].content(text)))
    return spans


def _ends_in_box(text: str) -> bool:
    r"""Whether the last span is a box, which may be a part of something larger: `-\boxed{5}`."""
    boxes = scan(text)
    return bool(boxes) and max(_spans(text))[0] == boxes[-1].after


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
    r"""Return the answer that the first successful one of `methods` finds in `text`, or None if all fail.

    List the most trusted method first. An empty answer (`\boxed{}`) counts as found and is returned as an empty string, so that
    no less trusted method overrules it.
    """
    for method in methods:
        if method == "boxed" or (method == "last" and _ends_in_box(text)):
            boxed = _boxed(text)
            if boxed:
                return boxed._replace(method=method)
            continue
        answer = METHODS[method](text)
        if answer is not None:
            return Extraction(answer, method)
    return None
