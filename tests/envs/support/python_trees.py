"""Trees written as Python expressions, so that these tests need no parser: `x**2 + sqrt(2)/3`, `series("sum", ...)`."""

from __future__ import annotations

import ast
from fractions import Fraction

from verigym.envs.math.tree import (
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
    Quantity,
    Root,
    Symbol,
)

_CONSTANTS = {"pi": Constant("pi"), "e": Constant("e"), "i": Constant("i"), "oo": Constant("infinity")}


def tree(text: str) -> Node:
    """Return the tree of a Python expression; `a*b*c` is one product, `a - b` adds a `Neg`."""
    return _node(ast.parse(text, mode="eval").body, text)


def _node(part: ast.expr, text: str) -> Node:  # noqa: C901  (a table of cases)
    match part:
        case ast.Constant(value):
            return Number(Fraction(ast.get_source_segment(text, part) or str(value)))
        case ast.Name(name):
            return _CONSTANTS.get(name) or Symbol(name)
        case ast.UnaryOp(ast.USub(), of):
            return Neg(_node(of, text))
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right):
            one, two = _node(left, text), _node(right, text)
            two = Neg(two) if isinstance(op, ast.Sub) else two
            return Add((*_parts(one, Add), *_parts(two, Add)))
        case ast.BinOp(left, ast.Mult(), right):
            return Mul((*_parts(_node(left, text), Mul), *_parts(_node(right, text), Mul)))
        case ast.BinOp(left, ast.Div(), right):
            return Div(_node(left, text), _node(right, text))
        case ast.BinOp(left, ast.Pow(), right):
            return Pow(_node(left, text), _node(right, text))
        case ast.Call(ast.Name("sqrt"), [of]):
            return Root(_node(of, text))
        case ast.Call(ast.Name("root"), [of, degree]):
            return Root(_node(of, text), _node(degree, text))
        case ast.Call(ast.Name("percent"), [of]):
            return Percent(_node(of, text))
        case ast.Call(ast.Name("deg"), [of]):
            return Quantity(_node(of, text), "degree")
        case ast.Call(ast.Name(name), args):
            return Call(name, tuple(_node(arg, text) for arg in args))
        case ast.List(rows):
            return Matrix(tuple(tuple(_node(one, text) for one in row.elts) for row in rows if isinstance(row, ast.List)))
    raise ValueError(f"not a tree: {text}")


def _parts(node: Node, kind: type) -> tuple[Node, ...]:
    if isinstance(node, kind):
        return node.terms if isinstance(node, Add) else node.factors  # type: ignore[union-attr]
    return (node,)
