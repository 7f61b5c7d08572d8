r"""Whether a box holds only a part of a formula: `-\boxed{5}`, `\boxed{5}/2`, `2\boxed{5}`, `\sqrt{\boxed{5}}`.

Two hundred characters on either side of the box are examined (`sides.py`), even beyond brackets that enclose the box.
"""

from __future__ import annotations

import re

from verigym.envs.extraction.boxes import Box
from verigym.envs.extraction.sides import WRAPPING, back, follows, in_function, owner, precedes, skip

_REACH = 200
_PARAGRAPH = 4_000
_MAX_WRAPPERS = 8

# The surroundings of most boxes: `= \boxed{5}$`, `answer is \boxed{5}.`
_QUICK_LEFT = re.compile(
    r"(?:(?<![^\s])(?!(?:[Nn]ot|[Mm]inus)[ \n])[A-Za-z]{2,15}+:?|[^!t]="
    r"|(?<![-+*/^\u2212\u00d7A-Za-z])(?<!\$ )(?<!not )(?<!minus )\$|:|\\\[)[ \n]?\Z"
)
_QUICK_RIGHT = re.compile(r"\$(?![-+*/^])|\\[)\]](?![-+*/^])|[.,;]?(?:\n|\Z)|\. ")
_TOKEN = re.compile(r"\\[A-Za-z]++|\\.|[0-9]++|[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f]++|\s++|.", re.DOTALL)
_BOUND = re.compile(r"\\(?P<tex>[()\[\]])|\\(?P<env>begin|end)\s?\{|\\(?:.|\n)|\$(?P<dollar>\$?)|\n(?P<gap>\s*+\n)")
_CLOSING = {"(": ")", "[": "]", "begin": "end"}
_STRIKES = re.compile(r"(~~(?=\S)|<s>|<del>)(?:(?!~~|\n\n|</?(?:s|del)>).){1,200}\Z", re.DOTALL)
_STRUCK = re.compile(r"(?:(?!~~|\n\n|</?(?:s|del)>).){0,200}(?:(?<=\S)~~|</s>|</del>)", re.DOTALL)
_MATRIX = re.compile(r"\\(?:(begin)|end)\s?\{[bBpvV]matrix\*?\}")
_DIGITS_BEFORE = re.compile(r"(?:[0-9]|(?<=[^\n])[0-9]\.)\Z")
# A number that begins before the box, no list: `1,\boxed{500}`, but neither `n=1,\boxed{500}` nor `3 and 5,\boxed{500}`.
_COMMA_BEFORE = re.compile(
    r"(?:[0-9]\{,\}|(?:\A|[\n$({\[:]|(?<![A-Za-z])(?:is|be|equals))[ ~]{0,2}[0-9]{1,3}(?:,[0-9]{3}){0,4},)\Z"
)
_DIGITS_AFTER = re.compile(r"[0-9]|\.[0-9]|(?:,|\{,\})[0-9]{3}(?![0-9])|(?: |~|\\[,;: ])0{3}(?![0-9.])")
_DENIED = re.compile(r"(?<![A-Za-z'])(?:not|minus)\s{1,4}(?:\$|\\\()?\s{0,4}\Z", re.IGNORECASE)


