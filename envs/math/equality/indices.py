"""Rewrites symbols whose index is an expression (`F_{n-k-1}` in a sum over k) as unknown functions of the index."""

from __future__ import annotations

import re
from functools import partial

from verigym.envs.math.build import rebuild
from verigym.envs.math.tree import Call, Node, Number, Symbol, walk

_OPERATORS = frozenset("+-*/^")
_PARTS = re.compile(r"[0-9]+|[A-Za-z]")
MAX_INDEX_CHARS = 60


def with_indices(a: Node, b: Node) -> tuple[Node, Node]:
    """Return the trees `a` and `b` with symbols such as `F_k` rewritten as functions of the index, F(k), where necessary.

    All symbols with the same base name are rewritten if the index of one of them contains an operator, or contains the variable
    of a sum or product. Thus `F_0` is recognised as a term of the sum over `F_k`.
    """
    parts = [part for node in (a, b) for part in walk(node)]
    names = {part.name for part in parts if isinstance(part, Symbol) and "_" in part.name}
    if not names:
        return a, b
    bound = {
        part.args[1].name
        for part in parts
        if isinstance(part, Call) and part.name in ("sum", "prod") and len(part.args) == 4 and isinstance(part.args[1], Symbol)
    }
    families = {name.partition("_")[0] for name in names if _needs(_index(name), bound)}
    if not families:
        return a, b
    written = {name: Call(name.partition("_")[0] + "_", args) for name in names if (args := _arguments(name, families))}
    change = partial(_replaced, written)
    return rebuild(a, change), rebuild(b, change)


def _replaced(written: dict[str, Call], part: Node) -> Node:
    return written.get(part.name, part) if isinstance(part, Symbol) else part


def _index(name: str) -> str:
    index = name.partition("_")[2]
    return index[1:-1] if index.startswith("{") and index.endswith("}") else index


def _needs(index: str, bound: set[str]) -> bool:
    return not _OPERATORS.isdisjoint(index) or not bound.isdisjoint(_PARTS.findall(index))


def _arguments(name: str, families: set[str]) -> tuple[Node, ...]:
    """Return the index as trees: `n-1` is one, `ij` and `i,j` are two; empty where it cannot be read."""
    index = _index(name)
    if name.partition("_")[0] not in families or len(index) > MAX_INDEX_CHARS:
        return ()
    from verigym.envs.math.reading.parse import ParseError, parse

    pieces = index.split(",")
    if len(pieces) == 1 and _OPERATORS.isdisjoint(index):
        pieces = _PARTS.findall(index)
        if "".join(pieces) != index:
            return ()
    try:
        trees = tuple(parse(piece) for piece in pieces)
    except ParseError:
        return ()
    return trees if all(not isinstance(one, Number) or one.decimals == 0 for one in trees) else ()
