r"""What may stand on either side of a whole answer, token by token: relations, words, punctuation, units, delimiters.

Operators, factors, digits and functions make it a part of something else, and so does a denial (`x \ne`). Outside a formula
a sign is an operator only where it is written like one: `- \boxed{5}` is an item of a list, `\boxed{5}!` an exclamation.
"""

from __future__ import annotations

import re

from verigym.envs.maths.reading.latex import BOXES, COMMANDS, SILENT, TEXT
from verigym.envs.maths.reading.units import known_unit

GROUPED = frozenset(r"^ _ \frac \dfrac \tfrac \cfrac \sfrac \sqrt \binom \dbinom \tbinom".split())
"""Whatever stands in braces after one of these is an argument."""

_VALUES = frozenset("* / ± sym const frac sqrt cbrt root binom over func big setop not ⌊ lbar".split())
_BEFORE = _VALUES | {"<", ">", "⌋", "rbar", "mod"}
_DENIALS = frozenset(("!=", "notin"))
_SIGNS = frozenset("+-*/\u2212\u2217")
_FIRM = frozenset("^\u00d7\u00b7\u22c5\u00f7\u00b1\u2213\u221a\u221b\u2211\u220f\u222b\u00ac\u2260\u00b2\u00b3")
_BLANK = (SILENT - BOXES) | frozenset("mathbf boldsymbol bm pmb".split())
_SPACES = frozenset((r"\,", r"\;", r"\:", r"\!", r"\ ", r"\/", "~", "&"))
_DELIMITERS = frozenset(("$", r"\(", r"\)"))
_EMPHASIS = frozenset("*_`\"'")
_HARMLESS_POWER = re.compile(r"(?:\\(?:text|mathrm))?(?:\\circ|\\degree|\\prime|\u00b0|(?:st|nd|rd|th)(?![A-Za-z]))")


def skip(tokens: list[str], math: bool) -> list[str]:
    """Return the tokens from the first that prints something; outside a formula emphasis is not looked at."""
    for place, token in enumerate(tokens):
        blank = token.isspace() or token in _SPACES or (token[0] == "\\" and token[1:] in _BLANK)
        if not blank and (math or token not in _EMPHASIS):
            return tokens[place:]
    return []


def _inside(left: list[str], math: bool) -> list[str]:
    """Return the tokens leftwards from the first that prints something, in braces or not: `{-}` is `-`."""
    rest = skip(left, math)
    while rest[:1] == ["}"] and (not (size := _bracket(rest)) or owner(rest[size - 1 :])[0][1:] in ("", *_BLANK)):
        rest = skip(rest[2:] if rest[1:2] == ["{"] else rest[1:], math)
    return rest


def owner(left: list[str]) -> tuple[str, list[str]]:
    r"""Return the command whose argument an open bracket begins, and the tokens beyond; both run leftwards.

    `{` of `\frac{1}{` belongs to `\frac`, that of `x^{` to `^`, that of `\textcolor{red}{` to `\textcolor`.
    """
    rest = left[1:]
    while left[0] == "{" and rest and rest[0] in "}]":
        size = _bracket(rest)
        if not size:
            return "", left[1:]
        rest = rest[size:]
    if left[0] == "{" and rest and (rest[0] in "^_" or (rest[0][0] == "\\" and rest[0][1:].isalpha())):
        return rest[0], rest[1:]
    return "", left[1:]


def _bracket(tokens: list[str]) -> int:
    """Return how many tokens the bracket takes that the first of them closes (leftwards) or opens; 0 if it is cut off."""
    mate, depth = {"}": "{", "]": "[", ")": "(", "{": "}", "(": ")"}[tokens[0]], 0
    for place, token in enumerate(tokens):
        depth += (token == tokens[0]) - (token == mate)
        if depth == 0:
            return place + 1
    return 0


def _kind(token: str) -> tuple[str, str]:
    return COMMANDS.get(token[1:], (" ", " ")) if token[:1] == "\\" else (" ", " ")


def _is_operand(tokens: list[str]) -> bool:
    """Whether a number, a letter or a group comes next, after a blank or none."""
    rest = tokens[1:] if tokens[:1] == [" "] else tokens
    if not rest:
        return False
    letter = rest[0].isalpha() and len(rest[0]) == 1
    return rest[0].isdigit() or letter or rest[0] in "(){}" or _kind(rest[0])[0] in _VALUES or rest[0][1:] in BOXES


def _is_words(tokens: list[str]) -> bool:
    return bool(tokens) and tokens[0][0] == "\\" and tokens[0][1:] in TEXT


def _breaks(tokens: list[str], rest: list[str]) -> bool:
    return any("\n" in token for token in tokens[: len(tokens) - len(rest)])