def beside(text: str, first: Box, last: Box | None = None) -> str:
    """Return the text around the boxes `first` to `last` if they are only part of a larger expression, otherwise ""."""
    last = last or first
    start = first.start
    before = text[max(0, start - _REACH) : start]
    if before.endswith("\\") and _is_doubled(before):
        return beside(*_halved(text, first, last))
    if ("~~" in before or "<s>" in before or "<del>" in before) and _is_struck(text, start, last.after):
        return _shown(before, text[last.after : last.after + _REACH])
    opens = before.count("{") != before.count("}")
    if (
        not opens
        and _QUICK_RIGHT.match(text, last.after)
        and (not start or _QUICK_LEFT.search(text, max(0, start - 18), start))
    ):
        return ""
    after = text[last.after : last.after + _REACH]
    if _splits_number(before[-40:], after, text[first.inside : first.end], text[last.inside : last.end]):
        return _shown(before, after)
    if _DENIED.search(before[-20:]):
        return _shown(before, after)
    math = _in_math(text, first.start, last.after)
    left, right = _TOKEN.findall(before)[::-1], _TOKEN.findall(after)
    for _ in range(_MAX_WRAPPERS):
        inner_left, inner_right = back(left, math), skip(right, math)
        if not inner_left or not inner_right or (inner_left[0], inner_right[0]) not in (("{", "}"), ("(", ")")):
            break
        command, outside = owner(inner_left)
        if command in WRAPPING:
            return _shown(before, after)
        left, right = outside, inner_right[1:]
    words = text.startswith(r"\text", last.inside)  # no factor of what follows
    part = precedes(left, math) or (opens and _is_argument(left)) or (math and (in_function(left) or _is_entry(before)))
    part = part or (not words and follows(right, math))
    return _shown(before, after) if part else ""


def _is_doubled(before: str) -> bool:
    r"""Whether the backslash of the box is doubled, as in a text that was escaped twice: `-\\boxed{5}`."""
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _halved(text: str, first: Box, last: Box) -> tuple[str, Box, Box]:
    """Return the doubly escaped text around the boxes with single backslashes, and the boxes' places in it."""
    head = text[max(0, first.start - _PARAGRAPH) : first.start - 1].replace("\\\\", "\\")
    tail = text[last.after : last.after + _REACH].replace("\\\\", "\\")
    shift = len(head) - first.start
    one, two = (Box(*(place + shift for place in box)) for box in (first, last))
    return head + text[first.start : last.after] + tail, one, two


def _is_struck(text: str, start: int, end: int) -> bool:
    """Return whether the box is struck out in Markdown or HTML; in a formula `~` is a space."""
    opened = _STRIKES.search(text, max(0, start - _REACH), start + 1)
    if opened is None or _STRUCK.match(text, end) is None:
        return False
    return opened[1] != "~~" or not _in_math(text, start, end)


def _shown(before: str, after: str) -> str:
    return " ".join(f"{before[-8:]}[box]{after[:8]}".split())


def _splits_number(before: str, after: str, first: str, last: str) -> bool:
    r"""Whether digits go on beside the box: `\boxed{5}00`, `1,\boxed{500}`."""
    if first[:1].isdigit() and _DIGITS_BEFORE.search(before):
        return True
    if first[:3].isdigit() and not first[3:4].isdigit() and len(first) >= 3 and _COMMA_BEFORE.search(before):
        return True
    return last[-1:].isdigit() and _DIGITS_AFTER.match(after) is not None


def _is_argument(left: list[str]) -> bool:
    r"""Whether the box stands deeper in an argument: the exponent of `2^{n+1 = \boxed{5}}`."""
    depth = 0
    for place, token in enumerate(left):
        depth += (token == "}") - (token == "{")
        if depth < 0:
            if owner(left[place:])[0] in WRAPPING:
                return True
            depth = 0
    return False


def _is_entry(before: str) -> bool:
    """Return whether the box stands in a matrix."""
    bounds = _MATRIX.findall(before)
    return bool(bounds) and bounds[-1] == "begin"


def _in_math(text: str, start: int, end: int) -> bool:
    """Return whether the box stands in a formula: between delimiters that belong together."""
    opened, dollars = "", 0
    paragraph = max(0, start - _PARAGRAPH, text.rfind("\n\n", 0, start))
    for bound in _BOUND.finditer(text, paragraph, start):
        if bound["gap"] is not None:
            opened, dollars = "", 0
        elif bound["dollar"] is not None:
            dollars += 1
            opened = "$" if dollars % 2 else ""
        elif bound["tex"] or bound["env"]:
            opened = _CLOSING.get(bound["tex"] or bound["env"], "")
    if not opened:
        return False
    closed = next((bound for bound in _BOUND.finditer(text, end, end + _REACH) if bound.lastgroup), None)
    if closed is None:
        return False
    return opened == "$" if closed["dollar"] is not None else opened in (closed["tex"], closed["env"])
