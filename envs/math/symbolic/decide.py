"""Decides with SymPy whether two trees have the same value. Imported only in the worker process, whose children may be killed.

The verdict `same` needs a proof that the difference is zero. If a proof holds for positive variables only, exact values at
points with every combination of signs must agree as well. The verdict `different` needs a point at which both trees are defined
and their difference is certainly not zero: it is computed with error bounds, at two precisions, and never rounded to zero.
Everything else is `unknown`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import sympy as sp
from sympy.functions.elementary.hyperbolic import HyperbolicFunction
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from verigym.envs.math.equality.conjugates import with_conjugates
from verigym.envs.math.symbolic.construct import Builder, Domain, Namer, Unreadable, growth
from verigym.envs.math.tree import Node, Verdict

_UNFINISHED = (sp.Limit, sp.Sum, sp.Product, sp.Integral, sp.Derivative)
_STEPPING = (sp.Max, sp.Min, sp.floor, sp.ceiling, sp.sign, sp.Mod)
_INVERSE_TRIGONOMETRIC = (sp.asin, sp.acos, sp.atan)
MAX_GROWTH = 2
"""Greatest nesting of factorials and powers (see `growth`) that SymPy is given. With more, it runs into its time limit."""
_PROBES, _FIRST, _ENOUGH = 10, 2, 3
_DIGITS, _MORE_DIGITS = 20, 45


def decide(first: Node, second: Node) -> Verdict:
    """Compare the values of `first`, which is the gold, and `second`, and return the verdict."""
    try:
        if max(growth(first), growth(second)) > MAX_GROWTH:
            return "unknown"
        first, second = with_conjugates(first, second)
        real = _pairs(first, second, "real")
        if real is None:
            return "different"  # matrices of different shapes
        positive: list[list[tuple[Any, Any]]] = []

        def assuming_positive(index: int) -> tuple[Any, Any] | None:
            if not positive:
                positive.append(_pairs(first, second, "positive") or [])
            return positive[0][index] if len(positive[0]) == len(real) else None

        verdicts = [_compare(*pair, lambda index=index: assuming_positive(index)) for index, pair in enumerate(real)]  # type: ignore[misc]
    except MemoryError:
        raise
    except Exception:  # SymPy raises all kinds of exceptions
        return "unknown"
    if "different" in verdicts:
        return "different"
    return "unknown" if "unknown" in verdicts else "same"


def _pairs(first: Node, second: Node, domain: Domain) -> list[tuple[Any, Any]] | None:
    """Build both, and return what to compare: one pair, or one an entry of matrices; None for different shapes."""
    builder = Builder(Namer(first, second, domain))
    left, right = builder.build(first), builder.build(second)
    matrices = [isinstance(side, sp.MatrixBase) for side in (left, right)]
    if not any(matrices):
        return [(_finished(left), _finished(right))]
    if not all(matrices):
        raise Unreadable("a matrix and a number")
    if left.shape != right.shape:
        return None
    return [(_finished(one), _finished(two)) for one, two in zip(left.flat(), right.flat(), strict=True)]


def _finished(value: Any) -> Any:
    """Carry out limits, sums, integrals and derivatives; an integral's value is held against a numerical one."""
    if not value.has(*_UNFINISHED):
        return value
    done = _generic(value.doit())
    if value.has(sp.Integral) and not value.free_symbols and not done.has(*_UNFINISHED) and done.is_finite:
        exact, rough = (complex(side.evalf(10)) for side in (done, value))
        if abs(exact - rough) > 1e-4 * max(1.0, abs(exact)):
            raise Unreadable("an integral whose value is in doubt")
    return done


def _generic(value: Any) -> Any:
    """Return the value without the special cases of its variables: where it converges, and where no two happen to be equal."""

    def pick(*branches: Any) -> Any:
        rest = [(term, test) for term, test in branches if not term.has(*_UNFINISHED) and not isinstance(test, sp.Eq)]
        return rest[0][0] if len(rest) == 1 else sp.Piecewise(*branches)

    return value.replace(sp.Piecewise, pick) if value.has(sp.Piecewise) else value


def _compare(left: Any, right: Any, assuming_positive: Callable[[], tuple[Any, Any] | None]) -> Verdict:
    if left.has(sp.nan, sp.zoo) or right.has(sp.nan, sp.zoo):
        return "unknown"
    if left == right:
        return "same"
    if left.is_infinite or right.is_infinite:
        known = all(side.is_extended_real and side.is_infinite is not None for side in (left, right))
        return "different" if known else "unknown"
    difference = left - right
    if difference.is_Rational:
        return "same" if difference.is_zero else "different"
    if difference.has(*_UNFINISHED):
        return "same" if difference.simplify() == 0 else "unknown"
    points = list(_points(left, right))
    seen = [_agree_at(left, right, point) for point in points[:_FIRST]]
    if False in seen:
        return "different"
    if is_zero(difference):
        return "same"
    for point in points[_FIRST:]:
        seen.append(_agree_at(left, right, point))
        if seen[-1] is False:
            return "different"
    # For positive numbers these may do nothing, and for others what no probe shows.
    if difference.has(*_STEPPING) or any(modulus.args[0].has(sp.Add) for modulus in difference.atoms(sp.Abs)):
        return "unknown"
    pair = assuming_positive() if seen.count(True) >= _ENOUGH else None
    return "same" if pair and is_zero(pair[0] - pair[1]) else "unknown"