def precedes(left: list[str], math: bool) -> bool:
    """Whether what stands to the left takes the box as its operand; the tokens run leftwards."""
    rest = _inside(left, math)
    if not rest or (not math and _breaks(left, rest)):
        return False
    token, behind, glued = rest[0], rest[1:], len(rest) == len(left)
    if token in _DELIMITERS:  # the sign is in a formula of its own: `$-$\boxed{5}`
        before = skip(behind, math)
        behind = before[1:] if before[:1] and before[0] in _DELIMITERS else behind
        sign = behind[0] if behind else ""
        return sign in _FIRM or (sign in _SIGNS and sign != "*") or _kind(sign)[0] in "*/±" or _kind(sign)[1] in _DENIALS
    if token[0] == "\\":
        kind, meaning = _kind(token)
        return kind in _BEFORE or meaning in _DENIALS
    if token.isalnum():
        return (math or glued) and (token.isdigit() or len(token) == 1)
    if token == "=":
        return behind[:1] == [r"\not"] or (behind[:1] == ["!"] and "".join(behind[1:2]).isspace())  # 3!=6 is a factorial's
    if token == "}":
        return (math or glued) and owner(rest[_bracket(rest) - 1 :])[0] in GROUPED
    if token in _FIRM:
        return math or glued or token not in "\u00b2\u00b3"  # an area may end a phrase
    return _joins(token, behind) if math else _is_sign(left, math)


def _joins(token: str, behind: list[str]) -> bool:
    """Whether a character of a formula takes what follows it as an operand or a factor."""
    if token in "<>":
        return behind[:1] not in (["-"], ["="], ["<"])  # no arrow
    if token == "+":  # `= +5` is 5
        return _is_operand(skip(behind, True))
    if token == ")":  # `(a)` is a label
        size = _bracket([token, *behind])
        return size != 3 or behind[0].isdigit()
    return token in _SIGNS or token in "|!_"


def _is_sign(left: list[str], math: bool) -> bool:
    r"""Whether words end in an operator: `2 + \boxed{5}`, `-\boxed{5}`, but neither `so - \boxed{5}` nor `**\boxed{5}**`."""
    rest = left[1:] if left[:1] == [" "] else left
    if not rest or rest[0] not in _SIGNS:
        return False
    token, behind = rest[0], rest[1:]
    if behind[:1] == [token]:
        return False
    word = bool(behind) and behind[0].isalpha() and len(behind[0]) > 1
    return _is_operand(behind) or (rest is left and token != "*" and not word)


def follows(right: list[str], math: bool) -> bool:
    """Whether what stands to the right goes on with the box's value."""
    right = [token for token in right if token != "{"]  # what stands in braces prints like the rest
    rest, powered = _past_unit(skip(right, math), math)
    while rest[:1] == ["}"] and right[0] == "}":
        rest = skip(rest[1:], math)
    if not math and (_times(right) or _breaks(right, rest)):
        return _times(right)
    if not rest or powered:
        return False
    token, behind, glued = rest[0], rest[1:], len(rest) == len(right)
    if token in _DELIMITERS:  # `$\boxed{5}$/2`, `\boxed{5}$^2$`
        raised = behind[:1] == ["^"] and _HARMLESS_POWER.match("".join(behind[1:7])) is None
        return raised or (behind[:1] != [] and behind[0] in _SIGNS and "".join(behind[1:2]).isdigit())
    if token[0] == "\\":
        kind, meaning = _kind(token)
        unit = (kind == "frac" or token == r"\mu") and _is_words(skip(behind, math))
        return (math or glued) and not unit and (kind in _VALUES or meaning in _DENIALS)
    if token.isalnum():
        harmless = len(token) > 1 or known_unit(token) is not None or behind[:1] == ["^"]  # the coefficient of x^3
        return (math or glued) and (token.isdigit() or not harmless)
    if token == "_":
        return math and not "".join(behind[:1]).isdigit()  # a base
    if token == "^":
        power = "".join(behind[:6]).replace(" ", "")
        return (math or glued) and _HARMLESS_POWER.match(power) is None
    if token in "!(":
        return (math or glued) and ((math and token == "!") or _is_operand(behind))
    return token in _FIRM or (token in _SIGNS and ((math and token != "/") or _is_operand(behind)))


def _past_unit(right: list[str], math: bool) -> tuple[list[str], bool]:
    """Return the tokens after the units of a formula, and whether the last of them has a power."""
    while math and right and (right[0] in (r"\%", "%") or _is_words(right)):
        size = right.index("}") if _is_words(right) and "}" in right else 0
        right = skip(right[size + 1 :], math)
        if right[:1] == ["^"]:
            return right, True
        if right and _kind(right[0])[0] == "*" and _is_words(skip(right[1:], math)):
            right = skip(right[1:], math)
    return right, False


def _times(right: list[str]) -> bool:
    r"""Whether a star outside a formula multiplies: `\boxed{5}*2` and `\boxed{5} * 2`, not `*\boxed{5}* 2`."""
    spaced = right[:1] == [" "]
    rest = right[1:] if spaced else right
    return rest[:1] == ["*"] and (rest[1:2] == [" "]) is spaced and _is_operand(rest[1:])
