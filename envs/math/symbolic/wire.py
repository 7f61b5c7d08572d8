"""Encodes trees as JSON, to send them to the SymPy worker; format and size are checked at both ends.

A node is a list of its type's name and its fields, in order: `["Div", ["Number", "1", "1", 0, "plain"], ["Symbol", "x"]]`.
Whole numbers of any size are hexadecimal text, which converts in linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from verigym.envs.math import tree
from verigym.envs.math.tree import Node

MAX_NODES = 4_000
MAX_DEPTH = 200
MAX_TEXT = 500
MAX_HEX = 16_000
MAX_SMALL = 1_000_000

_HEX = re.compile(rf"-?[0-9a-f]{{1,{MAX_HEX}}}")

# What a field holds: a node, nodes, rows of nodes, a fraction (two texts), text, a small whole number, or one of several words.
# The nodes are those of which `construct.py` makes expressions.
_FIELDS: dict[type, tuple[Any, ...]] = {
    tree.Number: ("fraction", "small", ("plain", "mixed", "repeating", "scientific")),
    tree.Symbol: ("text",),
    tree.Constant: (("pi", "e", "i", "infinity"),),
    tree.Add: ("nodes",),
    tree.Mul: ("nodes",),
    tree.Neg: ("node",),
    tree.Div: ("node", "node"),
    tree.Pow: ("node", "node"),
    tree.Root: ("node", "node"),
    tree.Call: ("text", "nodes"),
    tree.Percent: ("node",),
    tree.Quantity: ("node", ("degree",)),
    tree.InBase: ("text", "small"),
    tree.Matrix: ("rows",),
}
_TYPES: dict[str, type] = {kind.__name__: kind for kind in _FIELDS}


class WireError(ValueError):
    """The received data is not a tree, or a tree to send is beyond the limits."""


def dumps(*nodes: Node) -> bytes:
    """Return the trees `nodes` encoded as JSON.

    Raises:
        WireError: a tree is beyond the limits, or has nodes that expressions cannot have: lists, words, units.
    """
    writer = _Writer()
    return json.dumps([writer.node(node, 0) for node in nodes], separators=(",", ":")).encode()


def loads(data: bytes) -> tuple[Node, ...]:
    """Return the trees in `data`, JSON in the format of `dumps`.

    Raises:
        WireError: `data` has another format or is beyond the limits.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WireError(f"no JSON: {type(error).__name__}") from None
    if not isinstance(value, list):
        raise WireError("no list of trees")
    reader = _Reader()
    return tuple(reader.node(item, 0) for item in value)


class _Bounded:
    """Counts nodes, and knows how deep it is."""

    def __init__(self) -> None:
        self.count = 0

    def enter(self, depth: int) -> None:
        self.count += 1
        if self.count > MAX_NODES or depth > MAX_DEPTH:
            raise WireError(f"a tree of over {MAX_NODES} nodes or {MAX_DEPTH} levels")


class _Writer(_Bounded):
    def node(self, node: Node, depth: int) -> list[Any]:
        self.enter(depth)
        fields = _FIELDS.get(type(node))
        if fields is None:
            raise WireError(f"a {type(node).__name__} is no expression")
        out: list[Any] = [type(node).__name__]
        # Slots stand in the order of the fields.
        for kind, name in zip(fields, type(node).__slots__, strict=True):
            value = getattr(node, name)
            if kind == "node":
                out.append(self.node(value, depth + 1))
            elif kind == "nodes":
                out.append([self.node(item, depth + 1) for item in value])
            elif kind == "rows":
                out.append([[self.node(item, depth + 1) for item in row] for row in value])
            elif kind == "fraction":
                out += [_hex(value.numerator), _hex(value.denominator)]
            else:
                if isinstance(value, str) and len(value) > MAX_TEXT:
                    raise WireError(f"a name of over {MAX_TEXT} characters")
                if isinstance(kind, tuple) and value not in kind:
                    raise WireError(f"{value!r} is not of an expression")
                out.append(value)
        return out


class _Reader(_Bounded):
    def node(self, value: Any, depth: int) -> Node:
        self.enter(depth)
        if not isinstance(value, list) or not value or not isinstance(value[0], str) or value[0] not in _TYPES:
            raise WireError("no node")
        kind = _TYPES[value[0]]
        fields = _FIELDS[kind]
        if len(value) != 1 + len(fields) + fields.count("fraction"):
            raise WireError(f"{value[0]} has other fields")
        rest = iter(value[1:])
        made: Node = kind(*(self._field(field, rest, depth + 1) for field in fields))
        return made

    def _field(self, kind: Any, rest: Any, depth: int) -> Any:
        value = next(rest)
        if kind == "node":
            return self.node(value, depth)
        if kind == "nodes":
            return tuple(self.node(item, depth) for item in _list(value))
        if kind == "rows":
            return tuple(tuple(self.node(item, depth) for item in _list(row)) for row in _list(value))
        if kind == "fraction":
            return _fraction(value, next(rest))
        if kind == "text":
            return _check(value, lambda v: isinstance(v, str) and len(v) <= MAX_TEXT)
        if kind == "small":
            return _check(value, lambda v: type(v) is int and 0 <= v <= MAX_SMALL)
        return _check(value, lambda v: any(v is word or (type(v) is type(word) and v == word) for word in kind))


def _hex(value: int) -> str:
    if value.bit_length() > 4 * (MAX_HEX - 1):
        raise WireError("a number of too many digits")
    return format(value, "x")


def _fraction(top: Any, bottom: Any) -> Fraction:
    for value in (top, bottom):
        _check(value, lambda v: isinstance(v, str) and _HEX.fullmatch(v) is not None)
    denominator = int(bottom, 16)
    if denominator < 1:
        raise WireError("a fraction over nothing")
    return Fraction(int(top, 16), denominator)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise WireError("no list")
    return value


def _check(value: Any, fits: Callable[[Any], bool]) -> Any:
    if not fits(value):
        raise WireError("a field holds what it cannot hold")
    return value
