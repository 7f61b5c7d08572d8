"""Finds the program in a completion: its fenced code blocks, in one linear pass over the lines that can open or close one.

A fence is a line with three or more backticks, or with three or more tildes. Fences follow CommonMark, with these exceptions
for completions:

- A fence may have any indentation (in lists), stand in a quotation (`>`) or follow an opening tag (`<answer>`).
- Inside a block, a fence of the same character that names a language opens a new block. So a draft that breaks off does not
  swallow the next block, and a program inside a markdown answer is found.
- A fence of the same character closes the block even if other text, which names no language, follows it on its line.
- Only if a text has no complete block are its damaged fences mended: one that names the program's language at the end of a line
  of prose, one at the end of the last line of code, and one behind characters without width. See `mended`.
- A block whose opening fence has more than three characters should end with a fence of at least that length. If none follows,
  a shorter fence ends the block.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from verigym.envs.extraction.visible import blank

Method = Literal["fenced", "fenced_or_all", "all"]

TAGS = {
    "python": ("python", "py", "python3", "py3", "ipython"),
    "bash": ("bash", "sh", "shell"),
    "c": ("c",),
    "cpp": ("cpp", "c++", "cxx", "cc"),
    "javascript": ("javascript", "js", "node", "nodejs", "mjs", "cjs"),
    "lean": ("lean", "lean4", "lean-4"),
}
# How much deeper than its opening a closing fence may stand. Deeper ones belong to the program, to a docstring for instance.
_CLOSING_INDENT = 3

_SHORTEST = 3
_DEEPEST = 20  # quotes in one another

_FENCE = re.compile(
    r"^(?P<lead>[ \t>]*+)(?P<tag><[A-Za-z]{1,20}>[ \t]*+)?(?P<mark>`{3,}+|~{3,}+)(?P<info>[^\n]*+)$", re.MULTILINE
)
_SOLE_OPENING = re.compile(r"(?P<mark>`{3,}+|~{3,}+)[ \t]*+(?P<tag>[^\s`]*+)[^\n`]*+\n")
_INVISIBLE = re.compile(
    r"^([ \t>]*)[\u00ad\u200b-\u200f\u2060-\u2064\ufeff][ \t\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*(?=```)", re.MULTILINE
)
_AT_LINE_END = re.compile(r"```(?P<tag>[A-Za-z0-9+-]{0,12})[ \t]*$", re.MULTILINE)
_WORD = re.compile(r"[{. \t]*+([A-Za-z0-9_+#-]+)")
_KNOWN = frozenset(tag for tags in TAGS.values() for tag in tags)
_MARKDOWN = ("markdown", "md")
_THINK = re.compile(r"<\s?(?P<slash>/?)\s?think(?:ing)?\s?>|\[(?P<bar>/?)THINK\]", re.IGNORECASE)

_INSIDE_CODE = ('"', "'", "\\", ")", "/")


class Block(NamedTuple):
    """A complete fenced block: its language tag in lower case (or an empty string), and its offsets in the text."""

    tag: str
    depth: int
    """Of the quote that it stands in."""
    indent: int
    start: int
    content_start: int
    content_end: int
    end: int

    def code(self, text: str) -> str:
        """Return the block's content in `text`, with uniform line ends, less the fence's indentation and quote marks `>`."""
        code = text[self.content_start : self.content_end].replace("\r\n", "\n")
        if self.depth:
            code = re.sub(rf"^(?:[ \t]{{0,3}}> ?){{1,{self.depth}}}", "", code, flags=re.MULTILINE)
        return re.sub(rf"^[ \t]{{1,{self.indent}}}", "", code, flags=re.MULTILINE) if self.indent else code


class Found(NamedTuple):
    """The program; or None, and why there is none."""

    program: str | None
    reason: str = ""


class _Open(NamedTuple):
    kind: str
    length: int
    tag: str
    depth: int
    indent: int
    start: int
    content_start: int

    def holds(self, fence: _Fence) -> bool:
        """Return whether such a fence inside this block is text: of another kind, shorter, deeper, or behind a tag."""
        if fence.kind != self.kind or fence.tagged or fence.depth > self.depth:
            return True
        return fence.length < self.length or fence.indent > self.indent + _CLOSING_INDENT


class _Fence(NamedTuple):
    kind: str
    length: int
    depth: int
    indent: int
    tagged: bool
    info: str

    @classmethod
    def of(cls, line: re.Match[str]) -> _Fence:
        quote, _, white = line["lead"].rpartition(">")
        depth = quote.count(">") + 1 if ">" in line["lead"] else 0
        indent = len(white) - (depth > 0 and white[:1] == " ")
        return cls(line["mark"][0], len(line["mark"]), depth, indent, line["tag"] is not None, line["info"].rstrip())

    @property
    def opens(self) -> bool:
        """Whether it can open a block: in CommonMark, inline code on a line of its own does not."""
        return self.depth <= _DEEPEST and not (self.kind == "`" and "`" in self.info)

    @property
    def closes(self) -> bool:
        """Whether it closes a block that is open: it names no language, and what stands behind it, if anything, is text."""
        word = _WORD.match(self.info)
        if word is None or not self.opens:
            return self.kind * _SHORTEST not in self.info
        if word[1].lower() in _KNOWN:
            return False
        behind = self.info[word.end() :]
        # A name that is not known, at once after the fence, is a language's: alone, or with attributes.
        return self.info[0] in " \t" or (behind[:1] in (" ", "\t", ".", ",", "!", ";") and not any(c in behind for c in "={}"))


def blocks(text: str) -> tuple[list[Block], bool]:
    """Return the complete fenced blocks in `text`, in the order of their ends, and whether any block was never closed."""
    found, opened = _read(text, frozenset())
    long = frozenset(block.start for block in opened if block.length > _SHORTEST)
    if long:
        found, opened = _read(text, long)
    return found, bool(opened)


def _read(text: str, short: frozenset[int]) -> tuple[list[Block], list[_Open]]:
    """The complete blocks and the open ones, where what begins at the `short` offsets is closed by any fence."""
    found: list[Block] = []
    opened: list[_Open] = []
    for line in _FENCE.finditer(text):
        fence = _Fence.of(line)
        while opened and opened[-1].depth > fence.depth:  # the quote has ended, and so has what was open in it
            opened.pop()
        if opened and opened[-1].holds(fence):
            continue
        if opened and fence.closes:
            top = opened.pop()
            end = line.end("mark") if fence.info else line.end()
            found.append(Block(top.tag, top.depth, top.indent, top.start, top.content_start, line.start(), end))
        elif fence.opens:
            word = _WORD.match(fence.info)
            start = line.end("tag") if fence.tagged else line.start()
            length = _SHORTEST if start in short else fence.length
            tag = word[1].lower() if word else ""
            opened.append(_Open(fence.kind, length, tag, fence.depth, fence.indent, start, line.end() + 1))
    return found, opened


def mended(text: str, tags: Sequence[str]) -> str:
    """Return `text` with each damaged fence on a line of its own.

    The first backticks on a line are a fence if they end the line and name no language, or one of `tags` after a colon or a
    full stop. Only text without a complete block may be mended; elsewhere this would let prose open and close blocks.
    """
    text = _INVISIBLE.sub(r"\1", text)
    parts, last = [], 0
    for mark in _AT_LINE_END.finditer(text):
        before = text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()]
        opens = mark["tag"].lower() in tags and before.rstrip().endswith((":", ".", "!", "\uff1a", "\u3002"))
        if before.strip(" \t>") and "`" not in before and (opens or not mark["tag"]):
            parts += [text[last : mark.start()], "\n"]
            last = mark.start()
    return "".join([*parts, text[last:]])


def sole_block(text: str, language: str = "") -> tuple[str, str]:
    """Return (content, problem) for a `text` that must be a single fenced block; `problem` is empty if it is.

    This is stricter than `blocks`: no text may stand outside the block. If a line before the last could close the block, `text`
    counts as more than one block.

    Args:
        text: the whole answer.
        language: language tag that the block must have; with '' any tag or no tag will do.
    """
    text = text.strip()
    opening = _SOLE_OPENING.match(text)
    if opening is None:
        return "", "is no fenced block"
    mark = opening["mark"]
    if language and opening["tag"].lower() != language.lower():
        return "", f"is a block of {opening['tag'] or 'no language'}, not of {language}"
    end = text.rfind("\n")
    if end < opening.end() - 1 or text[end + 1 :].strip() != mark:
        return "", "is a block that does not close at the end"
    content = text[opening.end() : end]
    if any(line.startswith(mark) and not line.strip(mark[0]) for line in map(str.strip, content.split("\n"))):
        return "", "is more than one block"
    return ("", "is an empty block") if blank(content) else (content, "")


def find_program(text: str, language: str, method: Method) -> Found:
    """Return the program that the completion `text` gives.

    Only the text after the last closing think tag counts. The program is the last complete block that has the tag `language` or
    no tag, or else the last block of any tag. If no block is complete, damaged fences are mended. If the block is markdown, the
    last block inside it is taken. If there is no block, inline code that is the whole text between answer tags is the program.
    """
    body = _answer_part(text)
    tags = TAGS.get(language, (language,))
    found, unclosed = blocks(body) if method != "all" else ([], False)
    if not found and method != "all":
        whole = mended(body, tags)
        found = [block for block in blocks(whole)[0] if block.tag in tags]
        body = whole if found else body
    if _still_thinks(body, found):
        return Found(None, "the thinking never closes")
    if found:
        own = [block for block in found if not block.tag or block.tag in tags]
        program = _innermost((own or found)[-1], body, tags)
        return Found(program) if program.strip() else Found(None, "the last fenced block is empty")
    if unclosed:
        return Found(None, "the fenced block never closes")
    if method != "all" and (program := _inline(body, language)):
        return Found(program)
    if method == "fenced":
        return Found(None, "no fenced block")
    return Found(body) if body.strip() else Found(None, "the completion is empty")


def _innermost(block: Block, text: str, tags: Sequence[str]) -> str:
    """The program in a block: the block itself, or the last that it holds, as markdown, under a longer fence."""
    program = block.code(text)
    if block.tag in tags:
        return program
    usual = ("",) if block.tag in _MARKDOWN else ()
    inner = [held for held in blocks(program)[0] if held.tag in (*tags, *usual)]
    return inner[-1].code(program) if inner else program


def _inline(text: str, language: str) -> str:
    """What stands between the last answer tags, where it is inline code and nothing else; less a language's name before it."""
    _, opened, behind = text.rpartition("<answer>")
    inner = behind.partition("</answer>")[0].strip()
    code = inner.strip("`")
    ticks = len(inner) - len(inner.lstrip("`"))
    if not opened or not ticks or not code.strip() or inner != f"{'`' * ticks}{code}{'`' * ticks}" or "`" * ticks in code:
        return ""
    first, _, rest = code.strip().partition(" ")
    return rest if ticks >= _SHORTEST and first.lower() in TAGS.get(language, ()) else code.strip()


def _answer_part(text: str) -> str:
    """Return what follows the last closing think tag. A tag with code on its line is a text inside the program."""
    closed = 0
    for tag in _THINK.finditer(text):
        if (tag["slash"] or tag["bar"]) and text[tag.end() : tag.end() + 1] not in _INSIDE_CODE:
            closed = tag.end()
    return text[closed:]


def _still_thinks(body: str, found: list[Block]) -> bool:
    """Return whether a think tag opens outside all blocks; inside one it is part of a program."""
    ahead = sorted(found, key=lambda block: block.start, reverse=True)
    inside_until = 0
    for tag in _THINK.finditer(body):
        while ahead and ahead[-1].start <= tag.start():
            inside_until = max(inside_until, ahead.pop().end)
        if tag.start() >= inside_until:
            return True
    return False
