"""Canonical forms of expressions: quotients of two polynomials over atoms, the indivisible factors of `polynomial.py`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from verigym.envs.math.equality.budget import Undefined, Unsupported, WorkBudget
from verigym.envs.math.equality.numbers import exactly, integers
from verigym.envs.math.equality.numbers.integers import Rational, simple
from verigym.envs.math.equality.polynomial import ONE, Atoms, Poly, content
from verigym.envs.math.tree import Add, Call, Constant, Div, Mul, Neg, Node, Number, Percent, Pow, Quantity, Root, Symbol

MAX_EXPANDED = 50
"""Symbolic sums and products are expanded up to this many terms."""
_CIRCULAR = {"tan": ("sin", "cos"), "cot": ("cos", "sin"), "sec": ("", "cos"), "csc": ("", "sin")}


class Quotient(NamedTuple):
    """A quotient of two polynomials. The denominator is never the polynomial zero."""

    top: Poly
    bottom: Poly = ONE

    def rational(self) -> Rational | None:
        """Return the quotient's value if it is a rational constant, else None."""
        if self.bottom is ONE and not self.top:
            return 0
        if self.bottom is ONE and len(self.top) == 1 and () in self.top:
            return self.top[()]
        return None


Scope = Mapping[str, Quotient]


class Canonical:
    """Computes the canonical forms of all trees in one comparison."""

    def __init__(self, work: WorkBudget) -> None:
        """Start without atoms."""
        self.atoms = Atoms(work)
        self.work = work

    def form(self, node: Node, scope: Scope) -> Quotient:  # noqa: C901  (a table of the kinds of nodes)
        """Return the canonical form of `node`. `scope` maps names of symbols to the forms that replace them.

        Raise `Undecided` if `node` has no canonical form.
        """
        self.work.spend(30)
        atoms = self.atoms
        match node:
            case Number(number):
                return Quotient({(): simple(number)} if number else {})
            case Symbol(name):
                return scope[name] if name in scope else Quotient(atoms.term("symbol", name))
            case Constant(name):
                if name == "infinity":
                    raise Unsupported("infinity")
                return Quotient(atoms.term(name, name))
            case Neg(of):
                form = self.form(of, scope)
                return Quotient(atoms.scale(form.top, -1), form.bottom)
            case Add(terms):
                return self._total([self.form(term, scope) for term in terms])
            case Mul(factors):
                result = self.form(factors[0], scope)
                for factor in factors[1:]:
                    result = self.times(result, self.form(factor, scope))
                return result
            case Div(top, bottom):
                return self.divide(self.form(top, scope), self.form(bottom, scope))
            case Pow(base, exponent):
                return self.power(self.form(base, scope), self.form(exponent, scope))
            case Root(of, degree):
                return self.power(self.form(of, scope), self.divide(Quotient(ONE), self.form(degree, scope)))
            case Percent(of):
                return self.times(self.form(of, scope), Quotient({(): Fraction(1, 100)}))
            case Quantity(of, "degree"):
                turn = Quotient(atoms.scale(atoms.term("pi", "pi"), Fraction(1, 180)))
                return self.times(self.form(of, scope), turn)
            case Call(name, args):
                return self._call(name, args, scope)
        raise Unsupported(type(node).__name__)

    def _total(self, terms: list[Quotient]) -> Quotient:
        result = terms[0]
        for term in terms[1:]:
            result = self.plus(result, term)
        return result

    def plus(self, one: Quotient, two: Quotient) -> Quotient:
        """Return the sum `one + two`."""
        atoms = self.atoms
        if one.bottom is two.bottom or one.bottom == two.bottom:
            return Quotient(atoms.add(one.top, two.top), one.bottom)
        left, right = atoms.multiply(one.top, two.bottom), atoms.multiply(two.top, one.bottom)
        return Quotient(atoms.add(left, right), atoms.multiply(one.bottom, two.bottom))

    def times(self, one: Quotient, two: Quotient) -> Quotient:
        """Return the product `one * two`."""
        top = self.atoms.multiply(one.top, two.top)
        if one.bottom is ONE or two.bottom is ONE:
            return Quotient(top, two.bottom if one.bottom is ONE else one.bottom)
        return Quotient(top, self.atoms.multiply(one.bottom, two.bottom))

    def divide(self, one: Quotient, two: Quotient) -> Quotient:
        """Return the quotient `one / two`. A denominator with one term goes into the numerator with negative exponents."""
        if not two.top:
            raise Undefined("a division by zero")
        if two.bottom is not ONE:
            one = Quotient(self.atoms.multiply(one.top, two.bottom), one.bottom)
        if len(two.top) > 1:
            bottom = two.top if one.bottom is ONE else self.atoms.multiply(one.bottom, two.top)
            return Quotient(one.top, bottom)
        return self.times(one, self._inverse(two.top))

    def _inverse(self, term: Poly) -> Quotient:
        """Return 1 / term; for a root b^(1/3) that is b^(2/3) / b."""
        (monomial, coefficient), *_ = term.items()
        result = Quotient({(): simple(1 / Fraction(coefficient))})
        for atom, exponent in monomial:
            kind, key, base = self.atoms.listed[atom]
            if kind == "root" and base is not None:
                whole = math.ceil(exponent)
                rest = self.atoms.term(kind, key, whole - exponent, base) if whole != exponent else ONE
                result = self.times(result, Quotient(rest))
                result = self.divide(result, Quotient(self.atoms.power(base, whole)))
            else:
                result = self.times(result, Quotient(self.atoms.term(kind, key, -exponent)))
        return result

    def power(self, base: Quotient, exponent: Quotient) -> Quotient:
        """Return `base` to the power of `exponent`, which may be any expression."""
        constant = exponent.rational()
        if constant is not None:
            return self._rational_power(base, constant)
        if exponent.bottom is not ONE:
            return Quotient(self.atoms.term("opaque", ("power", self.key(base), self.key(exponent))))
        result = Quotient(ONE)
        for monomial, factor in exponent.top.items():
            if monomial:
                part = self._symbolic_power(base, monomial, factor)
            else:
                part = self._rational_power(base, factor)
            result = self.times(result, part)
        return result

    def _symbolic_power(self, base: Quotient, monomial: Any, factor: Rational) -> Quotient:
        """Return base ** (factor * monomial): an atom to the power `factor`, for each prime of a positive rational base."""
        number = base.rational()
        if number == 0:
            raise Unsupported("zero to an unknown power")
        if number is None or number < 0:
            return Quotient(self.atoms.term("power", (self.key(base), monomial), factor))
        result = ONE
        for part, sign in ((number.numerator, 1), (number.denominator, -1)):
            divisors, _ = integers.factor(part, self.work)
            for divisor, times in divisors.items():
                key = (self.key(Quotient({(): divisor})), monomial)
                result = self.atoms.multiply(result, self.atoms.term("power", key, simple(sign * times * factor)))
        return Quotient(result)

    def _rational_power(self, base: Quotient, exponent: Rational) -> Quotient:
        if exponent == 0:
            if not base.top:
                raise Undefined("zero to the power of zero")
            return Quotient(ONE)
        if exponent < 0:
            return self.divide(Quotient(ONE), self._rational_power(base, -exponent))
        if exponent.denominator == 1:
            whole = exponent.numerator
            top = self.atoms.power(base.top, whole) if base.top else {}
            return Quotient(top, base.bottom if base.bottom is ONE else self.atoms.power(base.bottom, whole))
        if not base.top:
            return base
        if base.bottom is not ONE:
            base = Quotient(self.atoms.term("opaque", ("quotient", self.key(base))))
        return Quotient(self._radical(base.top, exponent))

    def _radical(self, base: Poly, exponent: Rational) -> Poly:
        """Return a root of a polynomial: the positive content goes before the root."""
        if len(base) == 1 and () in base:
            return self.atoms.constant(base[()], exponent)
        outer = content(base)
        base = self.atoms.scale(base, simple(1 / Fraction(outer)))
        outside = self.atoms.constant(outer, exponent)
        if len(base) == 1:
            (monomial, coefficient), *_ = base.items()
            if coefficient == 1 and len(monomial) == 1:
                (atom, power), *_ = monomial
                kind, key, under = self.atoms.listed[atom]
                # x^3 has the sign of x, so (x^3)^(1/2) = x^(3/2) wherever it is real; (x^2)^(1/2) is |x|.
                if kind in ("prime", "divisor", "pi", "e") or (kind != "i" and power.denominator == 1 and power % 2 == 1):
                    return self.atoms.multiply(outside, self.atoms.term(kind, key, simple(power * exponent), under))
        key = frozenset(base.items())
        return self.atoms.multiply(outside, self.atoms.term("root", key, exponent, base))

    def key(self, form: Quotient) -> Any:
        """Return a hashable key of `form` that is equal for equal forms."""
        if form.bottom is ONE:
            return frozenset(form.top.items())
        self.work.spend(20 * (len(form.top) + len(form.bottom)))
        lead = simple(1 / Fraction(form.bottom[min(form.bottom)]))
        top, bottom = self.atoms.scale(form.top, lead), self.atoms.scale(form.bottom, lead)
        return frozenset(top.items()), frozenset(bottom.items())

    def _call(self, name: str, args: tuple[Node, ...], scope: Scope) -> Quotient:
        match name, args:
            case (("sum" | "prod" | "int"), (body, Symbol(index), start, stop)):
                return self._series(name, body, index, (self.form(start, scope), self.form(stop, scope)), scope)
            case "lim", (body, Symbol(index), target):
                inner = self.form(body, {**scope, index: self._bound(scope)})
                return self._opaque(name, [inner, self.form(target, scope)])
        forms = [self.form(arg, scope) for arg in args]
        constants = [form.rational() for form in forms]
        if None not in constants:
            try:
                literals = tuple(Number(Fraction(one)) if one is not None else Number(Fraction(0)) for one in constants)
                value = exactly.value(Call(name, literals), {}, self.work)
                return Quotient({(): value} if value else {})
            except Unsupported:
                pass
        return self._function(name, forms)

    def _function(self, name: str, forms: list[Quotient]) -> Quotient:
        match name, forms:
            case "exp", [one]:
                return self.power(Quotient(self.atoms.term("e", "e")), one)
            case "log", [one, base]:
                return self.divide(self._function("ln", [one]), self._function("ln", [base]))
            case "ln", [one]:
                return self._logarithm(one)
            case (("tan" | "cot" | "sec" | "csc"), [one]):
                above, below = _CIRCULAR[name]
                top = self._opaque(above, [one]) if above else Quotient(ONE)
                return self.divide(top, self._opaque(below, [one]))
        return self._opaque(name, forms)

    def _logarithm(self, one: Quotient) -> Quotient:
        """Return ln(one): a sum over the primes of a positive rational, 1 for e."""
        number = one.rational()
        if number is None or number <= 0:
            if number == 0:
                raise Undefined("the logarithm of zero")
            if one.bottom is ONE and one.top == self.atoms.term("e", "e"):
                return Quotient(ONE)
            return self._opaque("ln", [one])
        result: Poly = {}
        for part, sign in ((number.numerator, 1), (number.denominator, -1)):
            divisors, _ = integers.factor(part, self.work)
            for divisor, count in divisors.items():
                log = self._opaque("ln", [Quotient({(): divisor})])
                result = self.atoms.add(result, self.atoms.scale(log.top, sign * count))
        return Quotient(result)

    def _opaque(self, name: str, forms: list[Quotient]) -> Quotient:
        return Quotient(self.atoms.term("opaque", (name, *(self.key(form) for form in forms))))

    def _bound(self, scope: Scope) -> Quotient:
        """Return a new bound variable, named by its binding depth alone."""
        return Quotient(self.atoms.term("bound", len(scope)))

    def _series(self, name: str, body: Node, index: str, bounds: tuple[Quotient, Quotient], scope: Scope) -> Quotient:
        first, last = (bound.rational() for bound in bounds)
        if name != "int" and isinstance(first, int) and isinstance(last, int) and last - first < MAX_EXPANDED:
            result = Quotient({} if name == "sum" else ONE)
            for step in range(first, last + 1):
                term = self.form(body, {**scope, index: Quotient({(): step} if step else {})})
                result = self.plus(result, term) if name == "sum" else self.times(result, term)
            return result
        inner = self.form(body, {**scope, index: self._bound(scope)})
        return self._opaque(name, [inner, *bounds])


def difference(one: Quotient, two: Quotient, atoms: Atoms) -> Poly:
    """Return the numerator of `one - two` as a polynomial in `atoms`."""
    left = one.top if two.bottom is ONE else atoms.multiply(one.top, two.bottom)
    right = two.top if one.bottom is ONE else atoms.multiply(two.top, one.bottom)
    return atoms.add(left, atoms.scale(right, -1))
