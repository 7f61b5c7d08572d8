"""Removes the parts of a text that are in no language: code, LaTeX, formulas, addresses, tags. Linear time."""

from __future__ import annotations

import functools
import html
import re
import unicodedata
from collections.abc import Iterator

from verigym.envs.extraction.fences import blocks
from verigym.envs.language.scripts import in_script

_OPENING = re.compile(r"\$\$?|\\\(|\\\[|\\begin\{[A-Za-z*]{1,30}\}|`++")
_TAG = re.compile(r"</?[A-Za-z|][^<>\n]{0,60}>")
_COMMAND = re.compile(r"\\[A-Za-z]++(?:\{[^{}\n]{0,200}+\}|\[[^\[\]\n]{0,50}+\])*")
# A run of ASCII that holds a digit or a sign that words have not: x=3, f(x)^2, https://..., a_1, me@example.org.
_FORMULA = re.compile(r"(?<![!-~])[A-Za-z!\"'(),.:;?\[\]`-]*+[0-9#$%&*+/<=>@\\^_{|}~][!-~]*+")
_SENTENCE = re.compile(r"[^.!?\n\u2026\u061f\u06d4\u0964\u0965\u1362\u0589\u3002\uff01\uff1f\uff0e]++")
_NO_LETTER = re.compile(
    "[\\s!-@\\[-`{-~\u00a0-\u00a9\u00ab-\u00b9\u00bb-\u00bf\u2000-\u206f\u3000-\u3004\u3008-\u303f\uff00-\uff20]++"
)
_NO_LETTER_BYTES = bytes(code for code in range(128) if _NO_LETTER.match(chr(code)))
_DOLLAR_CHARACTERS = 1000
_FLAG = re.compile("(?<![\U0001f1e6-\U0001f1ff])[\U0001f1e6-\U0001f1ff]{2}(?![\U0001f1e6-\U0001f1ff])")
_NAMED_LETTER = re.compile(r"(?:.* )?LETTER (?:SMALL CAPITAL )?([A-Z])")
_ACCENTED = re.compile(r"LATIN (SMALL|CAPITAL) LETTER (?:DOTLESS )?([A-Z])(?: WITH .*)?")
_EMPHASIS = re.compile(r"(?<![^\s(\"'])[*_~]{1,3}(?=[^\s*_~])|(?<=[^\s*_~])[*_~]{1,3}(?![^\s.,;:!?)\"'])")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7};?|#[xX][0-9A-Fa-f]{1,6};?|[A-Za-z][0-9A-Za-z]{1,31};)")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,5})\}|U(000[0-9A-Fa-f]{5})|x([0-9][0-9A-Fa-f]))")

# What is removed leaves its words in the text, between two marks; a third stands where they are not in a row.
_START, _END, _BREAK = "\x02", "\x03", "\x04"
_MARKS = str.maketrans(dict.fromkeys((_START, _END, _BREAK), " "))
_STRETCH = re.compile(f"{_START}[^{_END}]*+{_END}(?:[ \t]*+{_START}[^{_END}]*+{_END})*")
_SIGNS = "#$%&()+*/0123456789<=>@[\\]^_`{|}~"
_CODE_SIGNS = str.maketrans({**dict.fromkeys(_SIGNS, _BREAK), "`": " "})
_FORMULA_SIGNS = str.maketrans({**dict.fromkeys(_SIGNS, _BREAK), **dict.fromkeys("{}~$", " ")})
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[A-Za-z*]{0,30}\}")
_MACRO = re.compile(r"\\(?:([A-Za-z]++)|.)", re.DOTALL)
_NAME = re.compile(r"^/?[^\s=]++|[^\s=]++(?=\s*+=)")
_ADDRESS = re.compile(r"(?:(?<![A-Za-z])[a-z]{2,9}:)?//|@")
_JOINED = re.compile("[A-Za-z]{2,}+|\\x04")
_WORD = re.compile("[^\\s!-@\\[-`{-~\x02-\x04]{2,}+")
# Four letters, the last three no capitals: ABCD is a figure, and `abc` a product. Five capitals are a word.
_LONG = re.compile(r"[^\W\d_][^\W\d_A-Z]{3}|[A-Z]{5}")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u3007\u3040-\u30ff\u3400-\u9fff\uff0c]")
_TAG_WORDS = 4
_LONG_WORDS = 3

SPOKEN = 10
"""What is removed counts as prose if it has at least this many words in a row, or twice as many characters of a script without
spaces. Neighbours on one line are one row."""

SPOKEN_IN_BLOCK = 20
"""Like `SPOKEN`, for code blocks. It is higher because queries and declarations can have a dozen words in a row."""

SAID_IN_BLOCK = 5
"""Minimum number of words in a row that make a comment or another text in a code block."""

MOSTLY_SAID = 0.75
"""A code block whose texts have more than this share of its letters is no code: its texts are words that were removed."""

