r"""Decides whether the tokens beside a box make it a part of something larger: `precedes` (left) and `follows` (right).

Relations, words, punctuation, units, conditions and labels may stand beside a whole answer. Operators, factors, digits and
functions make the box a part of a larger expression. A denial before the box, such as `x \ne`, is treated in the same way.
Outside a formula, a sign is an operator only if it is written like one: `- \boxed{5}` is an item of a list, and `\boxed{5}!` is
an exclamation.
"""

from __future__ import annotations

import re
import string

from verigym.envs.latex.commands import BOX_COMMANDS, COMMANDS, TEXT_COMMANDS, UNPRINTED_ARGUMENT, UNPRINTED_COMMANDS
from verigym.envs.latex.units import known_unit
from verigym.envs.latex.vocabulary import FUNCTIONS
from verigym.envs.latex.vocabulary import is_product as is_letter_product

GROUPED = frozenset(r"^ _ \frac \dfrac \tfrac \cfrac \sfrac \sqrt \binom \dbinom \tbinom".split())
"""Commands and signs whose following braces hold an argument."""
WRAPPING = GROUPED | frozenset(r"\overline \bar \cancel \bcancel \xcancel \sout \st \phantom \hphantom \vphantom".split())
"""Commands that change the value of a box inside their braces, or hide it or strike it out."""

VALUES = frozenset("* / ± sym const frac sqrt cbrt root binom over func big setop not ⌊ lbar".split())
_BEFORE = VALUES | {"<", ">", "⌋", "rbar", "mod"}
DENIALS = frozenset(("!=", "notin"))
SIGNS = frozenset("+-*/\u2212\u2217")
DASHES = frozenset("\u2010\u2011\u2012\u2013\ufe63\uff0d")
"""Minus signs in a formula, dashes in words."""
RAISED = frozenset("\u00b2\u00b3\u00b9\u2070\u2074\u2075\u2076\u2077\u2078\u2079")
FIRM = RAISED | frozenset("^\u00d7\u00b7\u22c5\u00f7\u00b1\u2213\u221a\u221b\u2211\u220f\u222b\u00ac\u2260")
_BLANK = (UNPRINTED_COMMANDS - BOX_COMMANDS - {"because", "therefore"}) | frozenset("mathbf boldsymbol bm pmb".split())
_SPACES = frozenset((r"\,", r"\;", r"\:", r"\!", r"\ ", r"\/", "~", "&"))
_COLORS = frozenset("color textcolor colorbox".split())
_GAPS = frozenset((r"\quad", r"\qquad"))
ACROSS = frozenset("* / ± < > mod".split())
"""Kinds of operators that connect with a box even from the next table cell or across a wide space. From there, a number or a
letter does not connect with the box as a factor."""
DELIMITERS = frozenset(("$", r"\(", r"\)"))
_EMPHASIS = frozenset("*_`\"'")
NUMERAL = re.compile(r"[0-9]++(?:[.,][0-9]++)*")
_NO_FACTORS = frozenset(
    "is of if no an be we by it at to so us my he or as in on do up am pm st nd rd th sq cu vs ie eg ok".split()
)
_OPERATOR_WORDS_BEFORE = re.compile(
    r"(?:(?<![A-Za-z])(?:minus|negative|plus|times|twice|not|half of|root of)|^[-+\u2212\u2013])\Z"
)


def skip(tokens: list[str], math: bool) -> list[str]:
    """Return `tokens` without the leading tokens that print nothing.

    Outside a formula (`math` is False), leading emphasis marks such as `*` are skipped too.
    """
    for place, token in enumerate(tokens):
        if not is_blank(token) and (math or token not in _EMPHASIS):
            return tokens[place:]
    return []


def is_blank(token: str) -> bool:
    """Return whether a token prints nothing."""
    return token.isspace() or token in _SPACES or (token[0] == "\\" and token[1:] in _BLANK)


