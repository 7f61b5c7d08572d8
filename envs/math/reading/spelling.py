r"""Normal form of an answer's text, for the first tier: delimiters, sizes, spacing and final punctuation do not matter.

Nothing that carries meaning is changed: texts that are equal here are the same formula for all later tiers too.
"""

from __future__ import annotations

import re

from verigym.envs.latex.commands import BOX_COMMANDS, COMMANDS, TEXT_COMMANDS, UNPRINTED_ARGUMENT, UNPRINTED_COMMANDS

_TRIVIAL = re.compile(
    r"(?<!\\)\$"  # a delimiter; \$ is money, which counts
    r"|(?<!\\)\\(?:[()\[\]]|left(?![A-Za-z])|right(?![A-Za-z])|[Bb]igg?[lrm]?(?![A-Za-z])|displaystyle(?![A-Za-z])|!)"
)
_SPACE = re.compile(r"(?<!\\)\\[,;: ]|~|\\q?quad(?![A-Za-z])|\s")
_FRACTION = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_LOOSE = re.compile(r" ++")
_GLUED = re.compile(r"(\\q?quad)(?=[A-Za-z])")
_EMPTY = re.compile(r"(\\[A-Za-z]++)\{\}")
_WRAPPED = re.compile(r"\\text\s?\{([-,0-9.:])\}|\{([,:])\}")
_UNION = re.compile(r"(?<=[)\]}]) *U *(?=\\?[(\[{])")
_TIGHT_COMMA = re.compile(r"(?<=[0-9])\\!(?=,(?:\\!)?[0-9])")
_OR = re.compile(r"(?<=[0-9)}])or(?=[A-Z(0-9\\-])")
_DEGREES = re.compile(r"(?<=[0-9}]) ?\\deg(?![A-Za-z])(?= *(?:$|[-+=,;.)}]|\\(?:text|approx|q?quad|[,; ])))")
_JOINED = re.compile(r" *+,? *+(?:\\text\{ *(?:and|or) *\}|\b(?:and|or)\b) *+(?:x *= *)?|, *+x *= *")
_MARKS = ("checkmark", "square", "Box", "qed", "blacksquare", "✓", "✔", "✅", "□", "■", "∎")
_END_MARK = re.compile(r"(?:\\(?:checkmark|(?:black)?square|Box|qed)|[✓✔✅□■∎])\Z")  # a proof ends, or an answer was checked
# What is excepted: numbers, and what joins them. Possessive where blanks follow blanks.
_ALL_BUT = re.compile(
    r"(?:\\text\{ *+)?(?:the set of )?all (?:reals|real numbers|real)(?: *+\} *+x| x)?(?: *+\\text\{)?,? *+"
    r"(?:except|excluding|other than)(?: for)? *+(?:\} *+)?(?:x *+= *+)?([^A-Za-z\\{}]*+"
    r"(?:(?:\\pm|\\[dt]?frac *+(?:\{[0-9]++\}|[0-9]) *+(?:\{[0-9]++\}|[0-9])|\\sqrt *+(?:\{[0-9]++\}|[0-9])|"
    r"\\text\{ *+(?:and|or) *+\}|and|or|x *+=)[^A-Za-z\\{}]*+)*)\}?",
    re.IGNORECASE,
)
_EXCEPTS = re.compile(r"except|excluding|other than")
# Of what is counted, how much there is: `18 \text{ cookies left}`.
_TAIL = re.compile(
    r"((?:\\text\{ *+)?\\?\$?[0-9][0-9,.]*+(?:\\[,;: ]|[ ~])*(?:\\(?:text|mathrm|textrm|mbox)\{ *+)?"
    r"(?:[a-z]++(?: (?!are |is )[a-z]++)?) )"
    r"(?:are |is )?(?:left|left over|remaining|remain|remains|altogether|in all|in total|total)(\}?)\.?"
)
_DOUBLED = re.compile(r"(?<!\\)\\\\(?=[A-Za-z])")
# Not the one in `1, 200`: it tells two numbers from one of four digits.
_LOOSE_SPACE = re.compile(r"(?<![A-Za-z0-9.])(?<![0-9],) |(?<![A-Za-z0-9.]) (?![0-9])| (?![A-Za-z0-9.])")


