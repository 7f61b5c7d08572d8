r"""What an answer must look like before a computer algebra system compares it with the gold.

Math-Verify takes the last side of `4=5`, drops the words of `3 \text{ (or maybe 4)}` and the base of `204_5`. So an answer must
make one claim, of the shape of the gold's; anything else is refused here, with the reason. What is left is split into sides
that must *all* equal the gold: `x = 2 + 3 = 5` is right for 5, `x = 4 = 5` is not.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from verigym.envs.mathtext import is_number_word

MAX_DEPTH = 40

_HARD = re.compile(r"__|`|\"|\b(?:import|lambda|eval|exec|getattr|open|os|sys)\b|[#@&]{2}|\x00")
_SOFT: tuple[tuple[str, str], ...] = (
    ("'", "a quote"), ("?", "a question mark"), ("...", "an ellipsis"), (r"\ldots", "an ellipsis"),
    (r"\cdots", "an ellipsis"), (r"\dots", "an ellipsis"), (r"\forall", "a quantifier"), (r"\exists", "a quantifier"),
    (r"\approx", "an approximation"), (r"\sim", "an approximation"), (r"\cong", "a congruence"), (r"\equiv", "a congruence"),
    (r"\iff", "an implication"), (r"\implies", "an implication"), (r"arrow", "an arrow"), (r"\to ", "an arrow"),
    (r"\lor", "an alternative"), (r"\vee", "an alternative"), (r"\pm", r"\pm"), (r"\mp", r"\mp"), (r"\ne ", "an exclusion"),
    (r"\not", "an exclusion"), (r"\neg", "a negation"), (r"\lnot", "a negation"),
    (r"\boxed", "a box in the box"), (r"\phantom", "invisible text"), (r"\color", "colour"),
)  # fmt: skip
_HEDGE = re.compile(
    r"(?<![\\A-Za-z])(?:maybe|perhaps|possibly|probably|either|neither|not|or|if|unless|instead|wait|unsure|guess|answers?)(?![A-Za-z])",
    re.IGNORECASE,
)
_TEXT = re.compile(r"\\text\s?\{([^{}]*+)\}")
_JOIN = re.compile(r",? ?(?:\\text\s?\{ ?,? ?(?:and|or) ?\}|(?<![\\A-Za-z])(?:and|or)(?![A-Za-z])) ?")
_INEQUALITY = re.compile(
    r"<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])|\\in(?![A-Za-z])|\\c[au]p(?![A-Za-z])|\\subset"
)
_BASE = re.compile(r"[0-9]\s?_\s?\{?\s?([0-9]++)")
_PERIPHERAL = re.compile(r"_(?:\{[^{}]*+\}|[0-9A-Za-z])|\^\s?(?:\{[^{}]*+\}|[0-9A-Za-z])|(?<=[A-Za-z])\([^()]*+\)")
_BENT = re.compile(r"\^|\||!|\\sqrt(?![A-Za-z])")
_INVERSE = re.compile(r"\^\s?\{?\s?(?:-1|\*|[cT]|\\circ|\\prime)\s?\}?")
_COLON_TIME = re.compile(r"[0-9]{1,2}:[0-9]{2}(?![0-9])")


class Shape(NamedTuple):
    """The claims an answer makes, or why it makes none that can be compared."""

    sides: tuple[str, ...] = ()
    refusal: str = ""


def split_top(text: str, separators: str = ",;") -> list[str]:
    """Split at separators outside all brackets; intervals like `[0,1)` count as brackets too."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char in separators and depth <= 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def depth_of(text: str) -> int:
    """Return how deep brackets and braces are nested."""
    depth = deepest = 0
    for char in text:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth -= 1
    return deepest


def joined(text: str) -> str:
    """Return a cleaned text with semicolons, and the `and` and `or` between elements, as commas."""
    return _JOIN.sub(", ", text.replace(";", ","))


def is_name(side: str) -> bool:
    """Whether a side of an equation only names what is asked (`x`, `f(2)`, `S_{ABC}`): letters, no value of its own."""
    bare = _PERIPHERAL.sub("", side)
    if any(is_number_word(word) for word in re.findall(r"[A-Za-z]++", bare)):
        return False
    return any(c.isalpha() for c in bare) and not any(c.isdigit() for c in bare)


def _names(side: str, question: str) -> bool:
    """Whether a side names what is asked: `-x`, `x^2` and `|x|` do only where the question speaks of them."""
    if not is_name(side):
        return False
    bent = side.startswith("-") or _BENT.search(_INVERSE.sub("", side))
    return not bent or _compact(side) in _compact(question)


