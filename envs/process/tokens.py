r"""Tokens of a step's plain text: numbers, signs, relations, words, and LaTeX commands by role."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from verigym.envs.latex.commands import COMMANDS

Relation = Literal["=", "approx", "!=", "<", ">", "<=", ">=", "says", "equiv"]
"""The relation between two sides. `says` is a relation written as a word or an arrow: `12 + 5 is 17`, `12 + 5 -> 17`."""

_TOKEN = re.compile(
    # Thousands: eight groups, or all of fewer; with a longer group behind them no comma is of thousands.
    r"(?P<ordinal>[0-9]{1,4}(?:st|nd|rd|th)(?![A-Za-z]))"
    r"|(?P<clock>(?<![0-9.:])[0-9]{1,2}:[0-5][0-9](?![0-9:])(?:\s?[AaPp]\.?[Mm](?![A-Za-z]))?)"
    r"|(?P<number>[0-9]{1,3}(?:(?:,[0-9]{3}){8}|(?:(?:,|\{,\})[0-9]{3}){1,7}(?!,[0-9]{3}))(?![0-9])(?:\.[0-9]++)?"
    r"|[0-9]++\.[0-9]*+\\overline\s?\{[0-9]{1,30}\}|[0-9]++(?:\.[0-9]++)?(?:(?:[eE]|(?<=\.[0-9])[eE][-+]|(?<=\.[0-9][0-9])[eE][-+])[0-9]{1,3}(?![0-9A-Za-z]))?|\.[0-9]++|[\u00bc-\u00be\u2150-\u215e])"
    r"|(?P<dots>(?<=[0-9])(?:\.{2,}|\u2026|\\l?dots(?![A-Za-z])))"
    r"|(?P<factorial>(?<=[0-9)}])!(?!=\s))"
    r"|(?P<relation>[=:]=?=?(?<=[=])|!=|<=|>=|=<|[\u223c\u223d\u2241-\u2267<>]|(?<=\s)~(?=\s))"
    r"|(?P<arrow>[-=]{1,2}>|[\u2192\u21d2\u27f6\u27f9])"
    r"|(?P<power>(?<=[0-9)])\*\*(?=[0-9(-]))"
    r"|(?P<cross>(?<=[0-9) ])[xX\u0445\u0425](?=\s?[0-9($.\u20ac]))"
    r"|(?P<blank>[^\S\n]++|[$~]|[\u20ac\u00a3\u00a5])"
    r"|(?P<percent>%)"
    r"|(?P<script>[_^]\s?\{[^{}\n]{0,40}\}|_\s?[0-9A-Za-z]|\^\s?(?:[A-Za-z*](?![A-Za-z])|\\(?:circ|prime)(?![A-Za-z]))|[\u00b2\u00b3\u00b9\u2070-\u207f]++|\u00b0|'++)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<sign>[-+*/^\u00d7\u00f7\u00b7\u2212\u2013-\u2015\u2217\u22c5])|(?P<root>\u221a)"
    r"|\\(?P<command>[A-Za-z]++)"
    r"|(?P<symbol>[A-Za-z\u03b1-\u03c9](?![^\W_]))"
    r"|(?P<line>\n\s*+)"
    r"|(?P<word>[^\W\d_][\w'\u2019-]*+(?:/[A-Za-z]++)*)"
    r"|(?P<other>.)",
    re.DOTALL,
)
RELATIONS: dict[str, Relation] = {
    **dict.fromkeys(("=", "==", "===", ":=", "\\eq", "\\colonequals", "\\coloneqq"), "="),
    **dict.fromkeys(map(chr, range(0x2250, 0x225F)), "="),  # with dots, a colon, a ring and so on
    **dict.fromkeys(map(chr, (0x223C, 0x223D, *range(0x2242, 0x2250))), "approx"),
    **dict.fromkeys(("\u2241", "\u2244", "\u2247", "\u2249"), "!="),
    **dict.fromkeys(("~", "\\approx", "\\approxeq", "\\simeq", "\\doteq", "\\sim"), "approx"),
    **dict.fromkeys(("\u2261", "\u2263", "\\equiv"), "equiv"),
    **dict.fromkeys(("!=", "\u2260", "\u2262", "\\ne", "\\neq"), "!="),
    **dict.fromkeys(("<", "\\lt"), "<"), **dict.fromkeys((">", "\\gt"), ">"),
    **dict.fromkeys(("<=", "=<", "\u2264", "\u2266", "\\le", "\\leq", "\\leqslant"), "<="),
    **dict.fromkeys((">=", "\u2265", "\u2267", "\\ge", "\\geq", "\\geqslant"), ">="),
}  # fmt: skip
_ARROWS = frozenset("\\to \\rightarrow \\Rightarrow \\implies \\Longrightarrow \\longrightarrow".split())
FUNCTIONS = frozenset("sqrt cbrt log ln sin cos tan cot sec csc abs gcd lcm max min floor ceil exp".split())
_NAMES = frozenset("sym const rbar ⌋ circ celsius set".split())
"""Kinds of commands that end an operand; those in `_OPENERS` begin one."""
_OPENERS = frozenset("frac sqrt cbrt binom func lbar ⌊ big accent root over".split())
_CALLED = re.compile(r"\s?[(0-9]|_")


class Token(NamedTuple):
    """A piece of the text."""

    kind: str
    text: str
    spaced: bool
    """Whether a blank stands before it."""

    @property
    def counts(self) -> bool:
        """Whether it is a number, also one that is not read."""
        return self.kind == "number" or (bool(self.text) and self.text.isnumeric())


def tokens(text: str) -> list[Token]:
    """Return the tokens of a plain text (see `process.plain`), without blanks."""
    token_list: list[Token] = []
    spaced = True
    for match in _TOKEN.finditer(text):
        kind, shown = str(match.lastgroup), match.group()
        if kind == "blank":
            spaced = True
            continue
        if kind == "ordinal":
            kind = "word"
        elif (
            kind == "word"
            and (shown in FUNCTIONS or shown.partition("_")[0] in ("log", "lg"))
            and _CALLED.match(text, match.end())
        ):
            kind, shown = "opener", f"{shown} "
        elif kind == "command":
            kind, shown = _command(shown)
        elif kind == "symbol" and shown in "aAI" and spaced and text[match.end() : match.end() + 1].isspace():
            rest = text[match.end() : match.end() + 9].lstrip()
            kind = "symbol" if rest[:1] in ("=", "+", "-", "*", "/", "^", "\\", "<", ">") else "word"
        elif kind in ("sign", "power", "cross"):
            kind, shown = "sign", {"power": "^", "cross": "*"}.get(kind, shown)
        elif kind == "number":
            shown = shown.replace("{,}", "").replace(",", "")
        elif kind == "clock":
            hours, minutes = int(shown.partition(":")[0]), int(shown.partition(":")[2][:2])
            if shown[-1] in "mM":
                hours = hours % 12 + (12 if "p" in shown.lower() else 0)
            kind, shown = "number", f"({hours}*60+{minutes})\\text{{ minutes}}"
        token_list.append(Token(kind, shown, spaced))
        spaced = kind == "line"
    return token_list


def _command(name: str) -> tuple[str, str]:
    if name in _ARROWS:
        return "arrow", name
    if name in RELATIONS:
        return "relation", name
    kind = COMMANDS.get(name[1:], ("other", ""))[0]
    if kind in ("*", "/", "mod") and name not in ("\\ast", "\\star"):  # those are operations that a task defines
        return "sign", f"{name} "
    if name == "\\%":
        return "percent", "%"
    if kind == "dots":
        return "ellipsis", f"{name} "
    return ("operand" if kind in _NAMES else "opener" if kind in _OPENERS else "other"), f"{name} "
