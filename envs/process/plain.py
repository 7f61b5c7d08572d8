r"""Turns a step into plain text, without Markdown, HTML, bullets and LaTeX environments. Rows of environments become lines.

Every notation that models use for a step comes out the same: `\[12 + 5 = \boxed{17}\]`, `**12 + 5 = 17**`, `- 12 + 5 = 17`,
`\begin{align*} 12 + 5 &= 17 \end{align*}`, `12 + 5 = <<12+5=17>>17`. This takes linear time.
"""

from __future__ import annotations

import re

from verigym.envs.latex.formatting import strip_formatting
from verigym.envs.latex.vocabulary import NUMBER_WORDS
from verigym.envs.process.glyphs import readable

BULLET = "\ue000"
"""Stands for a hyphen at the start of a line, which may be a bullet or a minus sign."""
ROW = "\ue001"
"""Stands for the border of a table's cell."""

PLUS, STAR = "\ue002", "\ue003"
"""Stand for a plus sign and an asterisk at the start of a line after a number, which may be bullets or signs."""

_OWN = {ord(mark): " " for mark in (BULLET, ROW, PLUS, STAR)}
_ANNOTATION = re.compile(r"<<([^<>\n]{1,200}+)>>")
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,15}+(?:\s[^<>\n]{0,200}+)?/?>")
_BREAK = re.compile(r"<(?:br|hr|p|/p|li|tr|div|/div)\s?/?>", re.IGNORECASE)
_RAISED = re.compile(r"<sup>\s?([0-9]{1,9}|[a-z])\s?</sup>", re.IGNORECASE)
_LINES = re.compile(
    r"\\\\(?:\[[^\]\n]{0,20}\])?|\\(?:begin|end)\s?\{[A-Za-z*]{1,20}\}(?:\{[^{}\n]{0,20}\}|\[[^\[\]\n]{0,20}\])?"
)
_DISPLAY = re.compile(r"(?<!\\)\\[\[\]]|\$\$")
_DELIMITERS = re.compile(
    r"(?<!\\)\\[()]|`++|&|[\"\u201c\u201d]|\\(?:text)?color\s?\{[^{}\n]{0,20}\}|\\displaystyle(?![A-Za-z])"
)
_THOUSANDS = re.compile(r"(?<=[0-9])(?:\\,|\{,\}|,\\!|\u2009|\u202f)(?=[0-9]{3}(?![0-9]))")
_GRIDS = re.compile(r"\\begin\s?\{((?:[pbvBV]|small)?matrix|array|cases|vmatrix)\}.{0,1500}?\\end\s?\{\1\}", re.DOTALL)
_BARS = re.compile(r"(?<![|\w\ue001])\|([^|\n]{1,60})\|(?![|\w])")
_GAPS = re.compile(r"\\q?quad(?![A-Za-z])|\\(?:hline|hfill|tag\{[^{}\n]{0,20}\}|label\{[^{}\n]{0,60}\})")
_BULLETS = re.compile(
    r"^[ \t>]*+(?:([-\u2013\u2014\u2212])[ \t]+|(?:([*+])|[\u2022\u2023\u25e6\u25aa\xb7]"
    r"|#{1,6}|\(?[0-9]{1,3}[.)](?![ \t]+[+*/=\u00d7\u00f7^\u00b7])|[a-z][.)])[ \t]+)",
    re.MULTILINE,
)
_EMPHASIS = re.compile(r"(?<![0-9)\w] )(?<![\w)*])([*_])(?=[^\s*_])([^*_\n]{1,60}?)(?<=\S)\1(?![\w*(])")
_BOLD = re.compile(r"(?<![0-9)])\*\*|\*\*(?![0-9(-])|__|~~")
_REMAINDER = re.compile(
    r"(?<=[0-9])\s{0,3}(?:,?\s(?:with\s)?(?:a\s)?rem(?:ainder)?\.?(?:\sof)?\s|\s?[Rr]\.?\s?)(?=[0-9])|(?<=[0-9])\s\(remainder\s(?=[0-9]{1,9}\))"
)
_MODULO = re.compile(r"\(\s?mod(?:ulo)?\s([0-9]{1,30})\s?\)|\\pmod\s?(?:\{\s?([0-9]{1,30})\s?\}|([0-9]))")
_BASE = re.compile(r"(?<![\w.])([0-9]{1,60})\s?_\s?(?:([0-9])|\{\s?(1?[0-9])\s?\})(?![\w.]*[0-9])")
_TERM = r"[0-9]{1,15}(?:\.[0-9]{1,15})?"
_RATIOS = re.compile(rf"(?<![\w.:/*^+-])({_TERM})\s?:\s?({_TERM})(\s?=\s?)({_TERM})\s?:\s?({_TERM})(?![\w:/*^]|\.[0-9])")
_TABLE_ROW = re.compile(r"\s*+\|[^\n]*\|\s*")
_EQUALS = re.compile(r"(?<![A-Za-z])(?:(?:is|are|be) (?:exactly )?equal to|equals?(?: to)?)(?![A-Za-z])")
_DIVIDED = re.compile(r"(?<![A-Za-z])(?:divided by|multiplied by|to the power of)(?![A-Za-z])")
_SIGNS = {"divided by": " / ", "multiplied by": " * ", "to the power of": " ^ "}