def _compact(text: str) -> str:
    return re.sub(r"[\s{}]++|\\(?:left|right)(?![A-Za-z])", "", text)


def sides_of(text: str) -> list[str]:
    """Split an equation (or a chain) at its top-level equals signs."""
    return split_top(text, "=")


def elements(text: str) -> list[str]:
    """Return the elements of a list, or of a tuple or set that brackets the whole: `x = {1, 2}` and `1, 2` both have two."""
    parts = split_top(text)
    if len(parts) != 1:
        return parts
    sides = sides_of(text)
    if len(sides) == 2 and is_name(sides[0]):
        return elements(sides[1])
    inner = text.replace(r"\{", "{").replace(r"\}", "}").strip()
    if inner and inner[0] in "([{" and inner[-1] in ")]}" and _closes_at_end(inner):
        return split_top(inner[1:-1]) or [inner]
    return parts


def _braced(text: str) -> bool:
    return text.startswith("(") or text.startswith(r"\{")


def _closes_at_end(text: str) -> bool:
    depth = 0
    for index, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:
            return index == len(text) - 1
    return False


def shape(gold: str, answer: str, question: str = "") -> Shape:
    """Compare two cleaned texts by form alone: the sides of the answer to be compared with the gold, or the refusal."""
    name, mark, value = answer.partition(r"\approx")
    if mark and "=" not in answer and _names(name, question):
        answer = f"{name}={value}"
    refusal = _unsafe(gold, answer) or _hedged(gold, answer)
    if refusal:
        return Shape(refusal=refusal)
    gold, answer = joined(gold), joined(answer)
    related = _INEQUALITY.search(gold)
    if not related and _INEQUALITY.search(answer) and len(elements(gold)) == 1:
        return Shape(refusal="a relation where a value is asked")
    if not (related or _INEQUALITY.search(answer) or "\\pm" in gold) and len(elements(gold)) != len(elements(answer)):
        return Shape(refusal=f"{len(elements(answer))} values where {len(elements(gold))} asked")
    return _claims(gold, answer, question)


def _unsafe(gold: str, answer: str) -> str:
    if _HARD.search(answer):
        return "program text"
    if depth_of(answer) > MAX_DEPTH:
        return f"brackets nested deeper than {MAX_DEPTH}"
    if not answer.isascii() and any(ord(char) > 127 and char not in gold for char in answer):
        return "a character that only looks like mathematics"
    if _COLON_TIME.fullmatch(gold) and not _COLON_TIME.fullmatch(answer):
        return "no time of day"
    if {gold[:1] + gold[-1:], answer[:1] + answer[-1:]} == {"()", r"\}"} and _braced(gold) and _braced(answer):
        return "a set is no tuple"
    if sorted(_BASE.findall(gold)) != sorted(_BASE.findall(answer)):
        return "another number base"
    return ""


def _hedged(gold: str, answer: str) -> str:
    for mark, name in _SOFT:
        if mark in answer and mark not in gold and not (name == "an arrow" and r"\lim" in answer):
            return f"it holds {name} that the gold has not"
    wordy = _JOIN.sub(", ", answer)
    if _HEDGE.search(wordy) and not _HEDGE.search(gold):
        return "it takes part of itself back"
    for text in _TEXT.findall(wordy):
        if any(c.isdigit() for c in text) and text not in gold:
            return "a number hidden in text"
    return ""


def _claims(gold: str, answer: str, question: str) -> Shape:
    parts, wanted = split_top(answer), gold.count("=")
    equals = answer.count("=")
    if len(parts) == 1 and equals and not wanted:
        sides = sides_of(answer)
        if len(sides) != equals + 1:
            return Shape(refusal="an equals sign inside brackets")
        values = sides[1:] if len(sides) > 1 and _names(sides[0], question) and not _bare_name(gold) else sides
        return Shape(tuple(values))
    for part in parts:
        sides = sides_of(part)
        if len(sides) > 2 and len(sides) > max(len(sides_of(other)) for other in split_top(gold)):
            return Shape(refusal="a chain of equals signs")
        if len(sides) == 2 and not wanted and not _names(sides[0], question):
            return Shape(refusal="an equation where a value is asked")
    return Shape((answer,))


def _bare_name(gold: str) -> bool:
    return re.fullmatch(r"\\?[A-Za-z]+", _TEXT.sub(r"\1", gold).strip()) is not None
