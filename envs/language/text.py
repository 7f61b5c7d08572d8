"""Removes the parts of a text that are in no language: code, LaTeX, formulas, addresses, tags. Linear time."""

from __future__ import annotations

import functools
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
_EMPHASIS = re.compile(r"(?<![^\s(\"'])[*_~]{1,3}(?=[^\s*_~])|(?<=[^\s*_~])[*_~]{1,3}(?![^\s.,;:!?)\"'])")
# Ten words in a row, or twenty characters of a script without spaces. Where one match fails it has looked at ten words.
_SPOKEN = re.compile(
    "(?<![^\\s!-@\\[-`{-~])[^\\s!-@\\[-`{-~]++(?:[\\s,.;:!?\"'-]++[^\\s!-@\\[-`{-~]++){9,}"
    "|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u3007\u3040-\u30ff\u3400-\u9fff\uff0c]{20,}+"
)
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3001-\u3007\u3040-\u30ff\u3400-\u9fff\uff0c]")
_JOINED = re.compile(r"[A-Za-z]{2,}+")
_TAG_WORDS = 4

SPOKEN = 10
"""Text inside mathematics or inline code counts as prose if it has at least this many words in a row."""

SPOKEN_IN_BLOCK = 20
"""Like `SPOKEN`, for code blocks. It is higher because queries and declarations can have a dozen words in a row."""

SHORTEST = 50
"""Sentences with fewer letters are joined to a neighbour, because the language identifier is unreliable on short texts."""


def prose(text: str) -> str:
    """Return `text` with everything that is not prose replaced by a space. A long run of words counts as prose anywhere."""
    if not text.isascii():
        text = plain_letters(text)
    if "```" in text or "~~~" in text:
        text = _without_blocks(text)
    if "$" in text or "\\" in text or "`" in text:
        text = _COMMAND.sub(lambda command: f" {_spoken(command[0])} ", _without_spans(text))
    if "<" in text:
        text = _TAG.sub(_words_of_tag, text)
    if "*" in text or "_" in text or "~" in text:
        text = _EMPHASIS.sub("", text)
    return _FORMULA.sub(_ending, text)


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


def _ending(formula: re.Match[str]) -> str:
    """Return what stays of a formula: the end of its sentence, or the words where ten are joined by signs."""
    if len(formula[0]) > 2 * SPOKEN:
        words = _JOINED.findall(formula[0])
        if len(words) >= SPOKEN:
            return f" {' '.join(words)} "
    last = formula[0][-1]
    return f" {last} " if last in ".!?" else " "


def _spoken(text: str, *, block: bool = False) -> str:
    """Return the prose in mathematics, or in a block of code: what nobody writes there who does not hide it."""
    runs = [run[0] for run in _SPOKEN.finditer(text)]
    return "\n".join(run for run in runs if not block or _UNSPACED.match(run) or len(run.split()) >= SPOKEN_IN_BLOCK)


def _words_of_tag(tag: re.Match[str]) -> str:
    """Return the words between angle brackets that are no tag's attributes."""
    inside = tag[0][1:-1]
    return " " if "=" in inside or len(inside.split()) < _TAG_WORDS else f" {inside} "


def _without_blocks(text: str) -> str:
    block_list, unclosed = blocks(text)
    parts: list[str] = []
    last = 0
    for block in sorted(block_list, key=lambda block: block.start):
        if block.start >= last:
            parts += text[last : block.start], _spoken(text[block.start : block.end], block=True)
        last = max(last, block.end)
    rest = text[last:]
    if unclosed:
        rest, *code = re.split(r"^[ \t]*+(?:```|~~~)", rest, maxsplit=1, flags=re.MULTILINE)
        parts += [_spoken(lines, block=True) for lines in code]
    return "\n".join([*parts, rest])


def _without_spans(text: str) -> str:
    """Cut out what stands between marks of mathematics and of code. A mark that has no partner is only a character."""
    parts: list[str] = []
    last, at = 0, 0
    absent: set[str] = set()
    while opening := _OPENING.search(text, at):
        at = opening.end()
        end = _closing(text, opening.group(), at, absent)
        if end >= 0:
            parts += text[last : opening.start()], _spoken(text[opening.start() : end])
            last = at = end
    return " ".join([*parts, text[last:]])


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
