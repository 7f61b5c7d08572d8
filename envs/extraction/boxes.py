r"""Scanner of boxes: `\boxed{...}`, `\fbox{...}`, `\boxed 5`, `\boxed\frac12`; and rows of boxes.

The scan takes linear time, even for two hundred thousand opened boxes: repetitions in the token pattern are possessive or
bounded or can end in only one way, and a stack matches the braces. Boxes in code fences, in backticks or after a percent sign
count, since models put answers there. Two damaged spellings count too. One is `\beginboxed{5}`. In the other, `\b` or `\f` was
decoded as an escape, so that a control character (backspace or form feed) stands in its place.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_NAME = r"(?:\\(?:begin)?boxed|\\fbox|\\framebox|\x08oxed|\x0cbox)"
_GROUP = r"\{(?:[^{}]|\{[^{}]{0,100}+\}){0,100}\}"
_ARGUMENT = rf"\s{{0,4}}+(?:{_GROUP}|[0-9A-Za-z]|\\[A-Za-z]++)"
# Without braces TeX boxes the next token. Here a number keeps its digits and a command its arguments; a letter must stand
# alone, because prose may mention `\boxed` ("use \boxed to mark it").
_BARE = (
    r"[-+]?[0-9]++(?:[.,/][0-9]++)*(?:\\?%)?"
    r"|[A-Za-z](?=\s{0,4}+(?:[$.,)\]\n]|\\[)\]]|\Z))"
    rf"|\\[dtc]?(?:frac|binom){_ARGUMENT}{_ARGUMENT}"
    rf"|\\sqrt(?:\[[^\][{{}}]{{0,20}}+\])?{_ARGUMENT}"
    rf"|\\(?:text|textbf|mathrm|mathbf|mbox)\s{{0,4}}+{_GROUP}"
    r"|\\(?:pi|infty|emptyset|varnothing|alpha|beta|gamma|theta|lambda|phi)(?![A-Za-z])"
)
_TOKEN = re.compile(
    rf"(?P<box>{_NAME}\s*+\{{)"
    rf"|{_NAME}(?![A-Za-z])\s*+(?P<bare>{_BARE})"
    rf"|\\(?={_NAME})"  # a doubled backslash (text escaped twice) hides no box
    r"|\\."  # \{ and \} are characters, not groups
    r"|(?P<open>\{)|(?P<close>\})",
    re.DOTALL,
)
_NESTED, _UNWRAPPED = 4, 20_000
MARK = re.compile(rf"{_NAME}(?![A-Za-z])")
"""Where a box begins, balanced or not."""


class Box(NamedTuple):
    """The place of a box in its text, as character offsets."""

    start: int
    """Start of the command."""
    inside: int
    """Start of the content."""
    end: int
    """End of the content."""
    after: int
    """End of the box."""

    def content(self, text: str) -> str:
        r"""Return the content of the box in `text`.

        If the box holds nothing but another box, as in `\boxed{\boxed{5}}`, the content of the inner box is returned.
        """
        inner = text[self.inside : self.end].strip()
        for _ in range(_NESTED):
            boxes = scan(inner) if len(inner) <= _UNWRAPPED and MARK.match(inner) else []
            if len(boxes) != 1 or boxes[0].start or boxes[0].after != len(inner):
                break
            inner = inner[boxes[0].inside : boxes[0].end].strip()
        return inner


def scan(text: str) -> list[Box]:
    """Return every outermost box in `text` whose braces balance, in order.

    A box whose braces never close is skipped, but complete boxes inside it are returned.
    """
    boxes: list[Box] = []
    opened: list[tuple[int, int] | None] = []
    start = _hint(text)  # braces before the first box do not matter
    if start is None:
        return boxes
    for token in _TOKEN.finditer(text, start):
        kind = token.lastgroup
        if kind == "box":
            opened.append((token.start(), token.end()))
        elif kind == "open":
            opened.append(None)
        elif kind == "bare":
            boxes.append(Box(token.start(), token.start("bare"), token.end("bare"), token.end("bare")))
        elif kind == "close" and opened:
            box = opened.pop()
            if box is not None:
                while boxes and boxes[-1].start > box[0]:
                    boxes.pop()
                boxes.append(Box(*box, token.start(), token.end()))
    return boxes


def _hint(text: str) -> int | None:
    """Return a place before which no box begins, by a fast substring search; None if there is no box."""
    hints = [place for place in (text.find("box"), text.find("\x08oxed")) if place >= 0]
    return max(0, min(hints) - len("\\frame")) if hints else None


def marks(text: str) -> int:
    """Return the number of boxes that begin in `text`, whether their braces balance or not."""
    start = _hint(text)
    return 0 if start is None else len(MARK.findall(text, start))


def box_spans(text: str) -> list[tuple[int, int, int]]:
    """Return (start, content start, content end) of every balanced outermost box in `text`, in order."""
    return [(box.start, box.inside, box.end) for box in scan(text)]


class BoxRow(NamedTuple):
    """Several boxes that together are one answer."""

    boxes: tuple[str, ...]
    """Contents of the boxes: two or more, not all equal. Dots replace the boxes beyond `MAX_BOXES` or `MAX_ROW_CHARS`."""
    joiner: Literal["comma", "and", "or"]
    """`or` if any two boxes are joined by "or"; otherwise `and` if any two are joined by "and"; otherwise `comma`."""
    loose: bool
    r"""Whether other words or a blank line stand between the boxes, as in `\boxed{1} papers and \boxed{2} bins`."""
    first: Box
    """The first box."""
    offered: bool = False
    """Whether one of the texts stands outside of the boxes; see `rivals`."""

    @property
    def text(self) -> str:
        """The row as one text."""
        return (" or " if self.joiner == "or" else ", ").join(self.boxes)


# Delimiters, emphasis and spacing, which mean nothing between boxes.
_NOISE = r"(?:[\s$*~&]|\\[()\[\],;:! \\]|\\(?:q?quad|hspace\{[^{}]{0,20}+\})(?![A-Za-z]))"
_TIGHT = re.compile(
    rf"{_NOISE}*(?:(?P<join>[,;、，；]|(?:and|or)(?![A-Za-z])|[和与或]|\\(?:text|mbox|mathrm)\s?\{{[\s,]{{0,4}}(?:and|or)[\s,]{{0,4}}\}}"
    rf"|\\l(?:and|or)(?![A-Za-z])){_NOISE}*)*"
)
_WORDS = re.compile(r"\\(?:text|mbox|mathrm|textbf)\s?\{([^{}]*+)\}")
_NAMED = re.compile(r"(?:\([A-Za-z, ]{1,12}\)|[A-Za-z][A-Za-z0-9_{}']{0,8})\s*+=")
_PIECE = re.compile(r"[A-Za-z]++|\([a-z0-9]{1,3}\)|[^\sA-Za-z]")
_OR = re.compile(r"(?<![A-Za-z])(?:[Oo]r|OR|lor)(?![A-Za-z])|或")
_AND = re.compile(r"(?<![A-Za-z])(?:and|land)(?![A-Za-z])|[和与]")
_LONGEST_GAP = 80
MAX_BOXES = 64
MAX_ROW_CHARS = 4_000
"""Limits of a row: `MAX_BOXES` boxes, and `MAX_ROW_CHARS` characters. A longer row is a list of guesses, not an answer."""
_MOST_WORDS = 5
# Words by which a second box is no correction of the first but a doubt: `\boxed{4} or maybe \boxed{5}`.
_HEDGE = re.compile(
    r"[\s.,;$(*]*+or(?:[\s,]++(?:maybe|perhaps|possibly|probably|alternatively|else|even|just|is|it(?:'s)?|could|might|may|be|"
    r"the|answer|also|simply))*[\s:,$(*?]*+",
    re.IGNORECASE,
)
# Words that offer a second box beside the first: `\boxed{7} (if not, then \boxed{6})`, `Answer 2: \boxed{6}`.
_ALTERNATIVE = re.compile(
    r"[\s.,;$(*]{0,12}(?:hmm+[\s.,;]{0,4}or|(?:or |and )?(?:if not|otherwise|failing that|alternatively)[\s,]{0,3}"
    r"(?:then|try|(?:the answer|it) (?:is|may be|might be|could be))?"
    r"|(?:answer|option|guess|possibility|candidate|choice)[\s#]{0,3}(?:[2-9]|[B-H]|two|three)\s{0,2}[:.)])[\s:,$(*]{0,8}",
    re.IGNORECASE,
)
# Words by which one box replaces another.
_NOT_IN_ROWS = frozenset(
    "then wait actually no not maybe perhaps so finally final correct corrected correction wrong but instead now therefore "
    "thus hence rather sorry should which becomes became gives answer answers hmm oops again mean meant".split()
)


def box_row(text: str, boxes: list[Box]) -> BoxRow | None:
    """Return the row of boxes that ends with the last of `boxes`.

    Return None if the last box stands alone, or if all boxes of the row have equal contents. The boxes of a row are separated
    by spaces, commas, `and`, `or` or nothing. If a few other words stand beside a comma or `and`, the row is marked as loose. A
    word that corrects an answer, such as `no`, ends the row.
    """
    members = boxes[-1:]
    size = 0
    more = False
    loose = joined_or = joined_and = False
    for box in reversed(boxes[:-1]):
        gap = text[box.after : members[-1].start]
        kind = _gap(gap)
        if not kind:
            break
        loose = loose or kind == "loose"
        joined_or = joined_or or (_OR.search(gap) or _ALTERNATIVE.fullmatch(gap)) is not None
        joined_and = joined_and or _AND.search(gap) is not None
        size += box.end - box.inside
        more = len(members) == MAX_BOXES or size > MAX_ROW_CHARS
        if more:
            break
        members.append(box)
    contents = tuple(box.content(text) for box in reversed(members))
    if more:
        contents = ("...", *contents)
    if len(set(contents)) < 2:
        return None
    return BoxRow(contents, "or" if joined_or else "and" if joined_and else "comma", loose, members[-1])


def _gap(gap: str) -> Literal["tight", "loose", ""]:
    """Return how the text between two boxes joins them; "" if it separates them."""
    if len(gap) > _LONGEST_GAP:
        return ""
    tight = _TIGHT.fullmatch(gap)
    if _HEDGE.fullmatch(gap) or _ALTERNATIVE.fullmatch(gap):
        return "tight"
    if tight:
        return "loose" if tight["join"] is None and gap.count("\n") > 1 else "tight"
    plain = _NAMED.sub(" ", re.sub(rf"{_NOISE}+", " ", _WORDS.sub(r" \1 ", gap)))
    pieces = _PIECE.findall(plain)
    words = [piece.lower() for piece in pieces if piece.isalpha()]
    if not any(piece in ",;、，；和与或" for piece in pieces) and not {"and", "or"}.intersection(words):
        return ""
    if len(words) > _MOST_WORDS or _NOT_IN_ROWS.intersection(words):
        return ""
    return "loose" if all(piece[0] in ",;:(、，；：" or piece.isalpha() for piece in pieces) else ""
