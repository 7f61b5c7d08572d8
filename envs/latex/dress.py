r"""LaTeX's dress around words and numbers: commands for upright, bold or plain text, sizes, spacing, escaped signs.

One linear scan takes it off, so that `\textbf{(B)}\ \text{Paris}` reads `(B) Paris` and `Qxf7\#` reads `Qxf7#`. What has a
meaning stays as it is: `\frac{1}{2}`, `10^{3}`, `\{1, 2\}`.
"""

from __future__ import annotations

import re

from verigym.envs.latex.commands import BOXES, SILENT, TEXT

_WRAPPERS = TEXT | frozenset("mathbf boldsymbol bm mathbb".split())
_SPACES = frozenset("quad qquad thinspace medspace thickspace enspace space enskip".split())
_MEANT = frozenset("therefore because qed middle n".split())
"""Of the commands that print nothing those that say something to other readers, or are often no command."""
_BARE = (SILENT | _WRAPPERS) - BOXES - _SPACES - _MEANT
_TOKEN = re.compile(
    r"\\(?P<name>[A-Za-z]++)[ \t]*+(?P<open>\{)?"
    r"|\\(?P<sign>[#%&_$])|(?P<space>\\[,;:! \n]|(?<=[^\s~])~(?=[^\s~]))|(?P<other>\\.)|(?P<brace>\{)|(?P<close>\})",
    re.DOTALL,
)
_WHOLE = re.compile(r"\\([A-Za-z]++)\{([^{}]*+)\}")
_MATHS = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]|\$\$?([^$]*)\$\$?", re.DOTALL)


def undressed(text: str, *, boxes: bool = False) -> str:
    r"""Return the text without LaTeX's dress: `\text{Ann} and \textbf{Bob}` is "Ann and Bob"; spacing is a space.

    Args:
        text: may hold anything; braces that never close stay.
        boxes: whether boxes are dress too.
    """
    text = text.strip()
    whole = _MATHS.fullmatch(text)
    if whole and (inner := whole[1] or whole[2] or whole[3]):
        text = inner.strip()
    if "\\" not in text:
        return text
    parts: list[str] = []
    opened: list[bool] = []  # whether each brace around this place was a wrapper's
    last = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[last : token.start()])
        last = token.end()
        name = token["name"]
        shown = token[0]
        if name:
            dress = name in _BARE or (boxes and name in BOXES)
            if token["open"]:
                opened.append(dress)
            if dress:
                shown = ""
            elif name in _SPACES and not token["open"]:
                shown = " "
        elif token["sign"]:
            shown = token["sign"]
        elif token["space"]:
            shown = "" if token[0] == "\\!" else " "
        elif token["brace"]:
            opened.append(False)
        elif token["close"] and opened and opened.pop():
            shown = ""
        parts.append(shown)
    return "".join([*parts, text[last:]]).strip()


def unwrapped(text: str) -> str:
    r"""Return what stands in the one `\text{...}`, or the like, of which the text consists, or else the text."""
    whole = _WHOLE.fullmatch(text)
    return whole[2].strip() if whole and whole[1] in _BARE else text
