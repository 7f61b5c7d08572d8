r"""Reading LaTeX answers as text: tokens, what stands at the top level, and what sort of answer it is."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from typing import Literal

Kind = Literal[
    "integer",
    "decimal",
    "fraction",
    "mixed",
    "percent",
    "money",
    "degrees",
    "quantity",
    "base",
    "choice",
    "words",
    "list",
    "tuple",
    "interval",
    "set",
    "union",
    "matrix",
    "relation",
    "clock",
    "scalar",
    "expression",
    "prose",
]

_GROUP = r"\{(?:[^{}]|\{[^{}]*\})*\}"
TEXT_COMMAND = r"\\(?:text|mbox|textbf|textit|textrm|texttt|mathrm|mathit|operatorname|mathop|hbox)"
_TOKEN = re.compile(
    rf"(?:{TEXT_COMMAND}\s*{_GROUP}|\\(?:begin|end)\s*\{{[a-z*]+\}}(?:\{{[clr|]+\}})?)"
    r"|\\[A-Za-z]+|\\.|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?|\s+|[A-Za-z]|.",
    re.DOTALL,
)
_SEPARATED = re.compile(r"(\d{1,3})((?:(?:,\\!\s?|\{,\}|\\,|,|\\!,)\d{3})+)(?![\d])")
_OPEN = frozenset(("(", "[", "{", r"\{", r"\lfloor", r"\lceil", r"\langle"))
_CLOSE = frozenset((")", "]", "}", r"\}", r"\rfloor", r"\rceil", r"\rangle"))
_COMPARE = frozenset(
    ("=", "<", ">", r"\le", r"\leq", r"\ge", r"\geq", r"\lt", r"\gt", r"\neq", r"\ne", r"\in", r"\leqslant", r"\geqslant")
)
_FUNCTIONS = frozenset(
    (r"\sin", r"\cos", r"\tan", r"\log", r"\ln", r"\cot", r"\sec", r"\csc", r"\arcsin", r"\arctan", r"\arccos")
)
_NUMERIC = frozenset((r"\pi", r"\frac", r"\dfrac", r"\tfrac", r"\cfrac", r"\sqrt", r"\cdot", r"\times", r"\left", r"\right"))
_SPACES = frozenset((r"\,", r"\;", r"\:", r"\!", "\\ ", "~"))
_LAYOUT = frozenset(
    (r"\,", r"\;", r"\:", r"\!", r"\ ", r"\quad", r"\qquad", "~", r"\displaystyle", r"\circ", r"\infty", r"\pm")
)


def seeded(*parts: object) -> random.Random:
    """Return a generator of random numbers for these parts and no others."""
    return random.Random(hashlib.sha256("/".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest())


def tokens(text: str) -> list[str]:
    r"""Cut a text into commands, numbers, letters, signs, spaces; `\text{...}`, `\begin{...}` and `\end{...}` are one token."""
    return _TOKEN.findall(text)


def is_words(token: str) -> bool:
    r"""Whether a token is a `\text{...}` or its like."""
    return re.match(TEXT_COMMAND, token) is not None


def words_in(token: str) -> str:
    r"""Return what stands inside a `\text{...}`."""
    return token[token.index("{") + 1 : -1]


def stripped(text: str) -> str:
    r"""Return the text without outer spaces, but with the one that belongs to a final `\ `."""
    bare = text.strip()
    return f"{bare} " if re.search(r"(?<!\\)(?:\\\\)*\\$", bare) else bare


def shell(text: str) -> str:
    """Return the text without dollar signs around it, or around each element of it, and without outer spaces."""
    text = re.sub(r"(?<=\$)\.$", "", stripped(text))
    for left, right in (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")):
        inner = text[len(left) : -len(right)]
        if len(text) > len(left + right) and text.startswith(left) and text.endswith(right) and "$" not in inner:
            return shell(inner)
    spans = re.fullmatch(r"\$[^$]+\$(?:\s*,\s*\$[^$]+\$)+", text)
    return ", ".join(part.strip() for part in text.split("$")[1::2]) if spans else text


def split_top(text: str, separators: Sequence[str] = (",",)) -> list[str]:
    """Split at separators that stand in no bracket; a comma between digits of one number is none."""
    marked = re.sub(
        r"\{,\}", "\0", _SEPARATED.sub(lambda m: m.group(0).replace(",", "\0"), text) if _one_number(text) else text
    )
    depth, parts = 0, [""]
    for token in tokens(marked):
        depth += (token in _OPEN) - (token in _CLOSE) + token.startswith(r"\begin") - token.startswith(r"\end")
        if depth == 0 and token in separators:
            parts.append("")
        else:
            parts[-1] += token
    return [part.replace("\0", "{,}" if "{,}" in text else ",") for part in parts]


def _one_number(text: str) -> bool:
    return re.fullmatch(r"\s*(?:\\?\$|-|−)?\s*\d{1,3}(?:(?:,\\!\s?|\{,\}|\\,|,|\\!,)\d{3})+(?:\.\d+)?\D*", text) is not None


def compact(text: str) -> str:
    r"""Remove what only lays out: spaces, `\left`, `\right`, `\displaystyle`; `R C` keeps its space, for `RC` is one name."""
    text = re.sub(r"\\(?:left|right|displaystyle)(?![A-Za-z])", "", text)
    out, spaced = "", False
    for token in tokens(text):
        if token.isspace() or token in _SPACES:
            spaced = True
            continue
        capitals = spaced and token.isupper() and out[-1:].isupper()
        out += (" " if token[:1].isalpha() and (capitals or re.search(r"\\[A-Za-z]+$", out)) else "") + token
        spaced = False
    return out


def plain_number(text: str) -> str | None:
    """Return a literal number without its separators; None where the text is anything else."""
    bare = re.sub(r",\s?\\!\s?|\{,\}|\\!,", ",", text.strip())
    if re.fullmatch(r"-?\d{1,3}(?:(?:,|\\,)\d{3})+(?:\.\d+)?", bare):
        return re.sub(r",|\\,|\s", "", bare)
    return bare if re.fullmatch(r"-?(?:\d+(?:\.\d+)?|\.\d+)", bare) else None


def elements(text: str) -> tuple[str, list[str], str]:
    r"""Cut `(a, b)` into its opening, its elements and its closing; a list without brackets has empty ones."""
    body = shell(text)
    match = re.fullmatch(r"((?:\\left\s*)?(?:\\\{|[(\[]))(.*?)((?:\\right\s*)?(?:\\\}|[)\]]))", body, re.DOTALL)
    if match and _balanced(match.group(2)):
        return match.group(1), split_top(match.group(2)), match.group(3)
    return "", split_top(body), ""


def _balanced(text: str) -> bool:
    depth = 0
    for token in tokens(text):
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth < 0:
            return False
    return depth == 0


def kind(text: str, question: str = "") -> Kind:
    """Say what sort of answer a text is, as far as the generators need it."""
    body = shell(text)
    flat = compact(body)
    if plain_number(body):
        return "decimal" if "." in body else "integer"
    for name, pattern in _SIMPLE:
        if re.fullmatch(pattern, flat, re.DOTALL):
            return name
    if re.search(r"\d\s*\\?%\.?$", flat):
        return "percent"
    opening, parts, _ = elements(body)
    top = [token for part in split_top(body, ()) for token in _top_tokens(part)]
    found: Kind
    if _top_words(body):
        found = "prose"
    elif any(token in (r"\cup", r"\cap", "∪") for token in top):
        found = "union"
    elif r"\begin" in body:
        found = "matrix" if re.fullmatch(r"(?:\\begin\{([a-zA-Z]+)\}.*\\end\{\1\})", body, re.DOTALL) else "prose"
    elif opening and len(parts) > 1:
        found = _bracketed(opening, body, question)
    elif opening.endswith(r"\{"):
        found = "set"
    elif len(split_top(body)) > 1:
        found = "list"
    elif any(token in _COMPARE for token in top):
        found = "relation"
    else:
        found = _value_kind(flat)
    return found


def _bracketed(opening: str, body: str, question: str) -> Kind:
    if opening.endswith(r"\{"):
        return "set"
    mixed = ("[" in opening) or body.rstrip().endswith("]")
    return "interval" if mixed or r"\infty" in body or "interval" in question else "tuple"


def _value_kind(flat: str) -> Kind:
    scalar = True
    for token in tokens(flat):
        if is_words(token):
            return "prose"
        if token.startswith("\\") and token not in _NUMERIC | _LAYOUT | _FUNCTIONS | _OPEN | _CLOSE:
            scalar = False
        if token.isalpha() and token not in ("i", "e"):
            scalar = False
    if re.search(r"[a-zA-Z]{4,}", re.sub(r"\\[A-Za-z]+", "", flat)) or re.search(r"[?;:$]|\\ldots|\\dots|\\cdots", flat):
        return "prose"
    return "scalar" if scalar and re.search(r"\d|\\pi|i", flat) else "expression"


def _top_tokens(text: str) -> list[str]:
    depth, found = 0, []
    for token in tokens(text):
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 0:
            found.append(token)
    return found


def _top_words(text: str) -> bool:
    bare = re.sub(r"\\[A-Za-z]+", " ", text)
    return (
        any(is_words(token) for token in tokens(text))
        or re.search(r"[A-Za-z]{4,}|[一-鿿]", bare) is not None
        and r"\begin" not in text
    )


_INT = r"-?\d+"
_SIMPLE: tuple[tuple[Kind, str], ...] = (
    ("fraction", rf"-?\\[dtc]?frac(?:\{{{_INT}\}}|\d)(?:\{{{_INT}\}}|\d)|{_INT}/\d+"),
    ("mixed", r"-?\d+\\[dtc]?frac(?:\{\d+\}|\d)(?:\{\d+\}|\d)"),
    ("percent", r"-?\d[\d.,]*\\?%"),
    ("money", r"\\\$-?\d.*"),
    ("degrees", r"-?[\d.]+\^(?:\{\\circ\}|\\circ)|-?[\d.]+°"),
    ("quantity", rf"-?[\d.,{{}}!\\]*\d[\d.]*{TEXT_COMMAND}\{{[^{{}}]*[a-z][^{{}}]*\}}(?:\^\{{?\d\}}?)?"),
    ("quantity", rf"-?\\[dtc]?frac\{{\d+\}}\{{\d+\}}{TEXT_COMMAND}\{{[^{{}}]*[a-z][^{{}}]*\}}(?:\^\{{?\d\}}?)?"),
    ("base", r"[\dA-F.]+_(?:\{\d+\}|\d+)"),
    ("choice", rf"[A-Z]|\([A-Z]\)|{TEXT_COMMAND}\{{\(?[A-Z]\)?\}}|\({TEXT_COMMAND}\{{[A-Z]\}}\)"),
    ("words", rf"{TEXT_COMMAND}\{{[A-Za-z ,'’.-]+\}}|[A-Za-z]{{2,}}"),
    ("clock", r"\d+:\d\d.*"),
)
