r"""Dollars and backslashes before the tokens: which delimit formulas, which are money, which were escaped twice."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"(?<!\\)\\[A-Za-z]")
_DOUBLED_COMMAND = re.compile(r"\\\\[A-Za-z{]")
_DOUBLED = re.compile(
    r"\\\\(?=(?:frac|dfrac|tfrac|left|right|text|sqrt|begin|end|pi|cdot|times|boxed|cup|infty|le|ge|in|pm|circ)(?![a-z]))"
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_PRICE = re.compile(r"(?<!\\)\$(?=\s?[0-9])")
_MARKED = re.compile(r"\s*+(\*\*|[`\"])([^*`\"]++)\1\s*+[.]?+")
_GAP = re.compile(r"\$\s++\$")


def delimit(text: str) -> tuple[str, bool]:
    r"""Return the text with single backslashes and plain delimiters, and whether words outside formulas are set apart.

    - Marks of emphasis, code and quotation around the whole text go: `**73**`.
    - Backslashes that are all doubled were escaped twice, and so were single commands in a text without rows.
    - `$5` and `$5 and $10`: dollars that all stand before digits are money.
    - An odd dollar is left over from cutting the text, and delimits nothing.
    """
    wrapped = _MARKED.fullmatch(text)
    if wrapped:
        text = wrapped.group(2)
    if "\\\\" in text:
        if "\\\\begin" in text or not _COMMAND.search(text):
            text = text.replace("\\\\", "\\") if _DOUBLED_COMMAND.search(text) else text
        elif "\\begin" not in text:
            text = _DOUBLED.sub(lambda _: "\\", text)
    outside = "\\(" in text or "\\[" in text
    if "$" not in text:
        return text, outside
    text = text.replace("$$", "$")
    if text.strip()[:1] != "$":
        text = _GAP.sub(" ", text)  # formulas that broke off: x+$ $y
    count = len(_DOLLAR.findall(text))
    if count == len(_PRICE.findall(text)):
        return _PRICE.sub(lambda _: "\\$", text), outside
    if count % 2:
        return _DOLLAR.sub(" ", text), outside
    return text, True
