"""Builds SymPy expressions from trees, by constructors alone: no text is parsed. Imported only in the worker process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal

import sympy as sp

from verigym.envs.math import tree
from verigym.envs.math.equality.conjugates import complex_names
from verigym.envs.math.equality.probing.points import integer_names
from verigym.envs.math.tree import BINDERS, FUNCTIONS, Call, Node, Symbol, children, symbols, walk

Domain = Literal["real", "positive"]

MAX_POWER_BITS = 200_000
MAX_FACTORIAL = 5_000
_GROWING = frozenset(("factorial", "doublefactorial", "binom", "perm", "exp", "sinh", "cosh"))

_DIRECT: dict[str, Callable[..., Any]] = {
    "sin": sp.sin, "cos": sp.cos, "tan": sp.tan, "cot": sp.cot, "sec": sp.sec, "csc": sp.csc, "arcsin": sp.asin,
    "arccos": sp.acos, "arctan": sp.atan, "arccot": lambda x: sp.pi / 2 - sp.atan(x), "sinh": sp.sinh, "cosh": sp.cosh,
    "tanh": sp.tanh, "exp": sp.exp, "ln": sp.log, "abs": sp.Abs, "floor": sp.floor, "ceil": sp.ceiling,
    "re": sp.re, "im": sp.im, "conj": sp.conjugate, "arg": sp.arg, "sign": sp.sign, "mod": sp.Mod, "max": sp.Max, "min": sp.Min,
}  # fmt: skip


class Unreadable(Exception):
    """The tree is not a scalar or matrix expression, or is too large to build."""


def growth(node: Node) -> int:
    """Return how deeply factorials and powers with variables are nested in `node`: 3 in `x^{x^{n!}}`."""
    below = max(map(growth, children(node)), default=0)
    match node:
        case tree.Pow(_, exponent) if symbols(exponent):
            return max(below, 1 + growth(exponent))
        case tree.Call(name, _) if name in _GROWING and symbols(node):
            return below + 1
    return below


class Namer:
    """Gives every name a SymPy symbol, the same for both trees of a comparison.

    A name is real, complex or a positive integer by the rules of the numerical comparison (`complex_names`, `integer_names`).
    These rules depend on which of the two trees is the gold.
    """

    def __init__(self, gold: Node, answer: Node, domain: Domain) -> None:
        self.domain = domain
        self.complex = complex_names(gold, answer)
        self.counting = integer_names(gold, answer)
        self.depends = dependents(part for node in (gold, answer) for part in walk(node))

    def __call__(self, name: str) -> Any:
        """Return the symbol of a name, or an unknown function if the name depends on variables of derivatives."""
        if name in self.depends:
            if not self.depends[name]:
                raise Unreadable("a name that is derived and derived by")
            return sp.Function(name)(*(self._symbol(variable) for variable in sorted(self.depends[name])))
        return self._symbol(name)

    def _symbol(self, name: str) -> Any:
        if name in self.counting:
            return sp.Symbol(name, integer=True, positive=True)
        if name in self.complex:
            return sp.Symbol(name)
        return sp.Symbol(name, positive=True) if self.domain == "positive" else sp.Symbol(name, real=True)


class Builder:
    """Builds the SymPy expressions of one comparison."""

    def __init__(self, namer: Namer) -> None:
        self.namer = namer
        self.bound: Mapping[str, Any] = {}

    def build(self, node: Node) -> Any:
        """Return the SymPy expression or matrix for the tree `node`.

        Raises:
            Unreadable: there is no SymPy expression for `node`.
        """
        match node:
            case tree.Number(value):
                return sp.Rational(value.numerator, value.denominator)
            case tree.Symbol(name):
                return self.bound[name] if name in self.bound else self.namer(name)
            case tree.Constant(name):
                return {"pi": sp.pi, "e": sp.E, "i": sp.I, "infinity": sp.oo}[name]
            case tree.Add(terms):
                return _sum([self.build(term) for term in terms])
            case tree.Mul(factors):
                return _product([self.build(factor) for factor in factors])
            case tree.Neg(of):
                return -self.build(of)
            case tree.Div(top, bottom):
                return _quotient(self.build(top), self.build(bottom))
            case tree.Pow(base, exponent):
                return self._power(base, exponent)
        return self._rarer(node)

    def _rarer(self, node: Node) -> Any:
        match node:
            case tree.Root(of, degree):
                return _root(self.build(of), self.build(degree))
            case tree.Percent(of):
                return self.build(of) / 100
            case tree.Quantity(of, "degree"):
                return _scalar(self.build(of)) * sp.pi / 180
            case tree.Call(name, args):
                return self._call(name, args)
            case tree.InBase(digits, base) if 2 <= base <= 36 and digits.isascii() and digits.isalnum():
                return sp.Integer(int(digits, base))
            case tree.Matrix(rows):
                return sp.Matrix([[_scalar(self.build(item)) for item in row] for row in rows])
        raise Unreadable(type(node).__name__)

    def _power(self, base: Node, exponent: Node) -> Any:
        below, above = self.build(base), self.build(exponent)
        if _is_matrix(below):
            if not above.is_Integer or abs(above) > 64:
                raise Unreadable("a power of a matrix")
            return below**above
        if below == sp.E:
            return sp.exp(above)
        # x^{1/3} is the cube root as a school knows it, and so the same as \sqrt[3]{x}.
        if above.is_Rational and not above.is_Integer and above.q % 2:
            return _power(_root(below, sp.Integer(above.q)), sp.Integer(above.p))
        return _power(below, above)

    def _call(self, name: str, args: tuple[Node, ...]) -> Any:
        count = FUNCTIONS.get(name, -1)
        if count not in (-1, None, len(args)) or not args:
            raise Unreadable(f"{name} of {len(args)} arguments")
        if name in BINDERS:
            return self._over(name, args)
        values = [self.build(arg) for arg in args]
        if name in ("det", "norm", "abs") and _is_matrix(values[0]):
            return _of_matrix(name, values[0])
        values = [_scalar(value) for value in values]
        if name in _DIRECT:
            return _DIRECT[name](*values)
        return _counting(name, values)

    def _over(self, name: str, args: tuple[Node, ...]) -> Any:
        """Build what binds a variable: sums, products, integrals, limits, derivatives."""
        if not isinstance(args[1], tree.Symbol):
            raise Unreadable(f"{name} over no variable")
        variable, limits = args[1].name, [_scalar(self.build(arg)) for arg in args[2:]]
        outer = self.bound
        if name == "diff":
            return _scalar(self.build(args[0])).diff(self.build(args[1]))
        if hidden(args[0], variable, outer):
            raise Unreadable("an unknown function under a sum, an integral or a limit")
        symbol = sp.Symbol(variable, integer=True) if name in ("sum", "prod") else sp.Symbol(variable, real=True)
        self.bound = {**outer, variable: symbol}
        try:
            body = _scalar(self.build(args[0]))
        finally:
            self.bound = outer
        if name == "lim":
            return sp.Limit(body, symbol, limits[0], "+" if limits[0].is_infinite else "+-")
        return {"sum": sp.Sum, "prod": sp.Product, "int": sp.Integral}[name](body, (symbol, *limits))


def _counting(name: str, values: list[Any]) -> Any:
    """Apply the functions of combinatorics and number theory, the logarithm, or a function without a meaning."""
    first = values[0]
    if name == "log":
        return sp.log(first) / sp.log(values[1])
    if name in ("factorial", "doublefactorial"):
        if first.is_number and not (first.is_Integer and 0 <= first <= MAX_FACTORIAL):
            raise Unreadable("a factorial of no small whole number")
        return sp.factorial(first) if name == "factorial" else sp.factorial2(first)
    if name in ("binom", "perm"):
        if any(value.is_number and abs(value) > MAX_FACTORIAL for value in values):
            raise Unreadable("a large binomial")
        return sp.binomial(*values) if name == "binom" else sp.ff(*values)
    if name in ("gcd", "lcm"):
        if not all(value.is_Integer for value in values):
            raise Unreadable(f"{name} of no whole numbers")
        return sp.Integer((sp.igcd if name == "gcd" else sp.ilcm)(*values))
    if name in FUNCTIONS:
        raise Unreadable(name)
    return sp.Function(name)(*values)


def _of_matrix(name: str, matrix: Any) -> Any:
    if name != "norm" and matrix.is_square:
        return matrix.det()
    if name == "norm" and 1 in matrix.shape:
        return matrix.norm()
    raise Unreadable(f"{name} of a matrix")


def _is_matrix(value: Any) -> bool:
    return isinstance(value, sp.MatrixBase)


def _scalar(value: Any) -> Any:
    if _is_matrix(value):
        raise Unreadable("a matrix in the place of a number")
    return value


def _sum(values: list[Any]) -> Any:
    if not any(_is_matrix(value) for value in values):
        return sp.Add(*values)
    if not all(_is_matrix(value) and value.shape == values[0].shape for value in values):
        raise Unreadable("a sum of different shapes")
    return sum(values[1:], values[0])


def _product(values: list[Any]) -> Any:
    if not any(_is_matrix(value) for value in values):
        return sp.Mul(*values)
    result = values[0]
    for value in values[1:]:
        if _is_matrix(result) and _is_matrix(value) and result.shape[1] != value.shape[0]:
            raise Unreadable("a product of shapes that do not fit")
        result = result * value
    return result


def _quotient(top: Any, bottom: Any) -> Any:
    return top / _scalar(bottom)


def _power(base: Any, exponent: Any) -> Any:
    if base.is_Rational and exponent.is_Rational and not base.is_zero:
        size = max(abs(base.p), base.q).bit_length() - 1
        if size * abs(exponent.p) // exponent.q > MAX_POWER_BITS or abs(exponent.p).bit_length() > 64:
            raise Unreadable("a power too large to write out")
    return sp.Pow(base, exponent)


def _root(of: Any, degree: Any) -> Any:
    of, degree = _scalar(of), _scalar(degree)
    if degree.is_Integer and degree > 1 and degree % 2 and of.is_extended_real:
        # The real root of a negative number; `sp.root` would give a complex one.
        if of.is_extended_nonnegative:
            return sp.Pow(of, 1 / degree)
        return -sp.Pow(-of, 1 / degree) if of.is_negative else sp.sign(of) * sp.Pow(sp.Abs(of), 1 / degree)
    return sp.Pow(of, 1 / degree)


_FUNCTIONS = frozenset("f g h F G H y u v".split())
"""Names that by themselves mean a function of the variable of an integral or a limit."""
_CONSTANTS = frozenset("a b c k m n p q A B C alpha beta gamma lambda mu omega phi theta".split())
"""Names that mean constants in what is derived, unless they are derived themselves: `\frac{da}{dt}`."""


def dependents(parts: Iterable[Node]) -> dict[str, frozenset[str]]:
    r"""Return the names whose derivatives occur in `parts`, each with the variables that it is a function of.

    A name gets no variables if others are differentiated with respect to it: both x and y, for `\frac{dy}{dx}` beside
    `\frac{dx}{dy}`.
    """
    variables_of: dict[str, frozenset[str]] = {}
    variables: set[str] = set()
    derived: set[str] = set()
    for part in parts:
        if not isinstance(part, Call) or part.name != "diff" or len(part.args) != 2 or not isinstance(part.args[1], Symbol):
            continue
        body, variable = part.args[0], part.args[1].name
        variables.add(variable)
        names = symbols(body) - {variable}
        derived.update({body.name} - {variable} if isinstance(body, Symbol) else ())
        for name in names if isinstance(body, Symbol) else names - _CONSTANTS:
            variables_of[name] = variables_of.get(name, frozenset()) | {variable}
    return {
        name: frozenset() if name in variables else of for name, of in variables_of.items() if name not in variables - derived
    }


def hidden(body: Node, variable: str, bound: Collection[str]) -> bool:
    """Return whether a name in `body` may depend on `variable` in a way that the tree does not show.

    Args:
        body: the body of a sum, integral or limit.
        variable: the variable of the sum, integral or limit.
        bound: names that surrounding sums, integrals or limits bind. They do not count.
    """
    return any(
        name != variable
        and name not in bound
        and (name in _FUNCTIONS or variable in name.partition("_")[2].strip("{}").replace(",", ""))
        for name in symbols(body)
    )
