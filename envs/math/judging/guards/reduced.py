r"""Decides whether an expression is in a usual final form: `2\sqrt{3}` or `\frac{3\pi}{4}`, but not `\sqrt{24/2}` or `2x + 3x`.

There are no rules of taste: a root in a denominator and an improper fraction are allowed. Not allowed is arithmetic that a
pupil would still do: combine two rational numbers, two roots of one degree, like terms or powers of one base, or take a square
factor out of a root.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd

from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.shapes import is_lowest, is_plain
from verigym.envs.math.tree import FUNCTIONS, Add, Call, Div, Mul, Neg, Node, Number, Pow, Root, Symbol, symbols, walk

MAX_RADICAND = 10**9
_MAX_FACTOR = 1000


def is_power_of_ten(node: Node) -> bool:
    """Return whether `node` is a power of ten with a literal exponent."""
    return isinstance(node, Pow) and node.base == Number(Fraction(10)) and is_lowest(node.exponent)


def is_reduced(node: Node, work: WorkBudget) -> bool:
    """Return whether the arithmetic in `node`, a normal form made by `shape`, is completely worked out."""
    return not any(_is_left(part, work) for part in walk(node))


def is_polynomial(node: Node) -> bool:
    """Return whether `node` is a polynomial, made of integers and variables by sums, products and powers."""
    return all(
        isinstance(part, Symbol | Add | Mul | Neg | Pow) or (isinstance(part, Number) and part.value.denominator == 1)
        for part in walk(node)
    )


def divides(node: Node) -> bool:
    """Return whether `node` contains a quotient with variables."""
    return any(
        (isinstance(part, Div) and bool(symbols(part)))
        or (isinstance(part, Pow) and isinstance(part.exponent, Neg) and bool(symbols(part.base)))
        for part in walk(node)
    )


def is_factored(node: Node) -> bool:
    """Return whether a tree is a product of two or more factors with variables, one of them a sum."""
    while isinstance(node, Neg | Div):
        node = node.of if isinstance(node, Neg) else node.top
    factors = [factor for factor in (node.factors if isinstance(node, Mul) else (node,)) if not is_plain(factor)]
    sums = [factor for factor in factors if isinstance(factor.base if isinstance(factor, Pow) else factor, Add)]
    return bool(sums) and (len(factors) > 1 or isinstance(factors[0], Pow))


def leaves_polynomials(node: Node) -> bool:
    """Return whether `node` has a root, a function or a power with a letter in it, of which no polynomial is made."""
    return any(
        (isinstance(part, Root) or (isinstance(part, Call) and part.name in FUNCTIONS) or _is_odd_power(part))
        and bool(symbols(part))
        for part in walk(node)
    )


def _is_odd_power(node: Node) -> bool:
    return isinstance(node, Pow) and not (_is_integer(node.exponent) and not symbols(node.exponent))


def _is_left(node: Node, work: WorkBudget) -> bool:
    if isinstance(node, Add | Mul | Div | Pow | Root | Call) and rational(node, work) is not None:
        power = isinstance(node, Pow) and isinstance(node.base, Number) and _is_integer(node.exponent)
        return not (power or is_lowest(node))
    match node:
        case Root(of, Number(degree)):
            return _has_power(of, degree)
        case Pow(base, Div(_, Number(degree))) | Pow(base, Neg(Div(_, Number(degree)))):
            return _has_power(base, degree)
        case Pow(base, Number(value)) | Pow(base, Neg(Number(value))) if value.denominator > 1:  # 12^{0.5}
            return _has_power(base, Fraction(value.denominator))
        case Mul(factors):
            bases = [factor.base if isinstance(factor, Pow) else factor for factor in factors]
            return sum(map(is_lowest, factors)) > 1 or _same_degree(factors) or len(set(bases)) < len(bases)
        case Div(top, bottom):
            return gcd(coefficient(top), coefficient(bottom) * _radicands(bottom)) > 1 or _same_degree((top, bottom))
        case Add(terms):
            return len({kind_of(term) for term in terms}) < len(terms)
    return False


def _is_integer(node: Node) -> bool:
    return isinstance(node, Number) and node.value.denominator == 1


def _has_power(of: Node, degree: Fraction) -> bool:
    """Return whether the degree-th power of an integer divides a radicand."""
    if isinstance(of, Div):
        return _has_power(of.top, degree) or _has_power(of.bottom, degree)
    if not isinstance(of, Number) or of.value.denominator != 1 or degree.denominator != 1 or not 2 <= degree <= 30:
        return False
    number, order = abs(int(of.value)), int(degree)
    if not 1 < number <= MAX_RADICAND:
        return False
    return any(number % factor**order == 0 for factor in range(2, min(_MAX_FACTOR, number) + 1) if factor**order <= number)


def _same_degree(parts: tuple[Node, ...]) -> bool:
    inner = [one for part in parts for one in (part.factors if isinstance(part, Mul) else (part,))]
    degrees = [one.degree for one in inner if isinstance(one, Root) and isinstance(one.of, Number)]
    return len(set(degrees)) < len(degrees)


def coefficient(node: Node) -> int:
    """Return the integer factor of a term, or of all terms of a sum."""
    node = node.of if isinstance(node, Neg) else node
    if isinstance(node, Add):
        return gcd(*map(coefficient, node.terms))
    for factor in node.factors if isinstance(node, Mul) else (node,):
        if isinstance(factor, Number) and factor.value.denominator == 1:
            return int(factor.value)
    return 1


def _radicands(node: Node) -> int:
    roots = [one for one in (node.factors if isinstance(node, Mul) else (node,)) if isinstance(one, Root)]
    product = 1
    for root in roots:
        product *= coefficient(root.of)
    return product


def goes_out(top: Node, bottom: Node) -> bool:
    r"""Return whether the integer denominator `bottom` divides the coefficient of the numerator `top`: `\frac{10\pi}{2}`."""
    by = bottom.of if isinstance(bottom, Neg) else bottom
    divisor = coefficient(by) if isinstance(by, Number) else 1
    return divisor > 1 and not isinstance(top, Add) and coefficient(top) % divisor == 0


def kind_of(term: Node) -> Node:
    """Return `term` without its rational factor. The result is equal for like terms."""
    term = term.of if isinstance(term, Neg) else term
    if is_lowest(term):
        return Number(Fraction(1))
    if isinstance(term, Div) and is_lowest(term.bottom):
        return kind_of(term.top)
    if isinstance(term, Mul):
        rest = tuple(factor for factor in term.factors if not is_lowest(factor))
        return rest[0] if len(rest) == 1 else Mul(rest)
    return term
