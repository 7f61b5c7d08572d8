r"""Takes harmless remarks off an answer: `\text{only }3`, `\text{minimum value }5`, `5\text{ at }x = 3`, `4\text{ as }x > 2`.

A remark is harmless if its words name what the question asks for, give a reason or the place of a value, or say that there is
no other. Words that doubt, deny or add anything stay, so that the answer is refused; words that announce an answer are left to
the option `labels`.
"""

from __future__ import annotations

import re

from verigym.envs.math.judging.quantities.measures import is_asked
from verigym.envs.math.judging.question import MAX_CHARS
from verigym.envs.math.judging.texts import choice_of, hedges, takes_back
from verigym.envs.math.tree import Listing, Node, Phrase, PlusMinus, Quantity, Relation, Symbol, Text, symbols, walk

_NAMED = re.compile(r"(?:the )?(?P<name>[a-z -]{4,60}?)(?: is| equals|:)?", re.IGNORECASE)
_REASON = re.compile(r"(?:since|because|as)\b", re.IGNORECASE)
# Words of a question that make another value of the number behind them.
_CHANGES = re.compile(
    r"\b(?:than|over|under|about|around|nearly|almost|minus|plus|times|double|triple|twice|squared?|cubed?|root|of|to|by|at|up|"
    r"between|from|percent|negative|opposite|reciprocal|inverse|remaining|other|another|first|second|dozens?|million|billion)\b",
    re.IGNORECASE,
)
_ORDER = frozenset(("<", "<=", ">", ">=", "!=", "in"))


def without_remarks(gold: Node, answer: Node, question: str) -> Node:
    """Return `answer` without the remarks beside its value, unless the gold has words too."""
    if not isinstance(answer, Phrase) or isinstance(gold, Phrase | Text) or choice_of(answer) is not None:
        return answer
    match answer.parts:
        case (Text(words), value) if _is_value(value) and (_is_only(words) or _names(words, question)):
            return value
        case (value, Text(words)) if _is_value(value) and _is_only(words):
            return value
        case (value, Text(words)) if _is_formula(value) and is_asked(words, question):
            return value
        case (value, Phrase((Text(words), *reasons))) | (value, Text(words), *reasons) if _is_value(value):
            words = _plain(words)
            if _REASON.match(words) and not takes_back(words) and all(map(_is_reason, reasons)):
                return value
            if words.lower() in ("at", "when") and len(reasons) == 1 and _is_place(reasons[0], value):
                return value
    return answer


def _plain(words: str) -> str:
    return words.strip(" ,.:")


def _is_only(words: str) -> bool:
    return _plain(words).lower() == "only"


def _is_value(node: Node) -> bool:
    """Return whether a node is a value or an equation, and no words or list."""
    return not any(isinstance(part, Text | Phrase | Listing | PlusMinus) for part in walk(node))


def _is_formula(node: Node) -> bool:
    return _is_value(node) and not any(isinstance(part, Relation | Quantity) for part in walk(node)) and bool(symbols(node))


def _names(words: str, question: str) -> bool:
    """Return whether words name what the question speaks of in the same words: `remainder`, `the minimum value is`."""
    match = _NAMED.fullmatch(_plain(words))
    if match is None:
        return False
    name = match["name"].strip()
    spoken = re.search(rf"\b{re.escape(name)}\b", question[:MAX_CHARS], re.IGNORECASE)
    return len(name) > 3 and spoken is not None and not hedges(name) and _CHANGES.search(name) is None


def _is_reason(node: Node) -> bool:
    """Return whether a reason only says where a name lies, or is words that take nothing back."""
    if isinstance(node, Text):
        return not takes_back(node.words)
    return isinstance(node, Relation) and _ORDER.issuperset(node.comparators) and _is_value(node)


def _is_place(node: Node, value: Node) -> bool:
    """Return whether a node says where a value is taken: `x = 3`."""
    match node:
        case Relation((Symbol(name), place), ("=",)):
            return name not in symbols(value) and _is_value(place)
    return False
