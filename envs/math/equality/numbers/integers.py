"""Exact functions of integers and fractions, each bounded before it computes."""

from __future__ import annotations

import math
from fractions import Fraction

from verigym.envs.math.equality.budget import TooMuch, Undefined, WorkBudget

Rational = int | Fraction

MAX_BITS = 100_000
"""Maximum size in bits of an exact number, numerator and denominator together."""
MAX_ROOTED_BITS = 2000
"""Larger divisors are not tried for being powers."""
MAX_DENOMINATOR = 64
"""Greatest denominator of a logarithm that `rational_log` recognises as rational."""


def bits(value: Rational) -> int:
    """Return the size of `value` in bits."""
    return value.numerator.bit_length() + value.denominator.bit_length()


def charge(work: WorkBudget, size: int) -> None:
    """Subtract from `work` the cost of one operation on numbers of `size` bits.

    The cost is quadratic in the size because of the greatest common divisor that the operation computes.
    """
    if size > MAX_BITS:
        raise TooMuch("a number of more than 100,000 bits")
    words = size >> 6
    work.spend(10 + words + (words * words >> 5))


def power(base: Rational, exponent: int, work: WorkBudget) -> Rational:
    """Return `base ** exponent`."""
    if base == 0 and exponent <= 0:
        raise Undefined("zero to a power that is not positive")
    if base in (1, -1) or exponent == 0:
        return -1 if base == -1 and exponent % 2 else 1
    charge(work, bits(base) * abs(exponent))
    if exponent < 0:
        base, exponent = simple(1 / Fraction(base)), -exponent
    result: Rational = base**exponent
    return result


def integer_root(value: int, degree: int) -> int:
    """Return the greatest integer r with r ** degree <= value. `value` must not be negative."""
    if degree == 2:
        return math.isqrt(value)
    size = value.bit_length()
    if size <= degree:
        return min(value, 1)
    guess = 1 << -(-size // degree)
    while True:
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


def exact_root(value: Rational, degree: int, work: WorkBudget) -> Rational | None:
    """Return the real root of `value` with the given `degree` if it is rational, else None.

    A negative `value` has a real root only for odd degrees.
    """
    if value < 0:
        if degree % 2 == 0:
            return None
        root = exact_root(-value, degree, work)
        return None if root is None else -root
    parts: list[int] = []
    for part in (value.numerator, value.denominator):
        charge(work, part.bit_length() * 4)
        if part.bit_length() <= degree and part > 1:
            return None
        whole = integer_root(part, degree)
        if whole**degree != part:
            return None
        parts.append(whole)
    return parts[0] if parts[1] == 1 else Fraction(parts[0], parts[1])


def factorial(number: int, work: WorkBudget) -> int:
    """Return the factorial of `number`.

    Its size is estimated first, and `TooMuch` raised if the budget `work` does not suffice.
    """
    if number < 0:
        raise Undefined("the factorial of a negative integer")
    charge(work, number * max(number.bit_length() - 1, 1))
    return math.factorial(number)


def double_factorial(number: int, work: WorkBudget) -> int:
    """Return the double factorial of `number`: number (number - 2) (number - 4) ..., down to 1 or 2."""
    if number < -1:
        raise Undefined("the double factorial of a negative integer")
    charge(work, max(number, 0) * max(number.bit_length() - 1, 1) // 2)
    return math.prod(range(number, 0, -2))


def falling(top: Rational, count: int, work: WorkBudget) -> Rational:
    """Return the falling factorial top (top - 1) ... (top - count + 1), a product of `count` factors."""
    if count < 0:
        return 0
    if isinstance(top, int) and 0 <= top < count:
        return 0
    charge(work, count * (bits(top) + count.bit_length()))
    work.spend(count * 2)
    result: Rational = 1
    for step in range(count):
        result *= top - step
    return result


def binomial(top: Rational, count: int, work: WorkBudget) -> Rational:
    """Return the binomial coefficient of `top` over `count`; `top` may be negative or a fraction."""
    if isinstance(top, int) and 0 <= top and 2 * count > top:
        count = top - count
    product = falling(top, count, work)
    if product == 0:
        return 0
    below = factorial(count, work)
    charge(work, bits(product) + below.bit_length())
    return simple(Fraction(product) / below)


def rational_log(value: Rational, base: Rational, work: WorkBudget) -> Rational | None:
    """Return the logarithm of `value` to `base` if it is rational with a small denominator, else None.

    The logarithm is guessed with floating-point numbers, and the guess is then checked exactly.
    """
    if value <= 0 or base <= 0 or base == 1:
        raise Undefined("a logarithm outside its domain")
    if value == 1:
        return 0
    size = _log(value) / _log(base) if _log(base) else 0.0
    if not abs(size) < MAX_BITS:
        return None
    guess = Fraction(size).limit_denominator(MAX_DENOMINATOR)
    if abs(guess - Fraction(size)) > Fraction(1, 10**9) * max(Fraction(1), abs(guess)):
        return None
    left, right = power(value, guess.denominator, work), power(base, guess.numerator, work)
    return simple(guess) if left == right else None


def _log(value: Rational) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def simple(value: Rational) -> Rational:
    """Return `value`, as an int if it is an integer, since ints compute several times faster than fractions."""
    return value.numerator if value.denominator == 1 else value


def factor(number: int, work: WorkBudget, limit: int = 1000) -> tuple[dict[int, int], bool]:
    """Factorise `number` by trial division by divisors below `limit`.

    The factor that remains after the trial division is returned as one divisor. If it is a perfect power, its base and exponent
    are returned instead; very large factors are not tested for this.

    Returns:
        {divisor: exponent}, and whether all divisors are known to be prime.
    """
    exponents: dict[int, int] = {}
    divisor = 2
    work.spend(0 if number == 1 else 10 + min(number, 2000))
    while divisor < limit and divisor * divisor <= number:
        work.spend(number.bit_length() >> 10)
        while number % divisor == 0:
            work.spend(5 + (number.bit_length() >> 10))
            exponents[divisor] = exponents.get(divisor, 0) + 1
            number //= divisor
        divisor += 1 if divisor == 2 else 2
    if number == 1:
        return exponents, True
    if number < limit * limit:
        exponents[number] = exponents.get(number, 0) + 1
        return exponents, True
    exponent = 1
    for degree in (2, 3, 5, 7) if number.bit_length() <= MAX_ROOTED_BITS else ():
        while number.bit_length() > degree and (root := integer_root(number, degree)) ** degree == number:
            number, exponent = root, exponent * degree
    exponents[number] = exponents.get(number, 0) + exponent
    return exponents, False
