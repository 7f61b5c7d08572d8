"""A tree with parts of it replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from verigym.envs.math.tree import Add, Mul, Node, children


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the tree with `change` applied to each node, children first; sums in sums and products in products are joined."""
    if not children(node):
        return change(node)
    fields = {}
    for field in dataclasses.fields(node):
        before = getattr(node, field.name)
        after = _rebuilt(before, change)
        if after is not before:
            fields[field.name] = after
    if fields:
        node = dataclasses.replace(node, **fields)
        if isinstance(node, Add):
            node = Add(tuple(one for term in node.terms for one in (term.terms if isinstance(term, Add) else (term,))))
        elif isinstance(node, Mul):
            node = Mul(tuple(one for part in node.factors for one in (part.factors if isinstance(part, Mul) else (part,))))
    return change(node)


def _rebuilt(value: Any, change: Callable[[Node], Node]) -> Any:
    if isinstance(value, tuple):
        parts = tuple(_rebuilt(part, change) for part in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    return rebuild(value, change) if isinstance(value, Node) else value