def _points(left: Any, right: Any) -> Iterator[dict[Any, Any]]:
    names = sorted(left.free_symbols | right.free_symbols, key=lambda symbol: symbol.name)
    if not names:
        yield {}
        return
    draw = random.Random("probes of the symbolic tier")
    for number in range(_PROBES):
        point = {}
        for symbol in names:
            if symbol.is_integer:
                point[symbol] = sp.Integer(draw.randint(1, 9))
                continue
            size = sp.Rational(draw.randint(1, 96), 97) + (number % 3)
            sign = draw.choice((1, -1)) if number % 4 and not symbol.is_positive else 1
            point[symbol] = sign * size + (sp.I * sp.Rational(draw.randint(1, 50), 53) if symbol.is_real is None else 0)
        yield point


def _agree_at(left: Any, right: Any, point: dict[Any, Any]) -> bool | None:
    """Whether the values at a point agree as far as can be seen; None where one is undefined, or not real among reals."""
    real = all(symbol.is_real for symbol in point) and bool(point)
    values = []
    for side in (left, right):
        strict = real and not side.has(sp.I)
        if strict and not _stays_real(side, point):
            return None
        value = side.evalf(_DIGITS, subs=point)
        parts = value.as_real_imag() if value.is_number else (sp.nan, sp.nan)
        if not all(part.is_Float or part.is_Rational for part in parts):
            return None
        values.append(complex(*map(_small_float, parts)))
        if strict and abs(values[-1].imag) > abs(values[-1].real) * 1e-9:
            return None
    # At a point of several, that many digits settle it: a proof has the last word. Of constants, the difference is looked at.
    if point and abs(values[0] - values[1]) <= 1e-13 * max(map(abs, values)):
        return True
    return not _certainly_not_zero(left - right, point)


def _small_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _stays_real(side: Any, point: dict[Any, Any]) -> bool:
    """Return whether no root or logarithm on the way is of a negative number; two that are may well have a real product."""
    inner = [power.base for power in side.atoms(sp.Pow) if not power.exp.is_integer]
    inner += [log.args[0] for log in side.atoms(sp.log)]
    return all(value.evalf(_DIGITS, subs=point).is_extended_nonnegative for value in inner)


def _certainly_not_zero(difference: Any, point: dict[Any, Any]) -> bool:
    """Whether two precisions give the same difference, which carries significant digits; an unclear zero carries none."""
    rough, fine = (difference.evalf(digits, subs=point, maxn=300) for digits in (_DIGITS, _MORE_DIGITS))
    for one, two in zip(rough.as_real_imag(), fine.as_real_imag(), strict=True):
        if not all(part.is_Rational or (part.is_Float and part._prec > 1) for part in (one, two)):
            continue
        if two != 0 and abs(one - two) < abs(two) * sp.Rational(1, 10**8):
            return True
    return False


def is_zero(value: Any) -> bool:
    """Return whether SymPy proves that `value`, an expression without floats, is zero. Cheap methods are tried first."""
    return any(step(value) == 0 for step in _ways(value))


def _ways(value: Any) -> Iterator[Callable[[Any], Any]]:
    yield sp.expand
    unreal = [symbol for symbol in value.free_symbols if symbol.is_real is None]
    if unreal:
        parts = {symbol: sp.Dummy(real=True) + sp.I * sp.Dummy(real=True) for symbol in unreal}
        yield lambda e: sp.expand(sp.expand(e.xreplace(parts), complex=True))
    if value.has(TrigonometricFunction, HyperbolicFunction, sp.exp):
        yield lambda e: _numerator(e.rewrite(sp.exp))  # where no power of one exponential is another, the numerator is zero
    if value.has(sp.log):
        yield lambda e: sp.expand(sp.expand_log(e.replace(sp.log, _split_log)))
    if value.has(sp.factorial, sp.binomial, sp.ff):
        yield lambda e: sp.combsimp(e)
    if any(map(_is_radical, value.atoms(sp.Pow))):
        yield sp.radsimp
        yield lambda e: sp.expand(sp.sqrtdenest(e))
    yield _numerator
    if value.free_symbols or not value.is_algebraic:
        yield sp.simplify
    if value.free_symbols:
        yield lambda e: _numerator(e.replace(_is_radical, lambda root: sp.Pow(_settled(root.base), root.exp)))
        return
    if value.is_algebraic:
        yield _minimal_polynomial
    # Of a number so small, the tangent or the exponential tells whether it is zero.
    elif abs(complex(value.evalf(15, maxn=60))) < 1e-3:
        if value.has(*_INVERSE_TRIGONOMETRIC):
            yield lambda e: sp.simplify(sp.expand_trig(sp.tan(sp.expand(e))))
        if value.has(sp.log, *_INVERSE_TRIGONOMETRIC):
            yield lambda e: sp.simplify(sp.exp(sp.expand(e))) - 1


def _numerator(value: Any) -> Any:
    return sp.expand(sp.fraction(sp.together(value))[0])


def _is_radical(value: Any) -> bool:
    return bool(value.is_Pow and value.exp.is_Rational and not value.exp.is_Integer)


def _settled(value: Any) -> Any:
    """Return one form for the many of what stands under a root."""
    return sp.factor(sp.expand(value.replace(sp.tan, lambda x: sp.sin(x) / sp.cos(x))))


def _split_log(argument: Any) -> Any:
    """Write the logarithm of a whole number or a fraction by those of its primes."""
    if argument.is_Rational and argument.is_positive and max(argument.p, argument.q).bit_length() < 64:
        return sp.Add(*(power * sp.log(prime, evaluate=False) for prime, power in argument.factors().items()))
    return sp.log(argument)


def _minimal_polynomial(value: Any) -> Any:
    """Return zero if the minimal polynomial of an algebraic number says that it is zero."""
    unknown = sp.Dummy("x")
    return 0 if sp.minimal_polynomial(value, unknown) == unknown else 1
