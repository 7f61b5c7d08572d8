r"""Refuses answers with fewer factors than the gold: `(x^2-4)(x^2+4)` for `(x-2)(x+2)(x^2+4)`, 360 for `2^3 \cdot 3^2 \cdot 5`.

The rule applies only if the question says to factor or asks for prime factors, and the gold is a product. Factors are counted
as written, with their multiplicity. Numbers count as factors only in a product of primes, where each number must be prime.
"""

from __future__ import annotations

import re

from verigym.envs.math.judging.guards.unworked import claims
from verigym.envs.math.tree import Div, Group, Mul, Neg, Node, Number, Pow, symbols

_PRIMES = re.compile(r"prime factor|product of (?:\w+ )?primes?|factori[sz]", re.IGNORECASE)
_FACTOR = re.compile(
    r"factori[sz]|factored\b|(?<!a )(?<!the )(?<!common )(?<!scale )(?<!integrating )\bfactor\b(?! of\b)", re.IGNORECASE
)
"""As a verb: a factor of three, a scale factor and the greatest common factor ask for no product."""
MAX_PRIME = 10**6
"""Larger numbers are assumed to be prime, since exercises do not ask to factor them."""


def is_less_factored(question: str, gold: Node, answer: Node) -> bool:
    """Return whether `answer`, which equals `gold`, is less factored than the gold.

    If `question` asks for prime factors and the gold is a product of primes, this means that the answer is no product of
    primes. If the question asks to factor, it means that the answer has fewer factors with variables. In all other cases, the
    result is False.

    Args:
        question: the task's text.
        gold: the correct answer.
        answer: the answer to judge.
    """
    by_primes, by_variables = _PRIMES.search(question), _FACTOR.search(question)
    if not (by_primes or by_variables):
        return False
    golds, sides = ([side for claim in claims(node, question) for side in claim] for node in (gold, answer))
    if by_primes and any(primes(side) > 1 for side in golds):
        return not any(map(primes, sides))
    if not by_variables:
        return False
    wanted = max(map(variable_factors, golds), default=0)
    return wanted > 1 and all(0 < variable_factors(side) < wanted for side in sides)


def primes(node: Node) -> int:
    """Return the number of prime factors, with multiplicity, if `node` is a product of primes; 0 for any other tree."""
    match node:
        case Neg(of) | Group("(", ")", (of,)):
            return primes(of)
        case Number(value):
            return int(value.denominator == 1 and _is_prime(value.numerator))
        case Pow(base, Number(value)) if value.denominator == 1 and value > 0:
            return primes(base) * value.numerator
        case Mul(factors):
            counts = [primes(factor) for factor in factors]
            return sum(counts) if all(counts) else 0
    return 0


def _is_prime(number: int) -> bool:
    if number < 2:
        return False
    return number > MAX_PRIME or all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def variable_factors(node: Node) -> int:
    """Return the number of factors with variables in the numerator of `node`, minus the number of those in its denominator."""
    match node:
        case Neg(of) | Group("(", ")", (of,)):
            return variable_factors(of)
        case Mul(factors):
            return sum(map(variable_factors, factors))
        case Div(top, bottom):
            return variable_factors(top) - variable_factors(bottom)
        case Pow(base, Number(value)) if value.denominator == 1 and 0 < value < 1000:
            return variable_factors(base) * value.numerator
    return int(bool(symbols(node)))
