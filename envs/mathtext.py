r"""Spelling of mathematical answers: one form for the many ways to write the same symbols. Says nothing about meaning."""

from __future__ import annotations

import re
from functools import lru_cache

from verigym.envs.extract import box_spans

_CHARACTERS = str.maketrans(
    {
        "\u2212": "-", "\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u00d7": r"\times ", "\u00b7": r"\cdot ",
        "\u03c0": r"\pi ", "\u221e": r"\infty ", "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ",
        "\u00b0": r"^\circ ", "\u00b1": r"\pm ", "\u20ac": "", "\u00a3": "", "\n": " ", "\t": " ", "\r": " ",
        "\u2013": "-", "\u22c5": r"\cdot ", "\u2217": "*", "\u00f7": r"\div ", "\u2044": "/", "\u2236": ":",
        "\u221a": r"\sqrt ",
        "\u222a": r"\cup ", "\u2229": r"\cap ", "\u2208": r"\in ", "\u2205": r"\emptyset ", "\u2220": r"\angle ",
        "\u00bd": r"\frac{1}{2}", "\u00bc": r"\frac{1}{4}", "\u00be": r"\frac{3}{4}",
        "\u2153": r"\frac{1}{3}", "\u2154": r"\frac{2}{3}",
        "\u03b1": r"\alpha ", "\u03b2": r"\beta ", "\u03b3": r"\gamma ", "\u03b8": r"\theta ", "\u03bb": r"\lambda ",
        "\u03c6": r"\phi ", "\u03c9": r"\omega ",
        **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # fullwidth forms
    }
)  # fmt: skip

# One digit, one letter, or one command that takes no argument of its own.
_TOKEN = r"[0-9](?![.])|(?<=[ }])[A-Za-z]|\\(?:pi|alpha|beta|gamma|theta|phi|lambda|omega|infty)(?![A-Za-z])\s*+"

_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\$|\$", ""),
        (r"(?<!\\)\\[()\[\]]", " "),
        (r"\\!\s*+", ""),
        (r"\\text\s?\{\s?([-,0-9])\s?\}", r"\1"),
        (r"\{([,:])\}", r"\1"),
        (r"\\\\\s?\[\s?-?[0-9.]++\s?[a-z]{2}\s?\]", r"\\\\ "),
        (r"(?<=[\w)}\]])\u00b2", "^2"),
        (r"(?<=[\w)}\]])\u00b3", "^3"),
        (r"(?<!\\)\\[,;: ]|~|\\q?quad(?![A-Za-z])|\\(?:thin|med|thick)space(?![A-Za-z])", " "),
        (r"\\(?:left|right|[bB]igg?[lr]?|display|limits)(?:style)?(?![A-Za-z])\s*+\.?", ""),
        (r"\\(?:[dtc]|nice|s)frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
        (r"\\(?:text(?:bf|it|rm|sf|tt|normal)|mbox|hbox)(?![A-Za-z])", r"\\text"),
        (r"\\leq?(?:slant)?(?![A-Za-z])|<=", r"\\le "),
        (r"\\geq?(?:slant)?(?![A-Za-z])|>=", r"\\ge "),
        (r"\\neq?(?![A-Za-z])|!=", r"\\ne "),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\%", "%"),
        (r"\*\*", "^"),
        (r"\^\s*+(?:\{\s*+\\circ\s*+\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])", r"^\\circ "),
        (r"(?<![\\A-Za-z])sqrt(?![A-Za-z])", r"\\sqrt"),
        (r"\\sqrt\s*+\(([^()]*+)\)", r"\\sqrt{\1}"),
        # TeX takes one token for an argument without braces: \frac12, \frac\pi4, \sqrt2, \binom52.
        (r"\\(frac|binom|sqrt)\s++(?=[\d{A-Za-z\\])", r"\\\1 "),
        (rf"\\(frac|binom) ?({_TOKEN})", r"\\\1{\2}"),
        (rf"\\(frac|binom) ?\{{([^{{}}]*+)\}}\s*+({_TOKEN})", r"\\\1{\2}{\3}"),
        (rf"\\sqrt ?({_TOKEN})", r"\\sqrt{\1}"),
        (r"\\(frac|binom|sqrt) (?=\{)", r"\\\1"),
        (r"\s++", " "),
    )
)


_DOUBLED = re.compile(r"(?<!\\)\\\\(?=[A-Za-z])")