def spelled(text: str) -> str:
    """Return `text` without parts that mean nothing, such as spacing. Texts with equal results are the same answer."""
    text = text.strip()
    if text.isalnum() and text.isascii():
        return text
    if "\\" in text or "$" in text or "~" in text:
        text = _SPACE.sub(" ", _TRIVIAL.sub("", _FRACTION.sub(r"\\frac", text)))
    text = _LOOSE_SPACE.sub("", _LOOSE.sub(" ", " ".join(text.split())).replace(" ,", ","))
    return text.rstrip(".") if not text.endswith("..") else text


_COMMANDS = sorted(frozenset(COMMANDS) | UNPRINTED_COMMANDS | TEXT_COMMANDS | UNPRINTED_ARGUMENT | BOX_COMMANDS | {"begin"})


def _lost(character: str, letter: str) -> re.Pattern[str]:
    # No names of two letters, which begin a line as often; for the same reason `\n` is not mended.
    names = "|".join(name[1:] for name in _COMMANDS if name[0] == letter and len(name) > 2)
    return re.compile(f"{character}(?=(?:{names})(?![A-Za-z]))")


_LOST = {letter: _lost(character, letter) for character, letter in zip("\t\f\b\v\a\r", "tfbvar", strict=True)}


def unescaped(text: str) -> str:
    r"""Return `text` with the backslashes of `\text`, `\frac`, `\beta` and so on restored after a faulty decoding of escapes.

    Call it before `text` is stripped, since a decoded `\f` or `\t` is white space.
    """
    for letter, lost in _LOST.items():
        text = lost.sub(rf"\\{letter}", text)
    return text


def mended(text: str) -> str:
    """Return the answer or gold `text` with damage repaired: doubled backslashes, a final full stop, marks of bold type."""
    if "\\\\" in text and r"\begin" not in text:  # there, a doubled backslash ends a row
        text = _DOUBLED.sub(r"\\", text)
    for _ in range(2):  # what a sentence and a control space leave behind
        if text.endswith(("\\", ".")) and not text.endswith(("\\\\", "..", r"\.")):
            text = text[:-1].rstrip()
    if text.endswith(_MARKS) and (rest := _END_MARK.sub("", text)):
        text = rest.rstrip("\\ ~")
    if text.startswith("**") and text.endswith("**") and len(text) > 4:  # bold in Markdown
        text = text[2:-2].strip()
    if "U" in text:
        text = _UNION.sub(r" \\cup ", text)
    if "or" in text:
        text = _OR.sub(" or ", text)
    if "}" in text:
        text = _WRAPPED.sub(lambda match: match.group(1) or match.group(2), text)
    if "{}" in text:
        text = _EMPTY.sub(r"\1 ", text)
    if r"\!" in text:
        text = _TIGHT_COMMA.sub("", text)
    if r"\q" in text:
        text = _GLUED.sub(r"\1 ", text)  # no command goes on after \quad
    return _in_signs(text) if " " in text or r"\deg" in text else text


def _in_signs(text: str) -> str:
    r"""Replace words by signs: `70\deg`, `all real numbers except 3`."""
    if r"\deg" in text:
        text = _DEGREES.sub(r"^\\circ", text)
    if _EXCEPTS.search(text) and (match := _ALL_BUT.fullmatch(text)) and any(map(str.isdigit, match.group(1))):
        text = rf"\mathbb{{R}} \setminus \{{{_JOINED.sub(', ', match.group(1))}\}}"
    if match := _TAIL.fullmatch(text):
        text = match.group(1).rstrip() + match.group(2)
    return text


_LABEL = re.compile(
    r"^(?:\\text\s*+\{\s*+)?(?:so |thus |therefore,? )?(?:the )?(?:final )?answer(?: is)?\s*+:?\s*+\}?\s*+", re.IGNORECASE
)


def unlabelled(text: str) -> str:
    """Return the answer `text` without words that introduce it."""
    return _LABEL.sub("", text.strip())
