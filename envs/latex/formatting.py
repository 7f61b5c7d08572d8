r"""Removes LaTeX formatting around words and numbers: commands for fonts, sizes and spacing, escaped signs.

One linear scan turns `\textbf{(B)}\ \text{Paris}` into `(B) Paris` and `Qxf7\#` into `Qxf7#`. Commands with a meaning stay:
`\frac{1}{2}`, `10^{3}`, `\{1, 2\}`.
"""

from __future__ import annotations

import re

from verigym.envs.latex.commands import BOX_COMMANDS, TEXT_COMMANDS, UNPRINTED_COMMANDS

_WRAPPERS = TEXT_COMMANDS | frozenset("mathbf boldsymbol bm mathbb".split())
_SPACES = frozenset("quad qquad thinspace medspace thickspace enspace space enskip".split())
_MEANT = frozenset("therefore because qed middle n".split())
"""Unprinted commands to keep, since they carry meaning for other readers or are often no command."""
_BARE = (UNPRINTED_COMMANDS | _WRAPPERS) - BOX_COMMANDS - _SPACES - _MEANT
_TOKEN = re.compile(
    r"\\(?P<name>[A-Za-z]++)[ \t]*+(?P<open>\{)?"
    r"|\\(?P<sign>[#%&_$])|(?P<space>\\[,;:! \n]|(?<=[^\s~])~(?=[^\s~]))|(?P<other>\\.)|(?P<brace>\{)|(?P<close>\})",
    re.DOTALL,
)
_WHOLE = re.compile(r"\\([A-Za-z]++)\{([^{}]*+)\}")
_MATHS = re.compile(r"\\\((.*)\\\)|\\\[(.*)\\\]|\$\$?([^$]*)\$\$?", re.DOTALL)


def strip_formatting(text: str, *, boxes: bool = False) -> str:
    r"""Return `text` without LaTeX formatting: `\text{Ann} and \textbf{Bob}` is "Ann and Bob"; spacing becomes a space.

    Args:
        text: any text. Braces that never close are left in place.
        boxes: whether to remove `\boxed{}` too.
    """
    text = text.strip()
    whole = _MATHS.fullmatch(text)
    if whole and (inner := whole[1] or whole[2] or whole[3]):
        text = inner.strip()
    if "\\" not in text:
        return text
    parts: list[str] = []
    opened: list[bool] = []  # for each open brace, whether it belongs to a removed command
    last = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[last : token.start()])
        last = token.end()
        name = token["name"]
        shown = token[0]
        if name:
            removed = name in _BARE or (boxes and name in BOX_COMMANDS)
            if token["open"]:
                opened.append(removed)
            if removed:
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


def unwrap_text(text: str) -> str:
    r"""Return the content of `text` if it is a single `\text{...}` or similar command, and else `text` unchanged."""
    whole = _WHOLE.fullmatch(text)
    return whole[2].strip() if whole and whole[1] in _BARE else text
