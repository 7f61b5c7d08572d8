r"""Parses an answer (LaTeX, plain text or Unicode, hostile or not) into the tree of `tree.py`.

Parsing takes linear time. Nesting, numbers and size have limits, so the result is always a tree or a `ParseError`. Conventions
are documented where they apply: numbers in `numerals.py`, words and products in `latex/vocabulary.py`, implicit multiplication
in `sums.py`, functions in `calls.py`, characters in `characters.py`.
"""

from __future__ import annotations

import re

from verigym.envs.math.numerals import han_number, literal
from verigym.envs.math.reading.atoms import Atoms
from verigym.envs.math.reading.lists import Lists
from verigym.envs.math.reading.relations import Relations
from verigym.envs.math.reading.sums import Sums
from verigym.envs.math.reading.tokens.characters import plain
from verigym.envs.math.reading.tokens.tokens import Lexer
from verigym.envs.math.tree import MAX_HEIGHT, Group, Listing, Neg, Node, ParseError, TooLarge, children

__all__ = ["MAX_CHARS", "ParseError", "TooLarge", "parse"]

MAX_CHARS = 20_000

_SHORT = re.compile(r"(-)?([0-9]{1,18}(?:\.[0-9]{1,18})?)")


class _Parser(Lists, Relations, Sums, Atoms):
    """The complete grammar."""


def parse(text: str, *, max_chars: int = MAX_CHARS, decimal_comma: bool = False) -> Node:
    """Return the tree of the answer `text`.

    Args:
        text: the answer, with or without `$...$`.
        max_chars: longer texts are refused without being read.
        decimal_comma: read a comma between two numbers without a blank (`1,22`, `1000,99`) as a decimal mark, not as a
            separator.

    Raises:
        ParseError: the text cannot be read; the message says what was found and where.
        TooLarge: the text is beyond the limits of length, nesting or digits.
    """
    short = _SHORT.fullmatch(text)
    if short is not None:
        number = literal(short.group(2))
        return Neg(number) if short.group(1) else number
    han = None if text.isascii() else han_number(text.strip(" $。."))
    if han is not None:
        return parse(han)
    if len(text) > max_chars:
        raise TooLarge(f"an answer of {len(text)} characters; at most {max_chars}")
    lexer = Lexer(plain(text), decimal_comma)
    tokens = lexer.run()
    parser = _Parser(tokens, lexer.text)
    try:
        node = parser.answer()
    except RecursionError:
        raise TooLarge("nested too deep for the stack that is left") from None
    if lexer.boxed and type(node) is Group and node.opening == "tex{":
        node = Listing(node.items)
    if len(tokens) > MAX_HEIGHT // 2:
        _measure(node)
    return node


def _measure(node: Node) -> None:
    """Refuse trees that are too high for the recursive functions on trees."""
    level, height = [node], 0
    while level:
        height += 1
        if height > MAX_HEIGHT:
            raise TooLarge(f"a tree higher than {MAX_HEIGHT} nodes")
        level = [child for parent in level for child in children(parent)]
