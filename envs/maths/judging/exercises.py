r"""What a question asks to be worked out and `question.py` does not see: `17 times 23`, matrices that stand outside of `$`."""

from __future__ import annotations

import re
from functools import lru_cache

from verigym.envs.maths.judging.question import MAX_CHARS, MAX_RUN_CHARS, formulas
from verigym.envs.maths.judging.shapes import is_plain, shape
from verigym.envs.maths.reading.parse import ParseError, parse
from verigym.envs.maths.tree import (
    Add,
    Call,
    Constant,
    Div,
    Matrix,
    Mul,
    Neg,
    Node,
    Number,
    Percent,
    Pow,
    Root,
    walk,
)  # fmt: skip

MAX_FOUND = 20

_MATRIX = re.compile(rf"\\begin\{{([A-Za-z]?matrix|array)\}}.{{1,{MAX_RUN_CHARS}}}?\\end\{{\1\}}", re.DOTALL)
_NUMERAL = r"[0-9]++(?:,[0-9]{3}(?![0-9]))*+(?:\.[0-9]++)?+"
_OPERATORS = {
    "times": "*", "multiplied by": "*", "x": "*", "plus": "+", "added to": "+", "minus": "-", "less": "-",
    "divided by": "/", "over": "/", "to the power of": "^",
}  # fmt: skip
_OPERATOR = re.compile(rf" ({'|'.join(_OPERATORS)}) ")
_WORDED = re.compile(rf"(?<![0-9.,]){_NUMERAL}(?: (?:{'|'.join(_OPERATORS)}) {_NUMERAL})++")
_OF_TWO = {"product": "*", "sum": "+", "difference": "-", "quotient": "/"}
_PAIR = re.compile(rf"({'|'.join(_OF_TWO)}) (?:of|between) ({_NUMERAL}) and ({_NUMERAL})")
_ROOT = re.compile(rf"(?:square root of |sqrt ?\(?)({_NUMERAL})")
_ARITHMETIC = (Number, Constant, Add, Mul, Div, Neg, Pow, Root, Percent, Call)


@lru_cache(maxsize=256)
def matrices(question: str) -> frozenset[Node]:
    """Return the shapes of the matrices that a question shows."""
    texts = [match.group() for match in _MATRIX.finditer(question[:MAX_CHARS])][:MAX_FOUND]
    return frozenset(part for part in _shapes(texts) if isinstance(part, Matrix))


@lru_cache(maxsize=256)
def computations(question: str) -> tuple[Node, ...]:
    """Return the shapes of the expressions without variables in a question, in signs or words."""
    text = question[:MAX_CHARS].lower()
    worded = [_OPERATOR.sub(lambda match: _OPERATORS[match[1]], found) for found in _WORDED.findall(text)]
    worded += [f"{one}{_OF_TWO[name]}{two}" for name, one, two in _PAIR.findall(text)]
    worded += [rf"\sqrt{{{one}}}" for one in _ROOT.findall(text)]
    found = dict.fromkeys([*formulas(question).wholes, *_shapes(worded[:MAX_FOUND])])
    return tuple(one for one in found if is_plain(one) and all(isinstance(part, _ARITHMETIC) for part in walk(one)))


def _shapes(texts: list[str]) -> list[Node]:
    found: list[Node] = []
    for text in texts:
        try:
            found.append(shape(parse(text)))
        except ParseError:
            continue
    return found