UNJUDGED = 100
"""Number of letters in words that may be removed from any text; from a text with more letters of prose as many as those. What
is removed beyond that counts as prose."""

SHORTEST = 50
"""Sentences with fewer letters are joined to a neighbour, because the language identifier is unreliable on short texts."""


def prose(text: str) -> str:
    """Return `text` with everything that is not prose replaced by a space.

    A long run of words counts as prose anywhere. Shorter ones are appended as far as together they have more letters than the
    prose has, or than `UNJUDGED` if that is more.
    """
    text = _decoded(text).translate(_MARKS)
    if not text.isascii():
        text = plain_letters(text)
    removed = _Removed()
    if "```" in text or "~~~" in text:
        text = removed.blocks(text)
    if "$" in text or "\\" in text or "`" in text:
        text = _COMMAND.sub(lambda command: f" {removed.formula(command[0])} ", removed.spans(text))
    if "<" in text:
        text = _TAG.sub(removed.tag, text)
    if "*" in text or "_" in text or "~" in text:
        text = _EMPHASIS.sub("", text)
    text = _STRETCH.sub(removed.stretch, _FORMULA.sub(_joined, text))
    return "\n".join([text, *removed.beyond(max(UNJUDGED, letters(text)))])


def _decoded(text: str) -> str:
    r"""Return `text` with the characters that entities of HTML (`&#84;`) and escapes (`\u0054`) stand for."""
    if "&" in text:
        text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    if "\\" in text:
        text = _ESCAPE.sub(lambda escape: chr(int(escape[escape.lastindex or 0], 16)), text)
    return text


def plain_letters(text: str) -> str:
    """Return `text` with letters of special shape (superscript, circled, bold, regional...) replaced by plain ones.

    These are the characters that belong to no script but become letters by Unicode's compatibility mapping (NFKC) or by their
    name. A pair of regional letters that stands alone is a flag and becomes a space.
    """
    shapes = {ord(char): letter for char in set(text) if not char.isascii() and (letter := _plain_letter(char))}
    return _FLAG.sub(" ", text).translate(shapes) if shapes else text


@functools.lru_cache(maxsize=65536)
def _plain_letter(char: str) -> str:
    """Return the plain form of a letter of another shape; nothing for any other character, such as the sign of a trade mark."""
    if in_script(char) and unicodedata.east_asian_width(char) != "F":
        return ""
    mapped = "".join(part for part in unicodedata.normalize("NFKC", char) if part.isalpha() and in_script(part))
    if mapped and (len(mapped) == 1 or unicodedata.category(char)[0] == "L"):
        return mapped if mapped != char else ""
    named = _NAMED_LETTER.fullmatch(unicodedata.name(char, ""))
    return named[1].lower() if named and not mapped else ""


def _joined(formula: re.Match[str]) -> str:
    """Return the words of a formula in a row, whatever joins them, and the end of its sentence. An address begins a new row."""
    words = " ".join(_JOINED.findall(_ADDRESS.sub(_BREAK, formula[0])))
    last = formula[0][-1]
    return f"{_START}{words}{_END}{last if last in '.!?' else ''} "


def _spoken(row: str, least: int) -> bool:
    """Return whether a row of words is a piece of prose rather than a list of names."""
    if len(_UNSPACED.findall(row)) >= 2 * SPOKEN:
        return True
    return len(_WORD.findall(row)) >= least and len(_LONG.findall(row)) >= _LONG_WORDS