def back(left: list[str], math: bool) -> list[str]:
    r"""Return `left`, the tokens left of a box in leftward order, without the first tokens that print nothing."""
    rest = skip(left, math)
    while rest and (rest[0] in _GAPS or rest[0] == "}"):
        command, beyond = ("quad", rest[1:]) if rest[0] in _GAPS else _argument(rest)
        if command not in UNPRINTED_ARGUMENT and command != "quad":
            break
        rest = skip(beyond, math)
    return rest


def _argument(rest: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command whose argument ends here, and the tokens to its left."""
    command, beyond = owner(rest[bracket(rest) - 1 :]) if bracket(rest) else ("", [])
    return command[1:], beyond


def _inside(left: list[str], math: bool) -> list[str]:
    """Return the tokens leftwards from the first one that prints something, inside braces or not: `{-}` is `-`."""
    rest = back(left, math)
    while rest[:1] == ["}"] and (not (size := bracket(rest)) or owner(rest[size - 1 :])[0][1:] in ("", *_BLANK)):
        rest = back(rest[2:] if rest[1:2] == ["{"] else rest[1:], math)
    return rest


def owner(left: list[str]) -> tuple[str, list[str]]:
    r"""Return the command to whose argument an open bracket belongs, and the tokens left of the command.

    `left` holds the bracket and the tokens left of it, in leftward order. If there is no such command, it is an empty string,
    and the tokens left of the bracket are returned. The last bracket of `\frac{1}{` belongs to `\frac`, that of `x^{` to `^`,
    and that of `\textcolor{red}{` to `\textcolor`.
    """
    rest = left[1:]
    while left[0] == "{" and rest and rest[0] in "}]":
        size = bracket(rest)
        if not size:
            return "", left[1:]
        rest = rest[size:]
    if left[0] == "{" and rest and (rest[0] in "^_" or (rest[0][0] == "\\" and rest[0][1:].isalpha())):
        return rest[0], rest[1:]
    return "", left[1:]


def bracket(tokens: list[str]) -> int:
    """Return the length in tokens of the bracketed group that begins with `tokens[0]`, or 0 if the group is incomplete.

    If `tokens` are read leftwards, `tokens[0]` is the closing bracket.
    """
    mate, depth = {"}": "{", "]": "[", ")": "(", "{": "}", "(": ")"}[tokens[0]], 0
    for place, token in enumerate(tokens):
        depth += (token == tokens[0]) - (token == mate)
        if depth == 0:
            return place + 1
    return 0


def lookup(token: str) -> tuple[str, str]:
    r"""Return the kind and the meaning of a LaTeX command, as in `latex.commands.COMMANDS`; (" ", " ") for any other token.

    For example, `\leq` is a relation (`rel`) that means `<=`.
    """
    return COMMANDS.get(token[1:], (" ", " ")) if token[:1] == "\\" else (" ", " ")


def is_letter(token: str, math: bool) -> bool:
    """Return whether `token` is a letter that stands for a number. Accented letters and other scripts count as words."""
    return token in string.ascii_letters or (math and ("\u0370" <= token <= "\u03ff" or "\U0001d400" <= token <= "\U0001d7cb"))


def is_product(token: str) -> bool:
    """Return whether `token`, a run of letters such as `xy` or `cos`, is a product, function or constant.

    Otherwise it is a word or a unit.
    """
    if not (token.isascii() and token.isalpha() and token.islower()) or token in _NO_FACTORS or known_unit(token):
        return False
    return token in FUNCTIONS or len(token) == 2 or (len(token) == 3 and is_letter_product(token))


def is_operand(tokens: list[str]) -> bool:
    """Return whether `tokens` begins with a number, a letter or a group, after at most one blank."""
    rest = tokens[1:] if tokens[:1] == [" "] else tokens
    if not rest:
        return False
    letter = len(rest[0]) == 1 and is_letter(rest[0], True)
    return rest[0].isdecimal() or letter or rest[0] in "(){}" or lookup(rest[0])[0] in VALUES or rest[0][1:] in BOX_COMMANDS


def is_words(tokens: list[str]) -> bool:
    r"""Return whether `tokens` begins with a command whose argument is words, such as `\text`."""
    return bool(tokens) and tokens[0][0] == "\\" and tokens[0][1:] in TEXT_COMMANDS


def breaks(tokens: list[str], rest: list[str]) -> bool:
    """Return whether a line break stands in the first part of `tokens`; `rest` is the remaining part of them."""
    return any("\n" in token for token in tokens[: len(tokens) - len(rest)])


def precedes(left: list[str], math: bool) -> bool:
    """Return whether the tokens left of a box, given in leftward order, take the box as their operand."""
    rest = _inside(left, math)
    if not rest or (not math and breaks(left, rest)):
        return False
    token, behind, glued = rest[0], rest[1:], len(rest) == len(left)
    crossed = left[: len(left) - len(rest)]
    token = "-" if math and token in DASHES else token
    if math and _is_wide(crossed) and not (token in SIGNS | FIRM | {"<", ">", "="} or lookup(token)[0] in ACROSS | {"rel"}):
        return token == "}" and _OPERATOR_WORDS_BEFORE.search(_words(rest)) is not None
    if token in DELIMITERS:  # the sign is in a formula of its own: `$-$\boxed{5}`
        before = skip(behind, math)
        behind = before[1:] if before[:1] and before[0] in DELIMITERS else behind
        sign = behind[0] if behind else ""
        return sign in FIRM or (sign in SIGNS and sign != "*") or lookup(sign)[0] in "*/±" or lookup(sign)[1] in DENIALS
    if token[0] == "\\":
        kind, meaning = lookup(token)
        return kind in _BEFORE or meaning in DENIALS
    if token.isalnum() and token not in RAISED:
        return (math or glued) and _is_factor(token, math)
    if token == "=":
        return behind[:1] == [r"\not"] or (behind[:1] == ["!"] and "".join(behind[1:2]).isspace())  # 3!=6 is a factorial's
    if token == "}" and _argument(rest)[0] in TEXT_COMMANDS:
        return _goes_on(_words(rest), glued)
    if token == "}":
        return (math or glued) and owner(rest[bracket(rest) - 1 :])[0] in GROUPED
    if token in FIRM:
        return math or glued or token not in RAISED  # an area may end a phrase
    if math:
        return _joins(token, behind)
    if any(token[0] in "\\}" for token in crossed):
        left = ([" "] if crossed[-1].isspace() else []) + rest
    return _is_sign(left)


def _is_factor(token: str, math: bool) -> bool:
    """Return whether digits or letters before the box are a factor or its first digits."""
    return token.isdecimal() or (len(token) == 1 and is_letter(token, math)) or (math and is_product(token))


def _goes_on(words: str, glued: bool) -> bool:
    """Return whether words before the box change its value (`minus`), or are the first digits of its number."""
    return _OPERATOR_WORDS_BEFORE.search(words) is not None or (glued and NUMERAL.fullmatch(words) is not None)


def _is_wide(crossed: list[str]) -> bool:
    r"""Whether the tokens hold the start of a cell or a wide gap between formulas; `\color{red}` is no gap."""
    return any(token == "&" or token in _GAPS or token[1:] in UNPRINTED_ARGUMENT - _COLORS for token in crossed)


def _words(rest: list[str]) -> str:
    """Return the content of the braces that end here; the tokens run leftwards."""
    return "".join(rest[1 : max(1, bracket(rest) - 1)][::-1]).strip().lower()


def in_function(left: list[str]) -> bool:
    r"""Return whether the box is an argument of a function in parentheses, as in `\gcd(\boxed{5}, 3)`."""
    depth = 0
    for place, token in enumerate(left):
        if token in DELIMITERS:
            break
        depth += (token in (")", r"\}")) - (token in ("(", r"\{"))
        if depth < 0:
            outside = skip(left[place + 1 :], True)
            if outside and lookup(outside[0])[0] == "func":
                return True
            depth = 0
    return False


def _joins(token: str, behind: list[str]) -> bool:
    """Return whether a character of a formula makes the next token its operand or factor."""
    if token in "<>":
        return behind[:1] not in (["-"], ["="], ["<"])  # no arrow
    if token == "+":  # `= +5` is 5
        return is_operand(skip(behind, True))
    if token == ")":  # `(a)` is a label
        size = bracket([token, *behind])
        return size != 3 or behind[0].isdigit()
    return token in SIGNS or token in "|!_"


def _is_sign(left: list[str]) -> bool:
    r"""Whether text ends in an operator: `2 + \boxed{5}`, `-\boxed{5}`, but neither `so - \boxed{5}` nor `**\boxed{5}**`."""
    rest = left[1:] if left[:1] == [" "] else left
    if not rest or rest[0] not in SIGNS:
        return False
    token, behind = rest[0], rest[1:]
    if behind[:1] == [token]:
        return False
    word = bool(behind) and behind[0].isalpha() and len(behind[0]) > 1
    return is_operand(behind) or (rest is left and token != "*" and not word)


_OPERATOR_WORDS_AFTER = re.compile(
    r"(?:squared|cubed|factorial|plus|minus|divided by|multiplied by|(?:st|nd|rd|th)[ -](?:root|power))(?![A-Za-z])"
)
_ORDINAL = re.compile(r"\^ (?:\\[a-z]+ )?(?:st|nd|rd|th) (?:\} )*(?:\\[a-z]+ )?(?:root|power) ")
_NAME = r"(?:\\(?:text|mathrm|mbox|textrm) )?{} (?:\}} )*(?:\^ (?:- )?[1-9] (?:\}} )*)?"
# Patterns for tokens joined by blanks, without opening braces.
_UNIT = re.compile(
    r"(?:(?:\\(?:text|mathrm) )?[kMGm] (?:\} )?)?\\Omega "
    r"|\\mu [mFAVCsSWHLlTJ] "
    rf"|\\[dt]?frac {_NAME.format('(?P<over>[A-Za-z]+)')}{_NAME.format('(?P<under>[A-Za-z]+)')}"
    rf"|(?P<per>/) {_NAME.format('(?P<each>[A-Za-z]+)')}"
)
_MOST_TOKENS = 24
_HARMLESS_POWER = re.compile(r"(?:\\(?:text|mathrm))?(?:\\circ|\\degree|\\prime|\u00b0|(?:st|nd|rd|th)(?![A-Za-z]))")
# Words that begin a remark, not a unit: `\boxed{5}\text{ if }x > 0`.
_REMARK = re.compile(r"(?:if|when|whenever|for|where|since|because|as|so|with|while|at|is|are|but|then|thus|hence)(?![A-Za-z])")


def follows(right: list[str], math: bool) -> bool:
    """Return whether the tokens right of a box continue its value, as `/2` does."""
    right = [token for token in right if token != "{"]  # braces print nothing
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
    """Return whether the parenthesis here is a factor, or the tokens after a remark in parentheses continue the value."""
    size = bracket(rest)
    if _is_remark(rest[1 : size - 1] if size else rest[1:], bool(crossed) and all(map(_is_space, crossed))):
        return bool(size) and follows(rest[size:], math)
    return is_operand(rest[1:])


def _is_space(token: str) -> bool:
    return token.isspace() or token in (r"\ ", r"\;", "~", "&")


def _is_across(token: str, behind: list[str]) -> bool:
    """Return whether an operator that begins a cell continues the previous cell; a minus may begin an equation: `& -y = 3`."""
    if token == "-":
        row = behind[: behind.index("\\\\")] if "\\\\" in behind else behind
        return "=" not in row
    return token in SIGNS | FIRM or lookup(token)[0] in ACROSS


def _is_remark(tokens: list[str], spaced: bool) -> bool:
    """Whether a parenthesis holds a condition, a choice, a unit or, after a space, an equation number, and so is no factor."""
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
    """Return the tokens after the units of a formula, and whether the last unit has an exponent."""
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
            content = "".join(right[1:size]).strip().lower() if words else ""
            if _OPERATOR_WORDS_AFTER.match(content) or (words and NUMERAL.fullmatch(content)):
                return ["!"], False
            if _REMARK.match(content):
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
