r"""What may stand behind a whole answer, token by token: units, conditions, labels, the next cell; see `boxsides.py`."""

from __future__ import annotations

import re

from verigym.envs.extraction.sides import (
    ACROSS,
    DASHES,
    DELIMITERS,
    DENIALS,
    FIRM,
    NUMERAL,
    RAISED,
    SIGNS,
    VALUES,
    bracket,
    breaks,
    is_blank,
    is_letter,
    is_operand,
    is_product,
    is_words,
    lookup,
    skip,
)
from verigym.envs.latex.units import known_unit

_SAID_AFTER = re.compile(
    r"(?:squared|cubed|factorial|plus|minus|divided by|multiplied by|(?:st|nd|rd|th)[ -](?:root|power))(?![A-Za-z])"
)
_ORDINAL = re.compile(r"\^ (?:\\[a-z]+ )?(?:st|nd|rd|th) (?:\} )*(?:\\[a-z]+ )?(?:root|power) ")
_NAME = r"(?:\\(?:text|mathrm|mbox|textrm) )?{} (?:\}} )*(?:\^ (?:- )?[1-9] (?:\}} )*)?"
# Of tokens with a blank after each, without opening braces.
_UNIT = re.compile(
    r"(?:(?:\\(?:text|mathrm) )?[kMGm] (?:\} )?)?\\Omega "
    r"|\\mu [mFAVCsSWHLlTJ] "
    rf"|\\[dt]?frac {_NAME.format('(?P<over>[A-Za-z]+)')}{_NAME.format('(?P<under>[A-Za-z]+)')}"
    rf"|(?P<per>/) {_NAME.format('(?P<each>[A-Za-z]+)')}"
)
_MOST_TOKENS = 24
_HARMLESS_POWER = re.compile(r"(?:\\(?:text|mathrm))?(?:\\circ|\\degree|\\prime|\u00b0|(?:st|nd|rd|th)(?![A-Za-z]))")
# What begins a remark, not a unit: `\boxed{5}\text{ if }x > 0`.
_REMARK = re.compile(r"(?:if|when|whenever|for|where|since|because|as|so|with|while|at|is|are|but|then|thus|hence)(?![A-Za-z])")


def follows(right: list[str], math: bool) -> bool:
    """Whether what stands to the right goes on with the box's value."""
    right = [token for token in right if token != "{"]  # what stands in braces prints like the rest
    rest, powered = _past_unit(skip(right, math), math)
    while rest[:1] == ["}"] and right[0] == "}":
        rest = skip(rest[1:], math)
    if not math and (_times(right) or breaks(right, rest)):
        return _times(right)
    if not rest or powered:
        return False
    token, behind, glued = rest[0], rest[1:], len(rest) == len(right)
    crossed = right[: len(right) - len(rest)]
    token = "-" if math and token in DASHES else token
    if math and "&" in crossed and not _is_across(token, behind):
        return False
    if token in DELIMITERS:  # `$\boxed{5}$/2`, `\boxed{5}$^2$`
        raised = behind[:1] == ["^"] and _HARMLESS_POWER.match("".join(behind[1:7])) is None
        return raised or (behind[:1] != [] and behind[0] in SIGNS and "".join(behind[1:2]).isdigit())
    if token[0] == "\\":
        kind, meaning = lookup(token)
        unit = (kind == "frac" or token == r"\mu") and is_words(skip(behind, math))
        return (math or glued) and not unit and (kind in VALUES or meaning in DENIALS)
    if token.isalnum() and token not in RAISED:
        harmless = len(token) > 1 or not is_letter(token, math) or _names_unit(token) or behind[:1] == ["^"]  # of x^3
        return ((math or glued) and (token.isdecimal() or not harmless)) or (math and is_product(token))
    if token == "_":
        return math and not "".join(behind[:1]).isdigit()  # a base
    if token == "^":
        power = "".join(behind[:6]).replace(" ", "")
        return (math or glued) and (_HARMLESS_POWER.match(power) is None or _ORDINAL.match(_line(rest)) is not None)
    if token == "(":
        return (math or glued) and _multiplies(rest, crossed, math)
    if token == "!":
        return math or (glued and is_operand(behind))
    return token in FIRM or (token in SIGNS and ((math and token != "/") or is_operand(behind)))


def _multiplies(rest: list[str], crossed: list[str], math: bool) -> bool:
    """Whether the parenthesis that opens here is a factor, or what comes after a remark in it goes on."""
    size = bracket(rest)
    if _is_remark(rest[1 : size - 1] if size else rest[1:], bool(crossed) and all(map(_is_space, crossed))):
        return bool(size) and follows(rest[size:], math)
    return is_operand(rest[1:])


def _is_space(token: str) -> bool:
    return token.isspace() or token in (r"\ ", r"\;", "~", "&")


def _is_across(token: str, behind: list[str]) -> bool:
    """Whether an operator that begins a cell goes on with the cell before; a minus may begin an equation: `& -y = 3`."""
    if token == "-":
        row = behind[: behind.index("\\\\")] if "\\\\" in behind else behind
        return "=" not in row
    return token in SIGNS | FIRM or lookup(token)[0] in ACROSS


def _is_remark(tokens: list[str], spaced: bool) -> bool:
    """Whether a parenthesis holds a condition, a choice, a unit or, after a space, the number of an equation: no factor."""
    printed = [token for token in tokens if not is_blank(token)]
    if any(token in "<>=" or lookup(token)[0] in ("rel", "<", ">") for token in printed):
        return True
    if len(printed) != 1:
        return False
    return printed[0] in "ABCDEFGH" or _names_unit(printed[0]) or (spaced and printed[0].isdecimal())


def _names_unit(word: str) -> bool:
    return word in ("C", "F") or known_unit(word) is not None


def _line(tokens: list[str]) -> str:
    return "".join(f"{token} " for token in tokens[:_MOST_TOKENS] if not is_blank(token))


def _past_unit(right: list[str], math: bool) -> tuple[list[str], bool]:
    """Return the tokens after the units of a formula, and whether the last of them has a power."""
    named = False
    while math and right:
        words = is_words(right)
        unit = _UNIT.match(_line(right))
        if (
            unit
            and (named or not unit["per"])
            and all(_names_unit(name) for name in unit.group("over", "under", "each") if name)
        ):
            for _ in range(unit.group().count(" ")):
                right = skip(right, math)[1:]
            right = skip(right, math)
        elif words or right[0] in (r"\%", "%"):
            size = right.index("}") if words and "}" in right else 0
            said = "".join(right[1:size]).strip().lower() if words else ""
            if _SAID_AFTER.match(said) or (words and NUMERAL.fullmatch(said)):
                return ["!"], False
            if _REMARK.match(said):
                return [], False
            right = skip(right[size + 1 :], math)
        else:
            break
        named = True
        if right[:1] == ["^"]:
            return right, True
        if right and lookup(right[0])[0] == "*" and is_words(skip(right[1:], math)):
            right = skip(right[1:], math)
    return right, False


def _times(right: list[str]) -> bool:
    r"""Whether a star outside a formula multiplies: `\boxed{5}*2` and `\boxed{5} * 2`, not `*\boxed{5}* 2`."""
    spaced = right[:1] == [" "]
    rest = right[1:] if spaced else right
    return rest[:1] == ["*"] and (rest[1:2] == [" "]) is spaced and is_operand(rest[1:])
