"""A small tokenizer of Lean 4 text: enough to tell code from comments and strings, and to find keywords and brackets.

It accepts every text and reads it in one pass, in linear time. The rules follow the Lean 4 reference, "Lexical structure"
(https://lean-lang.org/doc/reference/latest/): block comments nest, strings may span lines, `r#".."#` has no escapes,
`s!"..{term}.."` contains code, `«..»` quotes a name, `h.end` is one identifier. In Lean, the notation in scope decides which
symbols are one token. This tokenizer knows only the symbols that it would otherwise misread, for example as a bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["ident", "number", "string", "char", "symbol", "open", "close", "comment", "doc", "unclosed"]


class Token(NamedTuple):
    """One token, `text[start:end]`. White space lies between tokens and is not a token.

    An interpolated string is returned as parts of kind string, with the tokens of the code in braces between them. A comment or
    string that is never closed is one token of kind unclosed that lasts to the end of the text.
    """

    kind: Kind
    text: str
    start: int
    end: int


_LETTERS = (
    r"A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f\u0391-\u039f\u03a1\u03a2\u03a4-\u03a9\u03b1-\u03ba\u03bc-\u03fb"
    r"\u1f00-\u1ffe\u2100-\u214f\U0001d49c-\U0001d59f"
)
_PART = rf"(?:[{_LETTERS}][{_LETTERS}0-9'!?\u2080-\u2089\u2090-\u209c\u1d62-\u1d6a\u2c7c]*+|«[^«»]*+»)"
_SPACE = re.compile(r"[ \t\r\n]++")
_TOKEN = re.compile(
    r"(?P<line>--[^\n]*+)"
    r"|(?P<block>/-)"
    r'|(?P<raw>r(?P<hashes>#*+)")'
    r'|(?P<string>")'
    rf"|(?P<ident>{_PART}(?:\.{_PART})*)"
    r"|(?P<number>0[xX][0-9a-fA-F_]++|0[bB][01_]++|0[oO][0-7_]++|[0-9][0-9_]*+(?:\.[0-9][0-9_]*+)?(?:[eE][+-]?+[0-9]++)?)"
    r"|(?P<char>'(?:\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\'])')"
    r"|(?P<open>[@#]\[|[(\[{⟨⦃])"
    r"|(?P<close>\]'|[)\]}⟩⦄])"
    r"|(?P<quote>«)"
    r"|(?P<symbol>:=|\.\.\.|\.\.|<-|->|=>|//|\\/|/\\|''|⁻¹'|.)",
    re.DOTALL,
)
_NEST = re.compile(r"/-|-/")
_STRING_REST = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*"', re.DOTALL)
_PIECE = re.compile(r'[^"\\{]*+(?:\\.[^"\\{]*+)*["{]', re.DOTALL)
# White space and comments that Lean skips after the first three characters of a docstring: `/-- -- -/` does not end there.
_DOC_SKIP = re.compile(r"(?:[ \t\r\n]++|--[^\n]*+)*")
# Words whose string argument is interpolated; that of the tactic `trace` is not.
_INTERPOLATING = frozenset({"s!", "m!", "f!", "dbg_trace", "throwError"})


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text, comments included, in order."""
    place = 0
    before = ""  # the last token that is no comment
    holes: list[int] = []  # for each interpolated string that is open: braces open in its code
    while place < len(text):
        if space := _SPACE.match(text, place):
            place = space.end()
            continue
        if text[place] == "}" and holes and not holes[-1]:
            holes.pop()
            end, hole = _piece(text, place + 1)
            kind: Kind = "string"
        else:
            kind, end, hole = _next(text, place, before)
        if end < 0:
            yield Token("unclosed", text[place:], place, len(text))
            return
        if hole:
            holes.append(0)
        token = Token(kind, text[place:end], place, end)
        place = end
        if holes and not hole and kind in ("open", "close") and token.text in "{}":
            holes[-1] += 1 if kind == "open" else -1
        if kind not in ("comment", "doc"):
            before = token.text
        yield token
    if holes:
        yield Token("unclosed", "", len(text), len(text))


def code(text: str) -> list[Token]:
    """Return the tokens without comments."""
    return [token for token in tokens(text) if token.kind not in ("comment", "doc")]


def position(text: str, offset: int) -> tuple[int, int]:
    """Return the line (from 1) and column (from 0, in characters) of `offset` in `text`, as Lean counts them."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1)


def _next(text: str, place: int, before: str) -> tuple[Kind, int, bool]:
    """Return kind and end of the token that starts here, -1 for never closed, and whether it is a string up to a hole."""
    match = _TOKEN.match(text, place)
    assert match, "the last alternative takes any character"
    group = match.lastgroup
    if group == "line":
        return "comment", match.end(), False
    if group == "block":
        # Lean skips a character after `/-` unread, so in `/-/- x -/` one comment opens (run on 4.28).
        doc = _DOC_SKIP.match(text, place + 3) if text[place + 2 : place + 3] in ("-", "!") else None
        return "doc" if doc else "comment", _comment_end(text, doc.end() if doc else place + 3), False
    if group == "raw":
        mark = '"' + match["hashes"]
        close = text.find(mark, match.end())
        return "string", close + len(mark) if close >= 0 else -1, False
    if group == "string":
        if before in _INTERPOLATING:
            end, hole = _piece(text, place + 1)
            return "string", end, hole
        rest = _STRING_REST.match(text, place + 1)
        return "string", rest.end() if rest else -1, False
    if group == "quote":
        return "unclosed", -1, False
    return group, match.end(), False  # type: ignore[return-value]


def _comment_end(text: str, place: int) -> int:
    """Return where a block comment ends whose content starts here, or -1."""
    depth = 1
    for mark in _NEST.finditer(text, place):
        depth += 1 if mark[0] == "/-" else -1
        if not depth:
            return mark.end()
    return -1


def _piece(text: str, place: int) -> tuple[int, bool]:
    """Return where the text of an interpolated string ends that goes on here, -1 for never, and whether code follows."""
    match = _PIECE.match(text, place)
    return (match.end(), match[0].endswith("{")) if match else (-1, False)
