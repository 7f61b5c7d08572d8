"""Remainders of integers too large to be written down, such as `7^{99999}`, towers of powers, and factorials."""

from __future__ import annotations

from verigym.envs.math.equality.budget import TooMuch, Undecided, Unsupported, WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.tree import Add, Call, Mul, Neg, Node, Pow

MAX_MODULUS_BITS = 256
MAX_EXPONENT_BITS = 10_000
MAX_FACTORIAL = 20_000
_STEP = 20


def remainder(node: Node, modulus: int, work: WorkBudget) -> int | None:
    """Return the remainder of the integer `node` modulo `modulus`, from 0 to modulus - 1, or None if it cannot be computed.

    The remainder can be computed only for trees made of sums, products, powers and factorials of integers. Powers are computed
    by repeated squaring; their exponents are computed exactly.
    """
    if modulus < 1 or modulus.bit_length() > MAX_MODULUS_BITS:
        return None
    try:
        return _remainder(node, modulus, work)
    except (Undecided, RecursionError):
        return None


def _remainder(node: Node, modulus: int, work: WorkBudget) -> int:
    work.spend(_STEP)
    exact = rational(node, work)
    if exact is not None:
        if exact.denominator != 1:
            raise Unsupported("a fraction")
        return int(exact) % modulus
    match node:
        case Neg(of):
            return -_remainder(of, modulus, work) % modulus
        case Add(terms):
            return sum(_remainder(term, modulus, work) for term in terms) % modulus
        case Mul(factors):
            result = 1
            for factor in factors:
                result = result * _remainder(factor, modulus, work) % modulus
            return result
        case Pow(base, exponent):
            power = rational(exponent, work)
            if power is None or power.denominator != 1 or power < 0:
                raise Unsupported("an exponent")
            if power.numerator.bit_length() > MAX_EXPONENT_BITS:
                raise TooMuch("an exponent")
            work.spend(power.numerator.bit_length())
            return pow(_remainder(base, modulus, work), power.numerator, modulus)
        case Call("factorial", (of,)):
            return _factorial(of, modulus, work)
    raise Unsupported(type(node).__name__)


def _factorial(of: Node, modulus: int, work: WorkBudget) -> int:
    number = rational(of, work)
    if number is None or number.denominator != 1 or number < 0:
        raise Unsupported("a factorial")
    if number >= modulus:
        return 0
    if number > MAX_FACTORIAL:
        raise TooMuch("a factorial")
    work.spend(int(number))
    result = 1
    for factor in range(2, int(number) + 1):
        result = result * factor % modulus
    return result
