r"""Computes the shape of a formula: a normal form of how it is written, without regard to changes that solve nothing.

Formulas of the same shape differ only in the order of sums and products, in padding (`+ 0`, `* 1`, `+ 3 - 3`, `* 7 / 7`,
`^1`), in the names of bound variables, or in writing a square as a product.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import gcd

from verigym.envs.math.build import rebuild
from verigym.envs.math.tree import (
    BINDERS,
    FUNCTIONS,
    Add,
    Call,
    Clock,
    Constant,
    Div,
    Group,
    InBase,
    Matrix,
    Mul,
    Neg,
    Node,
    Number,
    Percent,
    Pow,
    Quantity,
    Relation,
    Root,
    SetBuilder,
    Symbol,
    Text,
    walk,
)  # fmt: skip

_ONE, _ZERO = (Number(Fraction(value)) for value in (1, 0))


def shape(node: Node) -> Node:  # noqa: C901  (one case a type)
    """Return the normal form of how `node` is written.

    Trees that differ only in notation have the same normal form; trees that only have equal values do not.
    """
    match node:
        case Add(terms):
            return _sum([shape(term) for term in terms])
        case Mul(factors):
            return _product([shape(factor) for factor in factors])
        case Div(top, bottom):
            return _quotient(shape(top), shape(bottom))
        case Pow(base, exponent):
            return _power(shape(base), shape(exponent))
        case Neg(of):
            return _negative(shape(of))
        case Group("(", ")", (one,)):
            return shape(one)
        case Call(name, (body, Symbol(bound), *bounds)) if name in BINDERS:
            level = sum(isinstance(part, Call) and part.name in BINDERS for part in walk(body))
            fresh = Symbol(f"#{level}")
            renamed = rebuild(body, lambda part: fresh if part == Symbol(bound) else part)
            return Call(name, (shape(renamed), fresh, *map(shape, bounds)))
        case Call("exp", (power,)):
            return _power(Constant("e"), shape(power))
        case Call("cos" | "sec" as name, (Neg(of),)):
            return shape(Call(name, (of,)))
        case Call("sin" | "tan" | "cot" | "csc" as name, (Neg(of),)):
            return _negative(shape(Call(name, (of,))))
        case Call(name, args):
            return Call(name, tuple(map(shape, args)))
        case Root(of, degree):
            return Root(shape(of), degree)
        case Matrix(rows):
            return Matrix(tuple(tuple(map(shape, row)) for row in rows))
        case Relation(sides, comparators):
            return Relation(tuple(map(shape, sides)), comparators)
        case SetBuilder(element, condition):
            return SetBuilder(shape(element), shape(condition))
        case Number(value, _, _):
            return Number(value)
    return node


def _negative(node: Node) -> Node:
    return node.of if isinstance(node, Neg) else node if node == _ZERO else Neg(node)


def _sum(terms: list[Node]) -> Node:
    flat = [inner for term in terms for inner in (term.terms if isinstance(term, Add) else (term,))]
    counts = Counter(flat)
    kept: list[Node] = []
    for term in flat:
        other = _negative(term)
        if term == _ZERO or counts[term] <= 0:
            continue
        if counts[other] > 0 and other != term:
            counts[term] -= 1
            counts[other] -= 1
            continue
        kept.append(term)
        counts[term] -= 1
    if len(kept) < 2:
        return kept[0] if kept else _ZERO
    return Add(tuple(sorted(kept, key=repr)))


def _product(factors: list[Node]) -> Node:
    flat = [inner for factor in factors for inner in (factor.factors if isinstance(factor, Mul) else (factor,))]
    negative = sum(isinstance(factor, Neg) for factor in flat) % 2 == 1
    bare = [factor.of if isinstance(factor, Neg) else factor for factor in flat]
    inner = [one for factor in bare for one in (factor.factors if isinstance(factor, Mul) else (factor,))]
    if _ZERO in inner:
        return _ZERO
    kept: list[Node] = []
    for factor, count in Counter(inner).items():
        if factor != _ONE:  # x * x is x^2, but 3 * 3 stays a product of two numbers
            kept += [factor] * count if is_plain(factor) else [_power(factor, Number(Fraction(count)))]
    product: Node = _ONE if not kept else kept[0] if len(kept) == 1 else Mul(tuple(sorted(kept, key=repr)))
    return _negative(product) if negative else product


def _quotient(top: Node, bottom: Node) -> Node:
    negative = isinstance(top, Neg) is not isinstance(bottom, Neg)
    top, bottom = (part.of if isinstance(part, Neg) else part for part in (top, bottom))
    over = Counter(top.factors if isinstance(top, Mul) else (top,))
    under = Counter(bottom.factors if isinstance(bottom, Mul) else (bottom,))
    common = over & under
    if common and _ZERO not in common:
        top = _product(list((over - common).elements()))
        bottom = _product(list((under - common).elements()))
    quotient = top if bottom == _ONE else Div(top, bottom)
    return _negative(quotient) if negative else quotient


def _power(base: Node, exponent: Node) -> Node:
    if exponent == _ONE:
        return base
    if exponent == _ZERO and base != _ZERO:
        return _ONE
    if isinstance(exponent, Number) and exponent.value.denominator == 1 and exponent.value.numerator % 2 == 0:
        if isinstance(base, Neg):
            base = base.of
        elif isinstance(base, Add):
            base = min(base, _sum([_negative(term) for term in base.terms]), key=repr)
    match exponent:
        case Div(Number(Fraction(numerator=1, denominator=1)), Number(degree)) if degree.denominator == 1 and degree > 1:
            return Root(base, Number(degree))  # x^{1/2} is another spelling of a root
    return Pow(base, exponent)


def is_plain(node: Node) -> bool:
    """Return whether `node` has no variables."""
    return not any(isinstance(part, Symbol) for part in walk(node))


def is_lowest(node: Node) -> bool:
    """Return whether `node` is a number or a fraction of integers in lowest terms."""
    match node:
        case Neg(of) | Quantity(of, _) | Percent(of):
            return is_lowest(of)
        case Div(Number(top, 0), Number(bottom, 0)) | Div(Neg(Number(top, 0)), Number(bottom, 0)):
            return top.denominator == bottom.denominator == 1 and gcd(int(top), int(bottom)) == 1
    return isinstance(node, Number)


def is_fraction(node: Node) -> bool:
    """Return whether `node` is a quotient of two literals, in lowest terms or not."""
    match node:
        case Neg(of):
            return is_fraction(of)
        case Div(Number() | Neg(Number()), Number() | Neg(Number())):
            return True
    return False


def is_literal(node: Node) -> bool:
    """Return whether `node` has nothing left to work out: it is a number, a fraction in lowest terms or a name."""
    match node:
        case Neg(Neg()):
            return False
        case Neg(of) | Quantity(of, _) | Percent(of):
            return is_literal(of)
        case Call(name, _):
            return name not in FUNCTIONS
    return is_lowest(node) or isinstance(node, Symbol | Constant | Text | InBase | Clock)
