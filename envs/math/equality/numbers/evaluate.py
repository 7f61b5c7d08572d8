"""Numerical values of trees, given values of their symbols."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction

from verigym.envs.math.build import literal
from verigym.envs.math.equality.budget import TooMuch, Undefined, Unsupported
from verigym.envs.math.equality.numbers import exactly
from verigym.envs.math.equality.numbers.numeric import Arithmetic, Value
from verigym.envs.math.equality.steps import Steps
from verigym.envs.math.tree import (
    FUNCTIONS,
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

MAX_TERMS = 10_000
_ELEMENTARY = frozenset("sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh exp ln".split())
_EXACT_FACTORIAL = 5000
_ROUNDED_BITS = 100
"""Precision in bits to which arguments of unknown functions are rounded before the function value is drawn."""

Scope = Mapping[str, Value]


class Evaluation:
    """Evaluates trees at one point, with one precision."""

    def __init__(self, arithmetic: Arithmetic, seed: str, steps: Steps | None = None) -> None:
        """Compute with `arithmetic`. `seed` determines the values of unknown functions such as f(x).

        `steps`, if given, records which branches of step functions are taken.
        """
        self.arithmetic = arithmetic
        self.seed = seed
        self.steps = steps

    def value(self, node: Node, scope: Scope) -> Value:  # noqa: C901  (a table of the kinds of nodes)
        """Return the value of `node`, using the values in `scope` for symbols. Raise `Undecided` if `node` has no value."""
        arithmetic = self.arithmetic
        arithmetic.work.spend(10)
        match node:
            case Number(number):
                # A long literal differs from its neighbour only in its last bits.
                arithmetic.need += max(0, number.numerator.bit_length() - 48) + max(0, number.denominator.bit_length() - 48)
                return arithmetic.rational(number.numerator, number.denominator)
            case Symbol(name):
                if name in scope:
                    return scope[name]
                raise Unsupported(f"the symbol {name}")
            case Constant(name):
                return arithmetic.constant(name)
            case Neg(of):
                return arithmetic.negative(self.value(of, scope))
            case Add(terms):
                return arithmetic.total([self.value(term, scope) for term in terms])
            case Mul(factors):
                result = self.value(factors[0], scope)
                for factor in factors[1:]:
                    result = arithmetic.product(result, self.value(factor, scope))
                return result
            case Div(top, bottom):
                return arithmetic.quotient(self.value(top, scope), self.value(bottom, scope))
            case Pow(base, exponent):
                return self._power(base, exponent, scope)
            case Root(of, degree):
                return self._root(of, degree, scope)
            case Percent(of):
                return arithmetic.quotient(self.value(of, scope), arithmetic.rational(100))
            case Quantity(of, "degree"):
                angle = arithmetic.product(self.value(of, scope), arithmetic.constant("pi"))
                return arithmetic.quotient(angle, arithmetic.rational(180))
            case Call(name, args):
                return self._call(node, name, args, scope)
        raise Unsupported(type(node).__name__)

    def _power(self, base: Node, exponent: Node, scope: Scope) -> Value:
        ratio = _ratio(exponent)
        odd = None if ratio is None or ratio.denominator % 2 == 0 else ratio.numerator
        return self.arithmetic.power(self.value(base, scope), self.value(exponent, scope), odd)

    def _root(self, of: Node, degree: Node, scope: Scope) -> Value:
        arithmetic = self.arithmetic
        value, order = self.value(of, scope), arithmetic.integer(self.value(degree, scope))
        if order is None or order == 0:
            raise Unsupported("a root of this degree")
        if order == 2 and len(value) == 4 and not value[0]:
            arithmetic.work.spend(arithmetic.cheap * 4)
            arithmetic.need += 1
            return arithmetic.lib.mpf_sqrt(value, arithmetic.precision, "n")
        exponent = arithmetic.rational(1 if order > 0 else -1, abs(order))
        return arithmetic.power(value, exponent, 1 if order % 2 else None)

    def _call(self, node: Node, name: str, args: tuple[Node, ...], scope: Scope) -> Value:
        steps = self.steps if self.steps is not None and self.steps.watches(node) else None
        match name, args:
            case (("sum" | "prod"), (body, Symbol(index), start, stop)):
                result = self._series(name, body, index, (start, stop), scope)
                if steps is not None:
                    trivial = result == self.arithmetic.lib.fzero or (name == "prod" and result == self.arithmetic.lib.fone)
                    steps.note(node, "vanishes" if trivial else "counts")
                return result
            case "det", (Matrix(),):
                number = exactly.value(Call(name, args), {}, self.arithmetic.work)
                return self.arithmetic.rational(number.numerator, number.denominator)
        if name in FUNCTIONS and name not in _ELEMENTARY and name not in _NUMBER_FUNCTIONS:
            raise Unsupported(name)
        values = [self.value(arg, scope) for arg in args]
        if len(values) == 1 and name in _ELEMENTARY:
            return self.arithmetic.function(name, values[0])
        if name in _NUMBER_FUNCTIONS:
            result = self._number_function(name, values)
            if steps is not None:
                steps.note(node, self._way(name, values, result))
            return result
        return self._unknown(name, values)

    def _way(self, name: str, values: list[Value], result: Value) -> str:
        """Return the branch of a step function: the step, the winning argument, or whether it is zero."""
        match name:
            case "max" | "min":
                return str(values.index(result))
            case "mod":
                return str(self._number_function("floor", [self.arithmetic.quotient(*values)]))
            case "binom" | "perm":
                return "vanishes" if result == self.arithmetic.lib.fzero else "counts"
        return str(result)

    def _unknown(self, name: str, values: list[Value]) -> Value:
        """Return the value of an unknown function: drawn by a hash of its name and its arguments."""
        lib = self.arithmetic.lib
        parts = []
        for value in values:
            for part in value if len(value) == 2 else (value,):
                parts.append(str(lib.mpf_pos(part, _ROUNDED_BITS, "n")))
            parts.append("|")
        digest = hashlib.sha256("/".join((self.seed, name, *parts)).encode("utf-8", "replace")).digest()
        drawn = int.from_bytes(digest[:6], "big") - (1 << 47)
        return lib.from_man_exp(drawn or 1, -46)

    def _number_function(self, name: str, values: list[Value]) -> Value:  # noqa: C901  (a table of short cases)
        arithmetic, lib = self.arithmetic, self.arithmetic.lib
        whole = name in ("gcd", "lcm") or (name in ("binom", "perm", "factorial", "doublefactorial", "mod"))
        numbers = [arithmetic.integer(value) for value in values] if whole else []
        match name, values:
            case "abs", [one]:
                return arithmetic.absolute(one)
            case "log", [one, base]:
                return arithmetic.quotient(arithmetic.function("ln", one), arithmetic.function("ln", base))
            case "re", [one]:
                return one[0] if len(one) == 2 else one
            case "im", [one]:
                return one[1] if len(one) == 2 else lib.fzero
            case "conj", [one]:
                return (one[0], lib.mpf_neg(one[1])) if len(one) == 2 else one
            case "arg", [one] if one != lib.fzero:
                return lib.mpc_arg(arithmetic.pair(one), arithmetic.precision, "n")
            case "sign", [one] if len(one) == 4:
                return lib.from_int(lib.mpf_sign(one))
            case (("max" | "min"), [first, *rest]) if all(len(one) == 4 for one in values):
                for one in rest:
                    first = one if (lib.mpf_cmp(one, first) > 0) == (name == "max") else first
                return first
            case (("floor" | "ceil"), [one]) if len(one) == 4:
                near = arithmetic.integer(one)
                return lib.from_int(lib.to_int(getattr(lib, "mpf_" + name)(one)) if near is None else near)
            case "factorial", [one] if numbers[0] is None or numbers[0] > _EXACT_FACTORIAL:
                return arithmetic.gamma(arithmetic.total([one, lib.fone]))
            case "mod", [one, two] if None in numbers:
                ratio = self._number_function("floor", [arithmetic.quotient(one, two)])
                return arithmetic.total([one, arithmetic.negative(arithmetic.product(ratio, two))])
            case (("binom" | "perm"), [top, count]) if numbers[0] is None or abs(numbers[0]) > 10**6:
                return self._choose(name, top, count, numbers[1])
        if not whole or any(number is None or number.bit_length() > 4000 for number in numbers):
            raise Unsupported(name)
        literals = tuple(literal(Fraction(one)) for one in numbers if one is not None)
        fraction = exactly.value(Call(name, literals), {}, arithmetic.work)
        return arithmetic.rational(fraction.numerator, fraction.denominator)

    def _choose(self, name: str, top: Value, count: Value, number: int | None) -> Value:
        """Return top over count by a product for a small count, else by gamma functions."""
        arithmetic, lib = self.arithmetic, self.arithmetic.lib
        if number is not None and number <= 200:
            result = lib.fone if number >= 0 else lib.fzero
            for step in range(number):
                factor = arithmetic.total([top, lib.from_int(-step)])
                result = arithmetic.product(result, factor)
                if name == "binom":
                    result = arithmetic.quotient(result, lib.from_int(step + 1))
            return result
        one = lib.fone
        above = arithmetic.gamma(arithmetic.total([top, one]))
        below = arithmetic.gamma(arithmetic.total([top, arithmetic.negative(count), one]))
        if name == "binom":
            below = arithmetic.product(below, arithmetic.gamma(arithmetic.total([count, one])))
        return arithmetic.quotient(above, below)

    def _series(self, name: str, body: Node, index: str, bounds: tuple[Node, Node], scope: Scope) -> Value:
        arithmetic = self.arithmetic
        first, last = (arithmetic.integer(self.value(bound, scope)) for bound in bounds)
        if first is None or last is None:
            raise Undefined("a bound that is not an integer")
        if last - first >= MAX_TERMS:
            raise TooMuch("a series of more than 10,000 terms")
        before, widest = arithmetic.need, 0
        inner = dict(scope)
        terms = []
        result = arithmetic.lib.fone
        for step in range(first, last + 1):
            inner[index] = arithmetic.lib.from_int(step)
            term = self.value(body, inner)
            if name == "sum":
                terms.append(term)
            else:
                result = arithmetic.product(result, term)
            widest, arithmetic.need = max(widest, arithmetic.need - before), before
        arithmetic.need = before + widest
        return arithmetic.total(terms) if name == "sum" else result


_NUMBER_FUNCTIONS = frozenset(
    "abs log re im conj arg sign max min floor ceil factorial doublefactorial binom perm mod gcd lcm".split()
)


def _ratio(node: Node) -> Fraction | None:
    """Return the value of a literal fraction: what stands in an exponent."""
    match node:
        case Number(number):
            return number
        case Neg(of):
            inner = _ratio(of)
            return None if inner is None else -inner
        case Div(Number(top), Number(bottom)) if bottom:
            return top / bottom
    return None
