r"""Turns Unicode text into what the lexer reads: ASCII characters, TeX commands, and letters of words.

The parser must read the same text as a person who looks at it. Characters without width or meaning (zero-width spaces and
joiners, variation selectors) are dropped, for the text looks the same without them. Characters that change how their neighbours
look or in which order they stand (bidirectional controls, right-to-left letters, combining marks, NUL and other controls) are
refused: with them, the text on the screen and the text that is read could differ.
"""

from __future__ import annotations

import re
import unicodedata

from verigym.envs.math.tree import ParseError

_HARMLESS = "\u200b\u200c\u200d\u2060\ufeff\ufe00\ufe0e\ufe0f"
_SPACES = (
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\u2028\u2029\u0085\v\f"
)

_COMMANDS = {
    "\u00d7": "times", "\u00b7": "cdot", "\u22c5": "cdot", "\u2219": "cdot", "\u2022": "cdot", "\u2a2f": "times",
    "\u00f7": "div", "\u00b1": "pm", "\u2213": "mp", "\u221a": "usqrt", "\u221b": "ucbrt", "\u221e": "infty",
    "\u2264": "le", "\u2a7d": "le", "\u2266": "le", "\u2265": "ge", "\u2a7e": "ge", "\u2267": "ge", "\u2260": "ne",
    "\u2248": "approx", "\u2243": "approx", "\u2245": "cong", "\u2261": "equiv", "\u223c": "sim",
    "\u222a": "cup", "\u2229": "cap", "\u2208": "in", "\u2209": "notin", "\u2216": "setminus", "\u2205": "emptyset",
    "\u2282": "subset", "\u2286": "subseteq", "\u2200": "forall", "\u2203": "exists",
    "\u2192": "to", "\u27f6": "to", "\u21d2": "Rightarrow", "\u21d4": "Leftrightarrow", "\u2234": "therefore",
    "\u2211": "sum", "\u220f": "prod", "\u222b": "int", "\u2202": "partial", "\u2206": "Delta", "\u2207": "nabla",
    "\u2220": "angle", "\u25b3": "triangle", "\u22a5": "perp", "\u27c2": "perp", "\u2225": "|", "\u2016": "|", "\u2223": "mid",
    "\u00b0": "degree", "\u00ba": "degree", "\u2218": "circ", "\u2103": "celsius", "\u2109": "fahrenheit",
    "\u2026": "ldots", "\u22ef": "cdots", "\u22ee": "vdots", "\u2032": "prime", "\u2033": "dprime",
    "\u27e8": "langle", "\u2329": "langle", "\u27e9": "rangle", "\u232a": "rangle",
    "\u230a": "lfloor", "\u230b": "rfloor", "\u2308": "lceil", "\u2309": "rceil",
    "\u2227": "land", "\u2228": "lor", "\u00ac": "neg", "\u2295": "oplus", "\u22bb": "veebar", "\u2030": "permille",
    "\u2113": "ell", "\u210f": "hbar",
    "\u211d": "R", "\u2124": "Z", "\u211a": "Q", "\u2115": "N", "\u2102": "C",
    "\u20ac": "euro", "\u00a3": "pounds", "\u00a5": "yen", "\uffe5": "yen", "\u20b9": "rupee", "\u00a2": "cents",
}  # fmt: skip
_GREEK = {
    **dict(zip("αβγδεζηθικλμνξπρσςτυφχψω", (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma sigma tau upsilon phi chi psi "
        "omega").split(), strict=True)),
    **dict(zip("ΓΔΘΛΞΠΣΥΦΨΩ", "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split(), strict=True)),
    "\u03d5": "phi", "\u03b5": "epsilon", "\u03f5": "epsilon", "\u03d1": "theta", "\u00b5": "mu", "\u2126": "Omega",
}  # fmt: skip
_FRACTIONS = {
    "½": "12", "⅓": "13", "⅔": "23", "¼": "14", "¾": "34", "⅕": "15", "⅖": "25", "⅗": "35", "⅘": "45", "⅙": "16", "⅚": "56",
    "⅐": "17", "⅛": "18", "⅜": "38", "⅝": "58", "⅞": "78", "⅑": "19",
}  # fmt: skip
_PLAIN = {
    "\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2015": "-", "\ufe63": "-",
    "\u2217": "*", "\u2044": "/", "\u2215": "/", "\u2236": ":", "\u2237": "::", "\u01c0": "|",
    "\uff08": "(", "\uff09": ")", "\u3001": ",", "\u3002": ".", "\u3010": "[", "\u3011": "]",
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u300c": '"', "\u300d": '"', "\u2b1c": " ",
    "\u02c6": "^",
}  # fmt: skip

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₙₘₖ", "0123456789+-=()aeoxnmk")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ]++")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑₒₓₙₘₖ]++")

_TABLE: dict[int, str | None] = {
    **{code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},  # full-width forms
    **{ord(char): None for char in _HARMLESS},
    **{ord(char): " " for char in _SPACES},
    **{ord(char): f"\\{name} " for char, name in {**_COMMANDS, **_GREEK}.items()},
    **{ord(char): rf"\frac{{{pair[0]}}}{{{pair[1]}}}" for char, pair in _FRACTIONS.items()},
    **{ord(char): text for char, text in _PLAIN.items()},
    ord("\u2225"): "\\| ", ord("\u2016"): "\\| ",
}  # fmt: skip
_REFUSED = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_SWISS = re.compile(r"(?<![0-9.,'])[1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9'])")  # 1'000
_FOREIGN = re.compile(r"[^\x00-\x7f]")


def plain(text: str) -> str:
    """Return `text` with each character replaced by its ASCII or TeX form, if it has one.

    Raises:
        ParseError: `text` has a character that may change what a reader sees.
    """
    control = _REFUSED.search(text)
    if control:
        raise ParseError(f"control character {control.group()!r} at {control.start()}")
    if text.isascii():
        return _SWISS.sub(lambda match: match.group().replace("'", ""), text) if "'" in text else text
    text = unicodedata.normalize("NFC", text)
    text = _LOWERED.sub(lambda run: "_{" + run.group().translate(_SUBSCRIPTS) + "}", text)
    text = _RAISED.sub(lambda run: "^{" + run.group().translate(_SUPERSCRIPTS) + "}", text)
    text = text.translate(_TABLE)
    for character in sorted(set(_FOREIGN.findall(text))):
        if unicodedata.category(character) == "Nd" and unicodedata.bidirectional(character) in ("L", "EN"):
            text = text.replace(character, str(unicodedata.decimal(character)))
        else:
            _check(character)
    return _SWISS.sub(lambda match: match.group().replace("'", ""), text) if "'" in text else text


def _check(char: str) -> None:
    """Refuse characters other than letters, which may be parts of words."""
    letter = unicodedata.category(char) in ("Lu", "Ll", "Lt", "Lo", "Lm")
    if not letter or unicodedata.bidirectional(char) in ("R", "AL"):
        raise ParseError(f"character U+{ord(char):04X} ({unicodedata.name(char, 'unnamed')})")