@lru_cache(maxsize=512)  # the tiers ask again for the same few texts
def clean(text: str) -> str:
    r"""Strip delimiters (`$`, `\(`, a box around the whole), spacing and sizing; settle spellings (`\dfrac`, `\leq`)."""
    text = text.strip().strip("*").translate(_CHARACTERS)
    if r"\begin" not in text:  # there, a doubled backslash ends a row; elsewhere it was escaped twice
        text = _DOUBLED.sub(r"\\", text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = text.strip().rstrip(".,;").strip()
    spans = box_spans(text)
    while len(spans) == 1 and spans[0][0] == 0 and spans[0][2] >= len(text) - 1:
        text = text[spans[0][1] : spans[0][2]].strip()
        spans = box_spans(text)
    return text


_WHOLE_TEXT = re.compile(r"\\(?:text|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_SINGLE_LETTER = re.compile(r"\(?([A-Za-z])\)")
_LOOSE_SPACE = re.compile(r"(?<![A-Za-z0-9]) | (?![A-Za-z0-9])")


def words(text: str) -> str | None:
    r"""Return the words of a cleaned answer that is nothing but `\text{words}`, None of any other."""
    match = _WHOLE_TEXT.fullmatch(text)
    return match.group(1).strip(" .") if match and any(c.isalpha() for c in match.group(1)) else None


@lru_cache(maxsize=512)
def canonical(text: str) -> str:
    """Return the form in which two cleaned answers that differ in spacing only, in case of words only, are the same string."""
    text = words(text) or text
    text = _LOOSE_SPACE.sub("", text.strip())
    if len(text) > 2 and text[0] == "{" and text[-1] == "}" and "{" not in text[1:-1]:
        text = text[1:-1]
    letter = _SINGLE_LETTER.fullmatch(text)
    if letter:
        return letter.group(1)
    # Case carries meaning in symbols (X and x), not in words.
    return text.casefold() if len(text) > 1 and text.replace(" ", "").isalpha() else text


# Words that add, change or take back an answer, and so are never a unit.
_NOT_UNITS = frozenset(
    "or and not maybe either neither possibly perhaps if than to but except plus minus times more less most least about over "
    "by of hundred hundreds thousand thousands million millions billion billions trillion mil mn bn dozen half halves third "
    "thirds quarter pi sqrt sin cos tan log ln exp inf infinity mod modulo remainder rem point base negative neg false wrong "
    "no percent percentage pct pp bps squared cubed factorial root roots double triple twice thrice gross grand score ish hmm "
    "below above under off wait ths th".split()
)
_NUMBER_WORD = re.compile(
    r"zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|(?:four|fif|six|seven|eigh|nin|ten|eleven|twelf|hundred|thousand|million)ths?"
)
_LETTER_UNITS = frozenset("mgshlLNJWVACKFT")
_SHORT_UNITS = frozenset("cm mm km kg mg ml ft in lb oz hr pm am sq cc m g s h l min sec".split())
_UNIT_TEXT = re.compile(r"\s*+\\(?:text|mathrm)\s*+\{\s*+([A-Za-z][A-Za-z ./]*+)\}\s*+(?:\^\s*+(?:\{?([23])\}?))?$")
_UNIT_WORDS = re.compile(r"(?<=[0-9}!)]) ([A-Za-z]++(?: [A-Za-z]++){0,2})$")
_TEXT_QUANTITY = re.compile(r"^\\text\s?\{\s?([0-9][0-9.,]*+) ([A-Za-z ]++)\}$")
_DEGREES = re.compile(r"\s*+\^\\circ\s*+$")


def split_unit(text: str) -> tuple[str, str]:
    r"""Split a cleaned answer into value and unit: `10\text{ cm}^2` gives `10` and `cm^2`; no unit is an empty one."""
    text = _TEXT_QUANTITY.sub(r"\1 \2", text)
    match = _DEGREES.search(text)
    if match and match.start():
        return text[: match.start()].strip(), "degree"
    match = _UNIT_TEXT.search(text)
    # After letters alone it is no unit but a second answer: A\text{ B}.
    if match and match.start() and not text[: match.start()].isalpha() and _is_unit(match.group(1)):
        return text[: match.start()].strip(), _singular(match.group(1)) + (f"^{match.group(2)}" if match.group(2) else "")
    match = _UNIT_WORDS.search(text)
    if match and _is_unit(match.group(1)):
        parts = match.group(1).split()
        if all(len(part) > 2 or part in _SHORT_UNITS for part in parts) and (len(parts) > 1 or len(parts[0]) > 1):
            return text[: match.start()].strip(), _singular(match.group(1))
    return text, ""


def _is_unit(phrase: str) -> bool:
    words_in = re.findall(r"[a-z]+", phrase.lower())
    if words_in == ["per", "cent"]:
        return False
    if len(phrase.strip()) == 1:
        return phrase.strip() in _LETTER_UNITS
    return not (_NOT_UNITS.intersection(words_in) or any(is_number_word(word) for word in words_in))


def is_number_word(word: str) -> bool:
    """Whether a word is a number or an ordinal fraction (four, tenths)."""
    return _NUMBER_WORD.fullmatch(word.lower()) is not None


def _singular(phrase: str) -> str:
    return " ".join(word[:-1] if len(word) > 2 and word.endswith("s") else word for word in phrase.lower().split())
