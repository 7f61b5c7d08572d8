r"""Refuses numbers, expressions and equations that are copied from the question.

Examples: `0.\overline5` if the question asks to write this number as a fraction; `x + 0y` if the answer is x; `h(10) = 1` if
the question states this equation and asks for something else.
"""

from __future__ import annotations

import re

from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.names import is_name
from verigym.envs.math.judging.question import MAX_CHARS, formulas
from verigym.envs.math.judging.shapes import is_literal, shape
from verigym.envs.math.tree import Constant, Div, Neg, Node, Number, Percent, Quantity, Relation, Symbol, walk

_CONVERSION = re.compile(
    r"\b(?:express|write|written|rewrite|convert|change|represent)\b.{0,200}?\b(?:as|to|in|into)\b.{0,60}?\b(?:fraction|decimal|"
    r"mixed number|improper|percent|percentage|scientific notation|standard (?:form|notation)|radians?|degrees?|lowest terms|"
    r"simplest (?:form|terms)|power)",
    re.IGNORECASE | re.DOTALL,
)


def is_copied(question: str, gold: Node, answer: Node) -> bool:
    """Return whether `answer`, which equals `gold`, is a number, computation or equation copied from the question."""
    if not question or gold == answer:
        return False
    if isinstance(answer, Relation):
        return _is_given(question, gold, answer)
    if isinstance(gold, Symbol):
        return shape(answer) == gold  # x + 0y for x: it may be the question's, and nobody's answer
    return is_literal(answer) and _is_unconverted(question, gold, answer)


def _is_given(question: str, gold: Node, answer: Relation) -> bool:
    """Return whether the answer is an equation that the question states, about something that it does not ask for."""
    if any(isinstance(part, Relation) for part in walk(gold)):
        return False
    stated = formulas(question)
    named = [side for side in answer.sides if is_name(side)]
    return shape(answer) in stated.equations and not any(shape(side) in stated.alone for side in named)


def _is_unconverted(question: str, gold: Node, answer: Node) -> bool:
    """Return whether the answer is a number in the question's form, although another form is asked."""
    if not _differs(gold, answer) or not _CONVERSION.search(question[:MAX_CHARS]):
        return False
    literals = formulas(question).literals
    return answer in literals or (isinstance(answer, Quantity) and answer.value in literals)


def _differs(gold: Node, answer: Node) -> bool:
    match answer:
        case Quantity(_, "degree"):
            return any(part == Constant("pi") for part in walk(gold))
        case Quantity():
            return False
        case Percent(of):
            return not isinstance(gold, Percent) and rational(gold) != rational(of)
    return _form(gold) != _form(answer)


def _form(node: Node) -> str:
    match node:
        case Neg(of) | Quantity(of, _):
            return _form(of)
        case Number(_, _, style):
            return style
        case Div():
            return "fraction"
    return type(node).__name__