_TEENS = {"seventeen": 17, "eighteen": 18, "nineteen": 19}
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
_SMALL = {**NUMBER_WORDS, **_TEENS}
_WORDS = "|".join(sorted((*_SMALL, *_TENS), key=len, reverse=True))
_SPELT = re.compile(
    rf"(?<![\w-])(?:{_WORDS})(?:[- ](?:{_WORDS}|hundred)){{0,8}}(?![\w-])(?=\s*+(?:[-+*/=\u00d7\u00f7%.,;!?)$]|\\?[a-z]|$))",
    re.IGNORECASE,
)
_PARTS = re.compile(
    r"(?<![\w-])(?:(a|one|two|three)[- ])?(half|third|fourth|quarter|fifth|tenth)s?(?= of (?:the )?\$?[0-9])", re.IGNORECASE
)
_PART = {"half": 2, "third": 3, "fourth": 4, "quarter": 4, "fifth": 5, "tenth": 10}


def plain(step: str) -> str:
    """Return `step` as lines of plain text and formulas, with GSM8K's calculator annotations on separate lines."""
    text = readable(_THOUSANDS.sub(",", step).translate(_OWN))
    noted: list[str] = []
    if "<" in text:
        noted = _ANNOTATION.findall(text)
        text = _TAG.sub("", _RAISED.sub(r"^{\1}", _BREAK.sub("\n", _ANNOTATION.sub("", text))))
    if "\\" in text:
        text = _GRIDS.sub(r" \\matrix ", text)
        text = _GAPS.sub(" ; ", _MODULO.sub(_modulo, _LINES.sub("\n", text)))
    text = _DELIMITERS.sub(" ", _DISPLAY.sub("\n", text))
    if "\\" in text or "~" in text:
        text = strip_formatting(text, boxes=True)
    text = _BULLETS.sub(_bullet, text)
    if "_" in text:
        text = _BASE.sub(_in_base, text)
    if ":" in text:
        text = _RATIOS.sub(r"\1/\2\3\4/\5", text)
    if "|" in text:
        text = "\n".join(line.replace("|", ROW) if _TABLE_ROW.fullmatch(line) else line for line in text.split("\n"))
        text = _BARS.sub(r" \\lvert \1\\rvert ", text)
    if "*" in text or "_" in text or "~" in text:
        text = _EMPHASIS.sub(r"\2", _BOLD.sub(" ", text))
    text = _MODULO.sub(_modulo, _DIVIDED.sub(lambda match: _SIGNS[match[0]], _EQUALS.sub(" = ", text)))
    text = _PARTS.sub(_part, _REMAINDER.sub(" rem ", text))
    return "\n;\n".join([_SPELT.sub(_number, text), *noted])


def _bullet(match: re.Match[str]) -> str:
    """Return a mark for what may be a sign: a hyphen, or an asterisk or a plus sign after a line that ends with a number."""
    if match[1]:
        return f"{BULLET} "
    above = match.string[max(0, match.start() - 6) : match.start()].rstrip(" \t\n$")[-1:]
    return f"{PLUS if match[2] == '+' else STAR} " if match[2] and (above.isdigit() or above in tuple(")]}%")) else " "


def _in_base(match: re.Match[str]) -> str:
    """Return a number with its base as a decimal: 5 for `101_2`."""
    base = int(match[2] or match[3])
    if base < 2 or any(int(digit) >= base for digit in match[1]):
        return match[0]
    return str(int(match[1], base))


def _modulo(match: re.Match[str]) -> str:
    return f" mod {match[1] or match[2] or match[3]}"


def _part(match: re.Match[str]) -> str:
    count = {"a": 1, "one": 1, "two": 2, "three": 3}[(match[1] or "a").lower()]
    return f"{count}/{_PART[match[2].lower()]}"


def _number(match: re.Match[str]) -> str:
    """Return a number in words as digits: `twenty-three`, `two hundred five`; other words unchanged."""
    total = 0
    last = 1000
    for word in re.split("[- ]", match[0].lower()):
        if word == "hundred" and 0 < total < 10:
            total, last = total * 100, 100
            continue
        value = _TENS.get(word, _SMALL.get(word, -1))
        size = 100 if word in _TENS else 10 if value < 10 else 20
        if value < 0 or (last < 1000 and not (value and size <= last and (last == 100 or value < 10))):
            return match[0]
        total, last = total + value, 10 if word in _TENS else 1
    return str(total)
