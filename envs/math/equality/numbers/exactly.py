"""Exact values of rational constants. Sizes are estimated before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from verigym.envs.math.equality.budget import TooMuch, Undecided, Undefined, Unsupported, WorkBudget
from verigym.envs.math.equality.numbers import integers
from verigym.envs.math.equality.numbers.integers import Rational, bits, charge, simple
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
    Root,
    Symbol,
)

EXACT_WORK = 100_000
"""Units of work for one exact value, about 10 ms."""
DEAR = 1000
"""A value that costs more units is cached in its budget."""
MAX_TERMS = 10_000
"""A sum or a product with more terms is not computed."""
MAX_ORDER = 8
"""Determinants of larger matrices are not computed."""

Scope = Mapping[str, Rational]


def rational(node: Node, work: WorkBudget | None = None) -> Fraction | None:
    """Return the exact value of `node`; None if it is not a rational constant, is undefined or is too large.

    If a budget `work` is given, the cost is subtracted from it, and costly values are cached in it.
    """
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Symbol | Constant):
        return None
    if work is None:
        return _tried(node, WorkBudget(EXACT_WORK))
    remembered = work.known.get(id(node))
    if remembered is not None:
        fraction: Fraction | None = remembered[1]
        return fraction
    share = work.share(EXACT_WORK)
    fraction = _tried(node, share)
    work.settle(share)
    if share.used > DEAR:
        work.known[id(node)] = (node, fraction)
    return fraction


def _tried(node: Node, work: WorkBudget) -> Fraction | None:
    try:
        return Fraction(value(node, {}, work))
    except (Undecided, RecursionError):
        return None


def value(node: Node, scope: Scope, work: WorkBudget) -> Rational:
    """Return the exact value of `node`, using the values in `scope` for symbols.

    Raise `Undecided` if `node` has no rational value.
    """
    work.spend(10)
    match node:
        case Number(number):
            return simple(number)
        case Symbol(name):
            if name in scope:
                return scope[name]
            raise Unsupported(f"the symbol {name}")
        case Neg(of):
            return -value(of, scope, work)
        case Add(terms):
            return _total([value(term, scope, work) for term in terms], work)
        case Mul(factors):
            return _product([value(one, scope, work) for one in factors], work)
        case Div(top, bottom):
            return quotient(value(top, scope, work), value(bottom, scope, work), work)
        case Pow(base, exponent):
            return _power(value(base, scope, work), value(exponent, scope, work), work)
        case Root(of, degree):
            return _root(value(of, scope, work), value(degree, scope, work), work)
        case Percent(of):
            return quotient(value(of, scope, work), 100, work)
        case Call(name, args):
            return _call(name, args, scope, work)
    raise Unsupported(type(node).__name__)


def quotient(top: Rational, bottom: Rational, work: WorkBudget) -> Rational:
    """Return the quotient `top / bottom`. Raise `Undefined` if `bottom` is zero."""
    if bottom == 0:
        raise Undefined("a division by zero")
    charge(work, bits(top) + bits(bottom))
    return simple(Fraction(top, bottom))


def _total(terms: list[Rational], work: WorkBudget) -> Rational:
    result: Rational = 0
    for term in terms:
        charge(work, bits(result) + bits(term))
        result += term
    return simple(result)


def _product(factors: list[Rational], work: WorkBudget) -> Rational:
    result: Rational = 1
    for one in factors:
        charge(work, bits(result) + bits(one))
        result *= one
    return simple(result)


def _power(base: Rational, exponent: Rational, work: WorkBudget) -> Rational:
    """Return a rational power; a negative base has the real root where the exponent's denominator is odd."""
    if exponent.denominator == 1:
        return simple(integers.power(base, exponent.numerator, work))
    root = _root(base, exponent.denominator, work)
    return simple(integers.power(root, exponent.numerator, work))


def _root(of: Rational, degree: Rational, work: WorkBudget) -> Rational:
    if degree.denominator != 1 or degree == 0:
        raise Unsupported("a root of this degree")
    if of in (0, 1) and degree > 0:
        return of
    order = abs(degree.numerator)
    if order > integers.MAX_BITS:
        raise TooMuch("a root of this degree")
    root = integers.exact_root(of, order, work)
    if root is None:
        raise Unsupported("an irrational root")
    return root if degree > 0 else quotient(1, root, work)


