r"""Finds a second answer beside a box: `\boxed{6} or 7`, `either 7 or \boxed{6}`, `$x = 7$ or $x = \boxed{6}$`.

Only a number or a formula that directly follows or precedes the box counts, and only if nothing is said of it: in
`\boxed{6} or 600 cm` and `and $n = \boxed{6}$` nothing is offered beside the box.
"""

from __future__ import annotations

import re
from typing import Literal

from verigym.envs.extraction.boxes import Box, BoxRow

_REACH = 120
_NOISE = r"(?:[ \t$*~]|\\[()\[\],;:! ])"
_NAME = r"[A-Za-z](?:_[0-9]|_\{[0-9]\})?"
_END = r"(?=[ \t$*)}\]\\]{0,8}(?:[.,;:!?)]|\n|\Z))"
_VALUE = rf"(?:{_NAME} ?= ?)?(?:[-+]?\\?[$]?[0-9][0-9.,/]{{0,20}}(?<![.,])|[-+]?\\[dt]?(?:frac|sqrt|pi)[^$\n.,;=]{{0,40}})"
_DOUBTS = r"(?:maybe|perhaps|possibly|probably|else|even|also|alternatively)"
_CHOICE = re.compile(r"(?:\\(?:text|textbf|mathrm)\{)?\(?[A-H]\)?\}?")
_JOIN = r"(?:[Oo]r|and|\\text ?\{ ?(?:or|and) ?\})"
_RIGHT = re.compile(
    rf"{_NOISE}{{0,8}}(?:[.,;(]?{_NOISE}{{0,8}}(?P<join>{_JOIN})|,)"
    rf"{_NOISE}{{0,8}}(?:{_DOUBTS}[ ,]{{1,3}}){{0,3}}{_NOISE}{{0,8}}(?P<value>{_VALUE}){_END}"
)
_LEFT = re.compile(
    rf"(?:(?:\n|\b(?:[Ee]ither|[Aa]nswer is:?|(?:[Tt]hus|[Hh]ence|[Ss]o|[Tt]herefore),?)(?=[ $]))"
    rf"{_NOISE}{{0,8}}(?P<one>{_VALUE})"
    rf"{_NOISE}{{0,8}},?{_NOISE}{{0,8}}(?P<or>or)"
    rf"|\b(?:answers|solutions)(?: for {_NAME}| of the equation)? are:?{_NOISE}{{1,8}}(?P<two>{_VALUE})"
    rf"{_NOISE}{{0,8}},?{_NOISE}{{0,8}}and"
    rf"|(?:^|[\s$(\[])(?P<three>(?P<name>{_NAME}) ?= ?[-+]?[0-9.]{{1,20}}){_NOISE}{{0,8}},?{_NOISE}{{0,8}}(?P<join>{_JOIN})"
    rf"{_NOISE}{{0,8}}(?P=name) ?=){_NOISE}{{0,8}}(?:{_NAME} ?= ?)?\Z"
)
# All that `_LEFT` finds ends so. It looks at 120 places, and this at the few with such a word.
_JOINED = re.compile(rf"(?:[Oo]r|and)[^A-Za-z0-9]{{0,24}}(?:{_NAME} ?= ?[^A-Za-z0-9]{{0,16}}){{0,2}}\Z")
_NEAR = 72
_NAMED_BEFORE = re.compile(rf"(?<![A-Za-z\\])({_NAME}) ?= ?[ $*]{{0,4}}\Z")
_NAMED = re.compile(rf"({_NAME}) ?=")


def rivals(text: str, box: Box) -> BoxRow | None:
    """Return the row of the box and the second answer beside it; None if there is none."""
    inside = box.content(text)
    if _CHOICE.fullmatch(inside):  # `\boxed{C}, 5` and `5, or \boxed{C}` say what C stands for
        return None
    near = _JOINED.search(text[max(0, box.start - _NEAR) : box.start])
    if near and (left := _LEFT.search(("\n" if box.start <= _REACH else "") + text[max(0, box.start - _REACH) : box.start])):
        joiner: Literal["or", "and"] = "or" if left["or"] or "or" in (left["join"] or "").lower() else "and"
        return BoxRow((left["one"] or left["two"] or left["three"], inside), joiner, False, box, True)
    right = _RIGHT.match(text, box.after, box.after + _REACH)
    if right is None:
        return None
    names = _NAMED_BEFORE.search(text[max(0, box.start - _NEAR) : box.start]), _NAMED.match(right["value"])
    if names[0] and names[1] and names[0][1] != names[1][1]:  # `x = \boxed{6}, y = 7`: another unknown
        return None
    return BoxRow((inside, right["value"]), "and" if "and" in (right["join"] or "").lower() else "or", False, box, True)
