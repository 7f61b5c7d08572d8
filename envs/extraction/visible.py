r"""What can be seen of a text: `blank` asks of its characters, `hollow` of what Markdown, HTML and LaTeX draw of it.

Both go by rules: a character shows something by its Unicode category, a command of LaTeX unless it is known to print nothing
(`\quad`) or to print nothing of its argument (`\phantom{1}`). Linear time.
"""

from __future__ import annotations

import html
import re
import unicodedata

from verigym.envs.latex.commands import SILENT, SKIPPED_ARGUMENT

# Of letters, numbers, signs and symbols, those that Unicode lists as Default_Ignorable (the fillers of Hangul) or calls blank
# or null: Braille without a dot, a note head without one. Marks show nothing without a letter, which then counts itself.
_EMPTY = frozenset("\u115f\u1160\u2800\u3164\uffa0\U0001d159")
_UNPRINTED = frozenset("phantom hphantom vphantom label hypertarget begin end".split()) | SKIPPED_ARGUMENT
"""Commands whose first argument prints nothing."""
_SPACES = frozenset("quad qquad newline linebreak pagebreak vfill ignorespaces empty".split()) | SILENT
_HTML = re.compile(r"<!--.*?(?:-->|\Z)|</?[A-Za-z][^<>]*+>", re.DOTALL)
_TOKEN = re.compile(
    r"\\(?:h|v|m)?(?:kern|skip)[ \t]*+[-+]?[0-9.]++[ \t]*+[a-z]{2}|\\[hv]?phantom[ \t]*+[^\s{\\A-Za-z]"
    r"|\\(?P<name>[A-Za-z]++)\*?(?P<after>[ \t]*+(?:\[[^\[\]{}]{0,100}+\])?[ \t]*+\{)?"
    r"|\\[,;:!/ \\()\[\]\n>]|%[^\n]*+|(?P<open>\{)|(?P<close>\})|[$~&^_]|(?P<shown>\\?.)",
    re.DOTALL,
)


def blank(text: str) -> bool:
    """Whether no character of the text shows anything: spaces, controls, marks without a letter, and what is drawn empty."""
    return not any(map(_seen, text))


def _seen(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNPS" and char not in _EMPTY


def hollow(text: str) -> bool:
    r"""Whether nothing of the text would be drawn: blank, or markup alone such as `<b></b>`, `&nbsp;` and `\phantom{1}`."""
    if "<" in text:
        text = _HTML.sub("", text)
    if "&" in text:
        text = html.unescape(text)
    return not _draws(text)


def _draws(text: str) -> bool:
    opened: list[bool] = []  # whether what each brace around this place holds prints nothing
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
