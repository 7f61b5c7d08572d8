r"""What may stand on either side of a whole answer, token by token: relations, words, punctuation, delimiters; here the left.

Operators, factors, digits and functions make it a part of something else, and so does a denial (`x \ne`). Outside a formula
a sign is an operator only where it is written like one: `- \boxed{5}` is an item of a list, `\boxed{5}!` an exclamation.
"""

from __future__ import annotations

import re
import string

from verigym.envs.latex.commands import BOXES, COMMANDS, SILENT, SKIPPED_ARGUMENT, TEXT
from verigym.envs.latex.units import known_unit
from verigym.envs.latex.words import FUNCTIONS
from verigym.envs.latex.words import is_product as in_steps

GROUPED = frozenset(r"^ _ \frac \dfrac \tfrac \cfrac \sfrac \sqrt \binom \dbinom \tbinom".split())
"""Whatever stands in braces after one of these is an argument."""
WRAPPING = GROUPED | frozenset(r"\overline \bar \cancel \bcancel \xcancel \sout \st \phantom \hphantom \vphantom".split())
"""Those, and what strikes out, hides or changes a box in its braces, though it is no factor of a box that it precedes."""

VALUES = frozenset("* / ± sym const frac sqrt cbrt root binom over func big setop not ⌊ lbar".split())
_BEFORE = VALUES | {"<", ">", "⌋", "rbar", "mod"}
DENIALS = frozenset(("!=", "notin"))
SIGNS = frozenset("+-*/\u2212\u2217")
DASHES = frozenset("\u2010\u2011\u2012\u2013\ufe63\uff0d")
"""Minus signs in a formula, dashes in words."""
RAISED = frozenset("\u00b2\u00b3\u00b9\u2070\u2074\u2075\u2076\u2077\u2078\u2079")
FIRM = RAISED | frozenset("^\u00d7\u00b7\u22c5\u00f7\u00b1\u2213\u221a\u221b\u2211\u220f\u222b\u00ac\u2260")
_BLANK = (SILENT - BOXES - {"because", "therefore"}) | frozenset("mathbf boldsymbol bm pmb".split())
_SPACES = frozenset((r"\,", r"\;", r"\:", r"\!", r"\ ", r"\/", "~", "&"))
_COLORS = frozenset("color textcolor colorbox".split())
_GAPS = frozenset((r"\quad", r"\qquad"))
ACROSS = frozenset("* / ± < > mod".split())
"""What reaches into the next cell or over a wide gap; a value does not."""
DELIMITERS = frozenset(("$", r"\(", r"\)"))
_EMPHASIS = frozenset("*_`\"'")
NUMERAL = re.compile(r"[0-9]++(?:[.,][0-9]++)*")
_NO_FACTORS = frozenset(
    "is of if no an be we by it at to so us my he or as in on do up am pm st nd rd th sq cu vs ie eg ok".split()
)
_SAID_BEFORE = re.compile(r"(?:(?<![A-Za-z])(?:minus|negative|plus|times|twice|not|half of|root of)|^[-+\u2212\u2013])\Z")


def skip(tokens: list[str], math: bool) -> list[str]:
    """Return the tokens from the first that prints something; outside a formula emphasis is not looked at."""
    for place, token in enumerate(tokens):
        if not is_blank(token) and (math or token not in _EMPHASIS):
            return tokens[place:]
    return []


def is_blank(token: str) -> bool:
    """Whether a token prints nothing."""
    return token.isspace() or token in _SPACES or (token[0] == "\\" and token[1:] in _BLANK)


def back(left: list[str], math: bool) -> list[str]:
    r"""Return the tokens leftwards from the first that prints something, `\color{red}`, `\quad` and `\hspace{1em}` left out."""
    rest = skip(left, math)
    while rest and (rest[0] in _GAPS or rest[0] == "}"):
        command, beyond = ("quad", rest[1:]) if rest[0] in _GAPS else _argument(rest)
        if command not in SKIPPED_ARGUMENT and command != "quad":
            break
        rest = skip(beyond, math)
    return rest


