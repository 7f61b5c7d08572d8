r"""Decides whether a text shows anything: `blank` looks at its characters, `hollow` at the rendered Markdown, HTML and LaTeX.

The Unicode category decides whether a character is visible. A LaTeX command is visible, except for commands known to print
nothing (`\quad`) or to hide their argument (`\phantom{1}`). Both functions take linear time.
"""

from __future__ import annotations

import html
import re
import unicodedata

from verigym.envs.latex.commands import UNPRINTED_ARGUMENT, UNPRINTED_COMMANDS

# Of letters, numbers, signs and symbols, those that Unicode lists as Default_Ignorable (the fillers of Hangul) or calls blank
# or null: Braille without a dot, a note head without one. Marks show nothing without a letter, which then counts itself.
_EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159")
_UNPRINTED = frozenset("phantom hphantom vphantom label hypertarget begin end".split()) | UNPRINTED_ARGUMENT
"""Commands whose first argument prints nothing."""
_SPACES = frozenset("quad qquad newline linebreak pagebreak vfill ignorespaces empty".split()) | UNPRINTED_COMMANDS
_HTML = re.compile(r"<!--.*?(?:-->|\Z)|</?[A-Za-z][^<>]*+>", re.DOTALL)
_TOKEN = re.compile(
    r"\\(?:h|v|m)?(?:kern|skip)[ \t]*+[-+]?[0-9.]++[ \t]*+[a-z]{2}|\\[hv]?phantom[ \t]*+[^\s{\\A-Za-z]"
    r"|\\(?P<name>[A-Za-z]++)\*?(?P<after>[ \t]*+(?:\[[^\[\]{}]{0,100}+\])?[ \t]*+\{)?"
    r"|\\[,;:!/ \\()\[\]\n>]|%[^\n]*+|(?P<open>\{)|(?P<close>\})|[$~&^_]|(?P<shown>\\?.)",
    re.DOTALL,
)


def blank(text: str) -> bool:
    """Return whether `text` has only invisible characters: spaces, controls, marks without a letter, and blank glyphs."""
    return not any(map(_seen, text))


def _seen(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNPS" and char not in _EMPTY


def hollow(text: str) -> bool:
    r"""Return whether `text` renders as nothing: it is blank or only markup such as `<b></b>`, `&nbsp;` and `\phantom{1}`."""
    if "<" in text:
        text = _HTML.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    return not _draws(text)


def _draws(text: str) -> bool:
    opened: list[bool] = []  # for each open brace, whether its content is unprinted
    unprinted = 0
    for token in _TOKEN.finditer(text):
        name = token["name"]
        if name:
            silent = name in _UNPRINTED
            if token["after"]:
                opened.append(silent)
                unprinted += silent
            elif not unprinted and not silent and name not in _SPACES:
                return True
        elif token["open"]:
            opened.append(False)
        elif token["close"]:
            unprinted -= bool(opened and opened.pop())
        elif token["shown"] and not unprinted and _seen(token["shown"][-1]):
            return True
    return False