def _integer(number: Rational) -> int:
    if number.denominator != 1:
        raise Unsupported("a function of integers given a fraction")
    return number.numerator


def _call(name: str, args: tuple[Node, ...], scope: Scope, work: WorkBudget) -> Rational:
    match name, args:
        case "sum" | "prod", (body, Symbol(index), start, stop):
            return _series(name, body, index, (start, stop), scope, work)
        case "det", (Matrix(rows),):
            return determinant([[value(one, scope, work) for one in row] for row in rows], work)
    if name not in _SCALAR:
        raise Unsupported(name)
    return simple(_scalar(name, [value(arg, scope, work) for arg in args], work))


_SCALAR = frozenset(
    "abs floor ceil sign re im conj max min gcd lcm factorial doublefactorial binom perm mod log exp ln sin tan cos".split()
)


def _scalar(name: str, args: list[Rational], work: WorkBudget) -> Rational:  # noqa: C901  (a table of one-line cases)
    match name, args:
        case "abs", [one]:
            return -one if one < 0 else one
        case "floor", [one]:
            return math.floor(one)
        case "ceil", [one]:
            return math.ceil(one)
        case "sign", [one]:
            return (one > 0) - (one < 0)
        case "re" | "conj", [one]:
            return one
        case "im", [_]:
            return 0
        case "max", [_, *_]:
            return max(args)
        case "min", [_, *_]:
            return min(args)
        case "gcd", [_, *_]:
            charge(work, sum(map(bits, args)))
            return math.gcd(*map(_integer, args))
        case "lcm", [_, *_]:
            charge(work, sum(map(bits, args)))
            return math.lcm(*map(_integer, args))
        case "factorial", [one]:
            return integers.factorial(_integer(one), work)
        case "doublefactorial", [one]:
            return integers.double_factorial(_integer(one), work)
        case "binom", [top, count]:
            return integers.binomial(top, _integer(count), work)
        case "perm", [top, count]:
            return integers.falling(top, _integer(count), work)
        case "mod", [top, bottom]:
            if bottom == 0:
                raise Undefined("modulo zero")
            charge(work, bits(top) + bits(bottom))
            return top % bottom
        case "log", [one, base]:
            logarithm = integers.rational_log(one, base, work)
            if logarithm is not None:
                return logarithm
        case (("exp" | "cos"), [one]) if one == 0:
            return 1
        case ("ln", [one]) if one == 1:
            return 0
        case (("sin" | "tan"), [one]) if one == 0:
            return 0
    raise Unsupported(name)


def _series(name: str, body: Node, index: str, bounds: tuple[Node, Node], scope: Scope, work: WorkBudget) -> Rational:
    first, last = (_integer(value(bound, scope, work)) for bound in bounds)
    if last - first >= MAX_TERMS:
        raise TooMuch("a series of more than 10,000 terms")
    result: Rational = 0 if name == "sum" else 1
    inner = dict(scope)
    for step in range(first, last + 1):
        inner[index] = step
        term = value(body, inner, work)
        charge(work, bits(result) + bits(term))
        result = simple(result + term if name == "sum" else result * term)
    return result


def determinant(rows: list[list[Rational]], work: WorkBudget) -> Rational:
    """Return the determinant of the square matrix `rows`, computed by elimination."""
    order = len(rows)
    if order > MAX_ORDER:
        raise TooMuch("a determinant of this order")
    if any(len(row) != order for row in rows):
        raise Undefined("the determinant of a matrix that is not square")
    result: Rational = 1
    for column in range(order):
        pivot = next((row for row in range(column, order) if rows[row][column] != 0), None)
        if pivot is None:
            return 0
        if pivot != column:
            rows[column], rows[pivot] = rows[pivot], rows[column]
            result = -result
        head = rows[column][column]
        result = _product([result, head], work)
        for row in range(column + 1, order):
            ratio = quotient(rows[row][column], head, work)
            for place in range(column, order):
                rows[row][place] = _total([rows[row][place], -_product([ratio, rows[column][place]], work)], work)
    return result