def _argument(rest: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command whose argument ends here, and the tokens beyond it; both run leftwards."""
    command, beyond = owner(rest[bracket(rest) - 1 :]) if bracket(rest) else ("", [])
    return command[1:], beyond


def _inside(left: list[str], math: bool) -> list[str]:
    """Return the tokens leftwards from the first that prints something, in braces or not: `{-}` is `-`."""
    rest = back(left, math)
    while rest[:1] == ["}"] and (not (size := bracket(rest)) or owner(rest[size - 1 :])[0][1:] in ("", *_BLANK)):
        rest = back(rest[2:] if rest[1:2] == ["{"] else rest[1:], math)
    return rest


def owner(left: list[str]) -> tuple[str, list[str]]:
    r"""Return the command whose argument an open bracket begins, and the tokens beyond; both run leftwards.

    `{` of `\frac{1}{` belongs to `\frac`, that of `x^{` to `^`, that of `\textcolor{red}{` to `\textcolor`.
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
    """Return how many tokens the bracket takes that the first of them closes (leftwards) or opens; 0 if it is cut off."""
    mate, depth = {"}": "{", "]": "[", ")": "(", "{": "}", "(": ")"}[tokens[0]], 0
    for place, token in enumerate(tokens):
        depth += (token == tokens[0]) - (token == mate)
        if depth == 0:
            return place + 1
    return 0


def lookup(token: str) -> tuple[str, str]:
    """Return the kind and the meaning of a command; blanks for any other token."""
    return COMMANDS.get(token[1:], (" ", " ")) if token[:1] == "\\" else (" ", " ")


def is_letter(token: str, math: bool) -> bool:
    """Whether a letter stands for a number; those of other scripts, and accented ones, are words."""
    return token in string.ascii_letters or (math and ("\u0370" <= token <= "\u03ff" or "\U0001d400" <= token <= "\U0001d7cb"))


def is_product(token: str) -> bool:
    """Whether letters in a row are a product of variables, a function or a constant, and no word and no unit: `xy`, `cos`."""
    if not (token.isascii() and token.isalpha() and token.islower()) or token in _NO_FACTORS or known_unit(token):
        return False
    return token in FUNCTIONS or len(token) == 2 or (len(token) == 3 and in_steps(token))


def is_operand(tokens: list[str]) -> bool:
    """Whether a number, a letter or a group comes next, after a blank or none."""
    rest = tokens[1:] if tokens[:1] == [" "] else tokens
    if not rest:
        return False
    letter = len(rest[0]) == 1 and is_letter(rest[0], True)
    return rest[0].isdecimal() or letter or rest[0] in "(){}" or lookup(rest[0])[0] in VALUES or rest[0][1:] in BOXES


def is_words(tokens: list[str]) -> bool:
    r"""Whether the argument of a `\text` or the like comes next."""
    return bool(tokens) and tokens[0][0] == "\\" and tokens[0][1:] in TEXT


def breaks(tokens: list[str], rest: list[str]) -> bool:
    """Whether a line ends between the tokens and the rest of them."""
    return any("\n" in token for token in tokens[: len(tokens) - len(rest)])


def precedes(left: list[str], math: bool) -> bool:
    """Whether what stands to the left takes the box as its operand; the tokens run leftwards."""
    rest = _inside(left, math)
    if not rest or (not math and breaks(left, rest)):
        return False
    token, behind, glued = rest[0], rest[1:], len(rest) == len(left)
    crossed = left[: len(left) - len(rest)]
    token = "-" if math and token in DASHES else token
    if math and _is_wide(crossed) and not (token in SIGNS | FIRM | {"<", ">", "="} or lookup(token)[0] in ACROSS | {"rel"}):
        return token == "}" and _SAID_BEFORE.search(_words(rest)) is not None
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
    if token == "}" and _argument(rest)[0] in TEXT:
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
    """Whether digits or letters before the box multiply it or are its first digits."""
    return token.isdecimal() or (len(token) == 1 and is_letter(token, math)) or (math and is_product(token))


def _goes_on(said: str, glued: bool) -> bool:
    """Whether words before the box change it, or are the first digits of a number."""
    return _SAID_BEFORE.search(said) is not None or (glued and NUMERAL.fullmatch(said) is not None)


def _is_wide(crossed: list[str]) -> bool:
    r"""Whether a new cell, or a gap that sets formulas apart, lies between; `\color{red}` is none."""
    return any(token == "&" or token in _GAPS or token[1:] in SKIPPED_ARGUMENT - _COLORS for token in crossed)


def _words(rest: list[str]) -> str:
    """Return what the braces hold that end here, of tokens that run leftwards."""
    return "".join(rest[1 : max(1, bracket(rest) - 1)][::-1]).strip().lower()


def in_function(left: list[str]) -> bool:
    r"""Whether a parenthesis of a function is open: `\gcd(\boxed{5}, 3)`."""
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
    """Whether a character of a formula takes what follows it as an operand or a factor."""
    if token in "<>":
        return behind[:1] not in (["-"], ["="], ["<"])  # no arrow
    if token == "+":  # `= +5` is 5
        return is_operand(skip(behind, True))
    if token == ")":  # `(a)` is a label
        size = bracket([token, *behind])
        return size != 3 or behind[0].isdigit()
    return token in SIGNS or token in "|!_"


def _is_sign(left: list[str]) -> bool:
    r"""Whether words end in an operator: `2 + \boxed{5}`, `-\boxed{5}`, but neither `so - \boxed{5}` nor `**\boxed{5}**`."""
    rest = left[1:] if left[:1] == [" "] else left
    if not rest or rest[0] not in SIGNS:
        return False
    token, behind = rest[0], rest[1:]
    if behind[:1] == [token]:
        return False
    word = bool(behind) and behind[0].isalpha() and len(behind[0]) > 1
    return is_operand(behind) or (rest is left and token != "*" and not word)
