"""Polynomials with rational coefficients over atoms: symbols, primes under a root, pi, e, i, and opaque subtrees.

A monomial is a sorted tuple of pairs (number of the atom, exponent). Exponents are integers or fractions. They may be negative,
so that a polynomial divided by a single term is again a polynomial. A polynomial is a dict from monomials to nonzero
coefficients, and is never changed after it is made.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

from verigym.envs.math.equality.budget import TooMuch, Undefined, WorkBudget
from verigym.envs.math.equality.numbers import integers
from verigym.envs.math.equality.numbers.integers import Rational, bits, simple

Monomial = tuple[tuple[int, Rational], ...]
Poly = dict[Monomial, Rational]

MAX_TERMS = 400
MAX_COEFFICIENT_BITS = 4000
"""Powers of primes with more bits than this, such as those in 10^{10^{10}}, are not computed."""
ONE: Poly = {(): 1}


class Atom(NamedTuple):
    """A factor of monomials that is not divided further."""

    kind: str
    """symbol, prime, divisor (perhaps not a prime), pi, e, i, root (a polynomial under a root), power (with symbols in the
    exponent) or opaque (any other expression, taken as a whole)"""
    key: Any
    base: Poly | None = None
    """The radicand, if the atom is a root. Integer powers of the root are multiplied out."""


class Atoms:
    """The indivisible factors (atoms) in one comparison, shared by both compared expressions."""

    __slots__ = ("known", "listed", "special", "work")

    def __init__(self, work: WorkBudget) -> None:
        """Start without atoms."""
        self.known: dict[tuple[str, Any], int] = {}
        self.listed: list[Atom] = []
        self.special: set[int] = set()
        self.work = work

    def number(self, kind: str, key: Any, base: Poly | None = None) -> int:
        """Return the number of the atom that `kind` and `key` identify, adding the atom if it is new."""
        number = self.known.get((kind, key))
        if number is None:
            number = self.known[kind, key] = len(self.listed)
            self.listed.append(Atom(kind, key, base))
            if kind in ("prime", "divisor", "i", "root"):
                self.special.add(number)
        return number

    def term(self, kind: str, key: Any, exponent: Rational = 1, base: Poly | None = None) -> Poly:
        """Return a power of an atom as a polynomial in normal form.

        Args:
            kind: the kind of the atom.
            key: identifies the atom among those of its kind.
            exponent: an integer or a fraction.
            base: the radicand, if the atom is a root.
        """
        return self._normal(((self.number(kind, key, base), exponent),), 1)

    def add(self, one: Poly, two: Poly) -> Poly:
        """Return the sum of `one` and `two`."""
        if len(one) < len(two):
            one, two = two, one
        self.work.spend(10 + len(one))
        result = dict(one)
        self._include(result, two)
        if len(result) > MAX_TERMS:
            raise TooMuch("a polynomial of more than 400 terms")
        return result

    def _include(self, result: Poly, two: Poly) -> None:
        """Add to a polynomial in the making."""
        self.work.spend(20 * len(two))
        for monomial, coefficient in two.items():
            total = result.get(monomial, 0) + coefficient
            if total == 0:
                del result[monomial]
            else:
                result[monomial] = _weighed(total, self.work)

    def scale(self, one: Poly, factor: Rational) -> Poly:
        """Return `one` multiplied by the number `factor`."""
        if factor == 1 or not one:
            return one
        if factor == 0:
            return {}
        self.work.spend(20 * len(one))
        return {monomial: _weighed(coefficient * factor, self.work) for monomial, coefficient in one.items()}

    def multiply(self, one: Poly, two: Poly) -> Poly:
        """Return the product of `one` and `two`."""
        if len(two) == 1:
            one, two = two, one
        if len(one) == 1 and () in one:
            return self.scale(two, one[()])
        result: Poly = {}
        for left, by in one.items():
            for right, coefficient in two.items():
                self.work.spend(40 + 10 * (len(left) + len(right)))
                monomial = _merge(left, right)
                factor = _weighed(by * coefficient, self.work)
                if self.special and any(atom in self.special for atom, _ in monomial):
                    self._include(result, self._normal(monomial, factor))
                elif total := result.get(monomial, 0) + factor:
                    result[monomial] = total
                else:
                    del result[monomial]
        if len(result) > MAX_TERMS:
            raise TooMuch("a polynomial of more than 400 terms")
        return result

    def power(self, one: Poly, exponent: int) -> Poly:
        """Return `one` to the power of the positive `exponent`.

        Raise `TooMuch` if the result would have too many terms; this is estimated before anything is computed.
        """
        if len(one) == 1:
            (monomial, coefficient), *_ = one.items()
            raised: Monomial = tuple((atom, power * exponent) for atom, power in monomial)
            return self.multiply(self.constant(coefficient, exponent), self._normal(raised, 1))
        if exponent > MAX_TERMS or math.comb(exponent + min(len(one), 6) - 1, exponent) > 4 * MAX_TERMS:
            raise TooMuch("a power of a polynomial with too many terms")
        result = one
        for _ in range(exponent - 1):
            result = self.multiply(result, one)
        return result

    def constant(self, number: Rational, exponent: Rational = 1) -> Poly:
        """Return `number ** exponent` as a polynomial: a rational coefficient times roots of primes."""
        if number == 0:
            if exponent <= 0:
                raise Undefined("zero to a power that is not positive")
            return {}
        if exponent.denominator == 1 and bits(number) * abs(exponent.numerator) <= MAX_COEFFICIENT_BITS:
            return {(): simple(integers.power(number, exponent.numerator, self.work))}
        result = ONE
        if number < 0:
            number = -number
            if exponent.denominator % 2:
                result = {(): -1 if exponent.numerator % 2 else 1}
            elif exponent.denominator == 2:
                result = self.term("i", "i", exponent.numerator % 4)
            else:
                result = self.term("root", -1, exponent, {(): -1})
        for part, sign in ((number.numerator, 1), (number.denominator, -1)):
            divisors, proved = integers.factor(part, self.work)
            for divisor, count in divisors.items():
                kind = "prime" if proved or divisor < 1_000_000 else "divisor"
                result = self.multiply(result, self.term(kind, divisor, sign * count * exponent))
        return result

    def _normal(self, monomial: Monomial, coefficient: Rational) -> Poly:
        """Return a monomial with i, primes and roots reduced: i^2 = -1, whole powers taken out of the roots."""
        kept: list[tuple[int, Rational]] = []
        taken: list[tuple[Poly, int]] = []
        for atom, exponent in monomial:
            if atom in self.special:
                self.work.spend(30)
                kind, key, base = self.listed[atom]
                if kind == "i":
                    if exponent.denominator == 1:
                        coefficient = -coefficient if exponent.numerator % 4 > 1 else coefficient
                        exponent = exponent.numerator % 2
                elif kind == "root":
                    whole = math.floor(exponent)
                    if whole > 0 and base is not None:
                        taken.append((base, whole))
                        exponent -= whole
                elif key.bit_length() * abs(exponent.numerator) <= MAX_COEFFICIENT_BITS * exponent.denominator:
                    whole = math.floor(exponent)
                    coefficient = _weighed(coefficient * simple(Fraction(key) ** whole), self.work) if whole else coefficient
                    exponent -= whole
            if exponent != 0:
                kept.append((atom, simple(exponent)))
        result: Poly = {tuple(kept): simple(coefficient)}
        for base, whole in taken:
            result = self.multiply(result, self.power(base, whole))
        return result


def _weighed(coefficient: Rational, work: WorkBudget) -> Rational:
    size = bits(coefficient)
    if size > 256:
        integers.charge(work, size)
    return coefficient


def _merge(left: Monomial, right: Monomial) -> Monomial:
    if not left:
        return right
    if not right:
        return left
    merged = dict(left)
    for atom, exponent in right:
        merged[atom] = merged.get(atom, 0) + exponent
    return tuple(sorted((atom, exponent) for atom, exponent in merged.items() if exponent != 0))


def content(poly: Poly) -> Rational:
    """Return the positive rational c for which the coefficients of poly / c are integers without a common divisor."""
    top = math.gcd(*(one.numerator for one in poly.values()))
    bottom = math.lcm(*(one.denominator for one in poly.values()))
    if bottom.bit_length() > 8000:
        raise TooMuch("a common denominator of more than 8,000 bits")
    return simple(Fraction(top, bottom))


def decisive(atoms: Atoms, poly: Poly) -> bool:
    """Return whether `poly`, which is not the zero polynomial, certainly has a nonzero value.

    This is so if the kinds of its atoms guarantee that its monomials are linearly independent over the rationals.
    """
    kinds = set()
    for monomial in poly:
        for atom, exponent in monomial:
            kind = atoms.listed[atom].kind
            if kind == "prime" and not 0 < exponent < 1:
                return False
            kinds.add(kind)
    return kinds <= {"symbol", "prime", "i", "pi"} or kinds <= {"symbol", "prime", "i", "e"}
