r"""Recognises names of results, which claim no value: the left sides of `x = 5`, `f(2) = 5`, `|AB| = 5`, `(p,q) = (3,2)`.

A negative, power, root or modulus of a letter is a name only if the question asks for it, as a formula or in words: `-x = 5`
does not say 5, nor does `x^2 = 5` if the question states that x^2 = 25; `|z| = 5` says the modulus of z.
"""

from __future__ import annotations

import re

from verigym.envs.math.build import mul
from verigym.envs.math.judging.quantities.measures import counts_things
from verigym.envs.math.judging.question import MAX_CHARS, asks, mentions, speaks_of
from verigym.envs.math.judging.texts import names_something
from verigym.envs.math.tree import (
    FUNCTIONS,
    Add,
    Call,
    Constant,
    Div,
    Group,
    Listing,
    Mul,
    Neg,
    Node,
    Number,
    Phrase,
    Pow,
    Quantity,
    Relation,
    Root,
    Symbol,
    Text,
    symbols,
    walk,
)  # fmt: skip

_CALLED = {
    name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for name, words in {
        "abs": "modulus|absolute value|magnitude",
        "norm": "norm|magnitude|length",
        "conj": "conjugate",
        "re": "real part",
        "im": "imaginary part",
    }.items()
}
_EXTREMES = {"min": r"\b(?:minim|least|smallest|lowest)", "max": r"\b(?:maxim|greatest|largest|highest|most\b)"}
_INVERSE = re.compile(r"\binverse\b", re.IGNORECASE)
_BENT = frozenset("abs norm floor ceil factorial doublefactorial exp ln log conj sign re im".split())


def is_name(node: Node, question: str = "") -> bool:
    """Return whether `node`, a side of an equation, only names the result. An expression asked for in `question` is a name."""
    if node == Constant("e"):  # the eccentricity, if it stands alone
        return True
    match node:
        case Call("abs", (Symbol(letter),)) if len(letter) == 1 and letter.isupper() and not asks(question, node):
            return not speaks_of(question, letter) or counts_things(question)  # |S|, the size of a set: no modulus of a number
        case Text("min" | "max" as short):  # \min = 5
            return not question or re.search(_EXTREMES[short], question[:MAX_CHARS], re.IGNORECASE) is not None
        case Mul((Symbol(operator), *factors)) if operator.startswith("d/d") and question:  # what is to be differentiated
            return mentions(question, mul(factors))
        case Call("integral" | "diff", (body, Symbol(), *_)) if question and mentions(question, body):
            return True
    return _is_name(node, question) or (bool(question) and bool(symbols(node)) and asks(question, node))


def _is_name(node: Node, question: str) -> bool:
    match node:
        case Symbol(name):
            base = name.split("_")[0]
            return len(base) < 3 or base.isupper() or names_something(base)
        case Text(words):
            return names_something(words) or (words.isupper() and len(words) == 2)  # the length NO
        case Call(name, _) if name not in FUNCTIONS:
            return True
        case Call(name, (Symbol(inner),)) if name in ("abs", "norm") and len(inner) > 1 and inner[0].isupper():
            return True
        case Call(name, _) if name not in _BENT:
            return bool(symbols(node)) and not any(isinstance(part, Number) for part in walk(node))
        case Div() | Add() if sum(isinstance(part, Symbol) for part in walk(node)) > len(symbols(node)):
            return False  # a/a and a - a have values
        case Div(top, bottom):
            return _is_name(top, question) and _is_name(bottom, question)
        case Mul(parts) | Relation(parts, _) | Group(_, _, parts) | Listing(parts, _) | Phrase(parts):
            return all(_is_name(part, question) for part in parts)
        case Add(terms):
            return _is_name(terms[0], question) and all(
                _is_name(term.of if isinstance(term, Neg) else term, question) for term in terms
            )
        case Quantity(value, "degree"):  # \angle A^\circ
            return _is_name(value, question)
        case Neg() | Pow() | Root() | Call():
            return bool(question) and bool(symbols(node)) and (asks(question, node) or _is_called(node, question))
    return False


def _is_called(node: Node, question: str) -> bool:
    """Return whether the question has a word for an operation on a letter: the modulus of z, the inverse of A."""
    match node:
        case Call(name, (Symbol(),)) if name in _CALLED:
            return _CALLED[name].search(question[:MAX_CHARS]) is not None
        case Pow(Symbol(), Neg(Number(1))):
            return _INVERSE.search(question[:MAX_CHARS]) is not None
    return False


def split_names(sides: tuple[Node, ...], question: str = "") -> tuple[Node | None, tuple[Node, ...]]:
    """Split the sides of an equation into a name at the start or end, and the sides that claim a value.

    Args:
        sides: the sides from left to right, at least one.
        question: the task's text, which may ask for an expression that then counts as a name.

    Returns:
        The name, or None if there is none, and the other sides.
    """
    if isinstance(sides[0], Symbol) and any(sides[0].name in symbols(side) for side in sides[1:]):
        return None, sides  # x = x + 3 - x says nothing of x
    if len(sides) > 1 and is_name(sides[0], question):
        return sides[0], sides[1:]
    right = sides[-1]
    named = isinstance(right, Symbol) or (isinstance(right, Call) and right.name not in FUNCTIONS)
    if len(sides) == 2 and named and not is_name(sides[0], question):
        return sides[1], sides[:1]
    return None, sides


def is_function_name(one: Node, two: Node) -> bool:
    """Return whether one of the names is `y` and the other is `f(x)`, since both may name a function of x."""
    return {type(one), type(two)} == {Symbol, Call} and all(
        node == Symbol("y") or (isinstance(node, Call) and node.args == (Symbol("x"),) and node.name not in FUNCTIONS)
        for node in (one, two)
    )


def renaming(gold: Node, answer: Node) -> dict[Node, Node]:
    """Return the replacements that turn the name `answer`, such as `f(t)`, into the name `gold`, such as `f(x)`: {t: x}.

    The result is empty if the two names are not calls of the same unknown function.
    """
    if not (isinstance(gold, Call) and isinstance(answer, Call)) or gold.name != answer.name or gold.name in FUNCTIONS:
        return {}
    alike = len(gold.args) == len(answer.args) == len(set(gold.args)) == len(set(answer.args))
    if not alike or not all(isinstance(arg, Symbol) for arg in (*gold.args, *answer.args)):
        return {}
    return dict(zip(answer.args, gold.args, strict=True))
