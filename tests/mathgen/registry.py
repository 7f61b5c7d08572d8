"""The table of generators, and what most of them ask first."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from mathgen.text import shell, split_top, tokens

Generator = Callable[[str, str, random.Random], str | None]
"""From a gold, its question and a source of random numbers to another text; None where it does not apply."""


class Registry(dict[str, Generator]):
    """Generators by name, in the order of their definition."""

    def __call__(self, generator: Generator) -> Generator:
        """Enter a generator under its function's name: a decorator."""
        self[generator.__name__] = generator
        return generator


def pure(text: str) -> str | None:
    """Return the formula without its outer dollar signs; None where words and formulas alternate."""
    body = shell(text)
    return None if re.search(r"(?<!\\)\$", body) else body


_STOP = frozenset((r"\sum", r"\prod", r"\int", r"\lim", r"\pm", r"\mp", r"\ldots", r"\cdots", r"\dots", "|", ":", "&", r"\mid"))
_NO_TERM = frozenset(("=", "<", ">", r"\le", r"\leq", r"\ge", r"\geq", r"\in", r"\neq", r"\cup", r"\cap", ",", ";", "%", r"\%"))


def signed_terms(body: str) -> list[tuple[str, str]] | None:
    """Cut a sum into (sign, term); None where the text is no single sum or product."""
    if re.search(r"\d[eE][-+]?\d", body) or any(
        token in _STOP or token.startswith((r"\text", r"\mbox", r"\mathrm")) for token in tokens(body)
    ):
        return None
    pieces = split_top(body, ("+", "-"))
    if len(split_top(body, tuple(_NO_TERM))) > 1:
        return None
    signs: list[str] = []
    rest = body
    for piece in pieces[:-1]:
        rest = rest[len(piece) :]
        signs.append(rest[0])
        rest = rest[1:]
    terms = [piece.strip() for piece in pieces]
    if not terms[0]:
        return list(zip(signs, terms[1:], strict=True)) if all(terms[1:]) else None
    return list(zip(["+", *signs], terms, strict=True)) if all(terms) else None


def joined(terms: list[tuple[str, str]]) -> str:
    """Write signed terms as a sum."""
    out = "".join(f" {sign} {term}" for sign, term in terms).strip()
    return out[1:].lstrip() if out.startswith("+") else re.sub(r"^- ", "-", out)