class _Removed:
    """The words of what is removed from a text: some are prose that hides there."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._rows: list[str] = []

    def beyond(self, allowed: int) -> Iterator[str]:
        """Yield the rows of words that do not fit into the number of letters that may be removed."""
        for row in self._rows:
            allowed -= letters(row)
            if allowed < 0:
                yield row

    def stretch(self, stretch: re.Match[str]) -> str:
        """Return the prose in neighbours that are removed, and keep their other words."""
        rows = stretch[0].replace(_START, "").replace(_END, " ").split(_BREAK)
        spoken = [row for row in rows if _spoken(row, SPOKEN)]
        self._rows += [row for row in rows if not _spoken(row, SPOKEN) and (_LONG.search(row) or _UNSPACED.search(row))]
        return "\n".join(["", *spoken, ""]) if spoken else " "

    def formula(self, text: str) -> str:
        """Return the words of mathematics. A command's name is no word of its row, but one that may be hidden, once."""
        text = text.translate(_MARKS)
        for name in _MACRO.findall(text):
            self._name(name)
        return f"{_START}{_MACRO.sub(' ', _ENVIRONMENT.sub(' ', text)).translate(_FORMULA_SIGNS)}{_END}"

    def tag(self, tag: re.Match[str]) -> str:
        """Return the words between angle brackets. The names of tags and attributes count once in a text."""
        inside = tag[0][1:-1]
        if "=" not in inside and len(inside.split()) >= _TAG_WORDS:
            return f" {inside} "
        if "=" in inside or " " not in inside:
            inside = _NAME.sub(lambda name: self._name(name[0].strip("/")), inside)
        return f" {_START}{inside.translate(_MARKS).translate(_CODE_SIGNS)}{_END} "

    def blocks(self, text: str) -> str:
        """Cut out the blocks of code."""
        block_list, unclosed = blocks(text)
        parts: list[str] = []
        last = 0
        for block in sorted(block_list, key=lambda block: block.start):
            if block.start >= last:
                parts += text[last : block.start], self._block(text[block.start : block.end])
            last = max(last, block.end)
        rest = text[last:]
        if unclosed:
            rest, *code = re.split(r"^[ \t]*+(?:```|~~~)", rest, maxsplit=1, flags=re.MULTILINE)
            parts += map(self._block, code)
        return "\n".join([*parts, rest])

    def spans(self, text: str) -> str:
        """Cut out what stands between marks of mathematics and of code. A mark that has no partner is only a character."""
        parts: list[str] = []
        last, at = 0, 0
        absent: set[str] = set()
        while opening := _OPENING.search(text, at):
            at = opening.end()
            end = _closing(text, opening.group(), at, absent)
            if end >= 0:
                inside = text[opening.start() : end]
                code = inside.startswith("`")
                parts += (
                    text[last : opening.start()],
                    f"{_START}{inside.translate(_CODE_SIGNS)}{_END}" if code else self.formula(inside),
                )
                last = at = end
        return " ".join([*parts, text[last:]])

    def _block(self, text: str) -> str:
        """Return the prose in a block of code: what nobody writes there who does not hide it. Keep its other texts."""
        rows = text.translate(_CODE_SIGNS).split(_BREAK)
        spoken = [row for row in rows if _spoken(row, SPOKEN_IN_BLOCK)]
        said = [row for row in rows if not _spoken(row, SPOKEN_IN_BLOCK) and _spoken(row, SAID_IN_BLOCK)]
        if sum(map(letters, said)) > MOSTLY_SAID * sum(map(letters, rows)):
            self._rows += said
        return "\n".join(spoken)

    def _name(self, name: str) -> str:
        """Keep a name once in a text, and return nothing."""
        if name not in self._names and _LONG.search(name):
            self._names.add(name)
            self._rows.append(name)
        return ""


def _closing(text: str, mark: str, at: int, absent: set[str]) -> int:
    """Return where the span that `mark` opened ends, or -1; closing marks that come no more are kept in `absent`."""
    if mark == "$":
        end = text.find("$", at, at + _DOLLAR_CHARACTERS)
        inside = text[at:end] if end > at else ""
        price = not inside or inside[0].isspace() or inside[-1].isspace() or "\n\n" in inside
        return -1 if price else end + 1
    closing = {"\\(": "\\)", "\\[": "\\]"}.get(mark) or (mark.replace("begin", "end") if mark[0] == "\\" else mark)
    if closing in absent:
        return -1
    end = text.find(closing, at)
    if end < 0:
        absent.add(closing)
        return -1
    return end + len(closing)


def without_accents(text: str) -> str:
    """Return `text` with the plain letter for each Latin letter that has an accent, a stroke or another mark."""
    plain = {ord(char): letter for char in set(text) if not char.isascii() and (letter := _without_accent(char)) is not None}
    return text.translate(plain) if plain else text


@functools.lru_cache(maxsize=4096)
def _without_accent(char: str) -> str | None:
    if unicodedata.category(char)[0] == "M":
        return ""
    named = _ACCENTED.fullmatch(unicodedata.name(char, ""))
    if named is None:
        return None
    return named[2] if named[1] == "CAPITAL" else named[2].lower()


def letters(text: str) -> int:
    """Return the number of letters and of marks on them."""
    # Most of what is no letter is ASCII, which bytes lose several times as quickly.
    data = text.encode("utf-8", "surrogatepass").translate(None, _NO_LETTER_BYTES)
    return len(data) if data.isascii() else len(_NO_LETTER.sub("", data.decode("utf-8", "surrogatepass")))


def sentences(text: str) -> Iterator[tuple[str, int]]:
    """Yield (sentence, number of letters) for each sentence of `text`.

    A short sentence is joined to the sentence after it, or at the end of `text` to the sentence before it.
    """
    held: list[str] = []
    count = 0
    ready: tuple[str, int] | None = None
    for sentence in _SENTENCE.findall(text):
        letter_count = letters(sentence)
        if not letter_count:
            continue
        held.append(sentence)
        count += letter_count
        if count >= SHORTEST:
            if ready:
                yield ready
            ready, held, count = (" ".join(held), count), [], 0
    if ready and held:
        ready = (" ".join([ready[0], *held]), ready[1] + count)
    if ready or held:
        yield ready or (" ".join(held), count)
