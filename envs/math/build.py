"""Constructors and transformations of trees that keep the invariants of `tree.py`: flat sums, no negative numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal

from verigym.envs.math.numerals import scientific
from verigym.envs.math.tree import (
    Add,
    Call,
    Div,
    Group,
    Mul,
    NamedSet,
    Neg,
    Node,
    Number,
    Percent,
    PlusMinus,
    Pow,
    SetOp,
    Symbol,
    children,
    walk,
)  # fmt: skip

ZERO = Number(Fraction(0))


def bare(node: Node) -> Node:
    """Return `node`, without the square brackets if they only group terms inside a formula, as in `2[x + 1]`."""
    if type(node) is Group and node.opening == "[" and node.closing == "]" and len(node.items) == 1:
        return node.items[0]
    return node


def add(terms: Sequence[Node]) -> Node:
    """Return the tree of the sum of `terms`. If the terms are the sets A and -B, return the set operation A - B."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2 and type(terms[1]) is Neg and _is_set(terms[0]) and _is_set(terms[1].of):
        return set_operation("difference", terms[0], terms[1].of)
    flat: list[Node] = []
    for term in terms:
        term = bare(term)
        if type(term) is Add:
            flat.extend(term.terms)
        else:
            flat.append(term)
    return Add(tuple(flat))


def mul(factors: Sequence[Node]) -> Node:
    """Return the product of `factors`."""
    if len(factors) == 1:
        return factors[0]
    flat: list[Node] = []
    for factor in factors:
        factor = bare(factor)
        if type(factor) is Mul:
            flat.extend(factor.factors)
        else:
            flat.append(factor)
    return Mul(tuple(flat))


def div(top: Node, bottom: Node) -> Node:
    """Return the quotient `top / bottom`.

    `dy/dx` becomes a derivative, and the percent sign of `100/3%` applies to the whole fraction.
    """
    top, bottom = bare(top), bare(bottom)
    if type(bottom) is Percent and type(top) is Number and type(bottom.of) is Number:
        return Percent(Div(top, bottom.of))
    if type(bottom) is Mul and bottom.factors[0] in _DIFFERENTIALS:
        return derivative(top, bottom) or Div(top, bottom)
    return Div(top, bottom)


_DIFFERENTIALS = (Symbol("d"), Symbol("partial"))


def derivative(top: Node, bottom: Mul) -> Node | None:
    r"""Return the derivative that the fraction `top / bottom` denotes, or None if it denotes none.

    The result is a nested `diff`, one for each variable of a denominator such as `\partial x \partial y`.
    """
    sign, variables = bottom.factors[0], bottom.factors[1::2]
    if len(bottom.factors) % 2 or set(bottom.factors[::2]) != {sign} or (len(variables) > 1 and sign != Symbol("partial")):
        return None
    derived: list[Symbol] = []
    for variable in variables:
        order = 1
        if type(variable) is Pow and type(variable.base) is Symbol and type(variable.exponent) is Number:
            order, variable = variable.exponent.value.numerator, variable.base
        if type(variable) is not Symbol or not 1 <= order <= 9:
            return None
        derived += [variable] * order
    operator = sign if len(derived) == 1 else Pow(sign, Number(Fraction(len(derived))))
    if top == operator:  # an operator on what follows
        names = "".join(f"d{variable.name}" for variable in derived)
        if len(variables) == 1 and len(derived) > 1:
            names = f"d{derived[0].name}^{len(derived)}"
        return Symbol(f"d/{names}" if len(derived) == 1 else f"d^{len(derived)}/{names}")
    if type(top) is not Mul or top.factors[0] != operator:
        return None
    body = mul(top.factors[1:])
    for variable in reversed(derived):
        body = Call("diff", (body, variable))
    return body


def power(base: Node, exponent: Node) -> Node:
    """Return `base` to the power of `exponent`."""
    return Pow(bare(base), exponent)


def times(factors: list[Node], right: Node) -> None:
    r"""Append `right`, the factor after a multiplication sign, to the list `factors`.

    A power of ten after a number is merged into the number: `1.5 \times 10^{3}` becomes one factor.
    """
    if factors and type(right) is Pow and type(right.base) is Number and type(factors[-1]) is Number and right.base.value == 10:
        power_of_ten = right.exponent
        sign = -1 if type(power_of_ten) is Neg else 1
        size = power_of_ten.of if type(power_of_ten) is Neg else power_of_ten
        last = factors[-1]
        if (
            type(size) is Number
            and size.style == "plain"
            and size.decimals == 0
            and last.style == "plain"
            and len(str(size.value)) < 9
        ):
            factors[-1] = scientific(last.value, last.decimals, sign * int(size.value))
            return
    factors.append(right)


def set_operation(op: Literal["union", "intersection", "difference"], left: Node, right: Node) -> Node:
    """Return the set operation `op` on `left` and `right`. Repeated operations of one kind become one node."""
    parts: list[Node] = list(left.parts) if type(left) is SetOp and left.op == op else [left]
    if type(right) is SetOp and right.op == op and op != "difference":
        parts.extend(right.parts)
    else:
        parts.append(right)
    return SetOp(op, tuple(parts))


def _is_set(node: Node) -> bool:
    return type(node) in (NamedSet, SetOp) or (type(node) is Group and node.opening in ("{", "tex{"))


def negative(node: Node) -> Node:
    """Return the negative of `node`."""
    return node.of if isinstance(node, Neg) else Neg(node)


def minus(left: Node, right: Node) -> Node:
    """Return the difference `left` - `right`."""
    if right == ZERO:
        return left
    first = left.terms if isinstance(left, Add) else (left,)
    second = tuple(negative(term) for term in right.terms) if isinstance(right, Add) else (negative(right),)
    if left == ZERO:
        return Add(second) if len(second) > 1 else second[0]
    return Add((*first, *second))


def scaled(node: Node, factor: Fraction) -> Node:
    """Return the product `factor` * `node`."""
    if factor == 1:
        return node
    if factor == -1:
        return negative(node)
    factors = node.factors if isinstance(node, Mul) else (node,)
    return Mul((literal(factor), *factors))


def literal(value: Fraction) -> Node:
    """Return the tree of the rational number `value`."""
    size = abs(value)
    tree: Node = Number(size)
    if size.denominator != 1:
        tree = Div(Number(Fraction(size.numerator)), Number(Fraction(size.denominator)))
    return Neg(tree) if value < 0 else tree


def single(node: Node) -> Node:
    """Return the only element if `node` is one element in brackets: `[5]` and `{5}` give 5. `(5,)` and all other trees stay."""
    if isinstance(node, Group) and len(node.items) == 1 and node.opening in ("[", "{", "tex{"):
        return node.items[0]
    return node


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the tree `node` with `change` applied to each node, children first. Nested sums and products are flattened."""
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


def expand_plus_minus(node: Node) -> tuple[Node, ...]:
    r"""Return two trees, `node` with the upper and with the lower signs of its `\pm`, or `node` alone if it has no such sign.

    All signs are taken together: `\pm 1 \mp 2` is 1 - 2 and -1 + 2.
    """
    if not any(isinstance(part, PlusMinus) for part in walk(node)):
        return (node,)
    return rebuild(node, partial(_signed, 1)), rebuild(node, partial(_signed, -1))


def _signed(upper: int, part: Node) -> Node:
    if not isinstance(part, PlusMinus):
        return part
    return part.of if part.sign == upper else Neg(part.of)
