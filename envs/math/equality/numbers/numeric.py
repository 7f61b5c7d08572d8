"""Functions of real and complex numbers with many digits, computed by libmp, mpmath's lower layer without global settings.

The size of each argument is checked before anything is computed. A real number is an mpf of libmp (a tuple of four), and a
complex number is a pair of mpfs. libmp's caches of constants are not thread-safe (a value and its precision are stored one
after the other), so every caller must hold `LOCK`. Holding it costs nothing under the GIL. A fork waits for `LOCK`, so that a
child process never starts with the lock held.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

from verigym.envs.math.equality.budget import TooMuch, Undefined, Unsupported, WorkBudget

Value = Any  # an mpf tuple or a pair of them: mpmath has no types

LOCK = threading.Lock()
os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release)

SLACK = 48
"""Number of bits at the end of a number that rounding may have changed. A sum counts as zero if it is so small that it affects
only these last bits of its largest term."""
MAX_PRECISION = 66_000
"""Bits; about 20,000 digits."""
_DOWN = "n"
_SATURATING = frozenset(("sinh", "cosh", "tanh"))


class Arithmetic:
    """Floating-point arithmetic of one precision.

    `need` is the precision in bits that the numbers computed so far require: it grows where large and small numbers
    meet. `lost` is the
    number of bits lost by cancellation in sums.
    """

    def __init__(self, precision: int, work: WorkBudget, *, real: bool) -> None:
        """Compute with `precision` bits. With `real`, a function or power whose value is not real raises `Undefined`."""
        self.lib: Any = importlib.import_module("mpmath.libmp")
        self.precision = precision
        self.work = work
        self.real = real
        self.need = 0
        self.lost = 0
        words = precision >> 6
        self.cheap = 15 + (words * words >> 5)
        self.dear = 70 + 2 * words * words

    # --- numbers in and out -----------------------------------------------------------------------------------------
    def rational(self, top: int, bottom: int = 1) -> Value:
        """Return the value of `top / bottom`."""
        self.work.spend(self.cheap)
        if bottom == 1:
            return self.lib.from_int(top, self.precision, _DOWN)
        return self.lib.from_rational(top, bottom, self.precision, _DOWN)

    def constant(self, name: str) -> Value:
        """Return the value of the constant `name`: pi, e or i."""
        self.work.spend(self.cheap * 3)
        if name == "pi":
            return self.lib.mpf_pi(self.precision, _DOWN)
        if name == "e":
            return self.lib.mpf_e(self.precision, _DOWN)
        if name == "i" and not self.real:
            return (self.lib.fzero, self.lib.fone)
        raise Unsupported(name)

    def integer(self, value: Value) -> int | None:
        """Return the integer that `value` equals up to rounding; None if `value` is not close to an integer."""
        if len(value) == 2:
            return None
        if value == self.lib.fzero:
            return 0
        size = magnitude(value)
        if size > self.precision - SLACK:
            raise TooMuch("an integer with more digits than are computed")
        if size < 0:
            return 0 if size < SLACK - self.precision else None
        nearest: int = self.lib.to_int(value, "n")
        rest = self.lib.mpf_sub(value, self.lib.from_int(nearest), self.precision, _DOWN)
        if rest == self.lib.fzero or magnitude(rest) < size - self.precision + SLACK:
            return nearest
        return None

    # --- arithmetic -------------------------------------------------------------------------------------------------
    def total(self, terms: list[Value]) -> Value:
        """Return the sum of `terms`. A sum so small that it may be only rounding error is returned as zero."""
        lib = self.lib
        self.work.spend(15 * len(terms) + (self.precision >> 8))
        real = imaginary = lib.fzero
        low, high, high_real, high_imaginary = None, None, None, None
        for term in terms:
            part, other = term if len(term) == 2 else (term, None)
            if part[1]:
                size = part[2] + part[3]
                low = size if low is None or size < low else low
                high_real = size if high_real is None or size > high_real else high_real
                real = lib.mpf_add(real, part, self.precision, _DOWN)
            if other is not None and other[1]:
                size = other[2] + other[3]
                low = size if low is None or size < low else low
                high_imaginary = size if high_imaginary is None or size > high_imaginary else high_imaginary
                imaginary = lib.mpf_add(imaginary, other, self.precision, _DOWN)
        if low is None:
            return lib.fzero
        sizes = [size for size in (high_real, high_imaginary) if size is not None]
        high = max(sizes)
        self.need += max(0, high - low - 32)
        real, imaginary = self._snap(real, high), self._snap(imaginary, high)
        if imaginary == lib.fzero:
            return real
        return (real, imaginary)

    def _snap(self, part: Value, high: int) -> Value:
        if not part[1]:
            return self.lib.fzero
        size = part[2] + part[3]
        if size < high - self.precision + SLACK:
            return self.lib.fzero
        self.lost += max(0, high - size - 8)
        return part

    def negative(self, value: Value) -> Value:
        """Return the negative of `value`."""
        if len(value) == 2:
            return (self.lib.mpf_neg(value[0]), self.lib.mpf_neg(value[1]))
        return self.lib.mpf_neg(value)

    def product(self, one: Value, two: Value) -> Value:
        """Return the product of `one` and `two`."""
        self.work.spend(self.cheap * (1 if len(one) == len(two) == 4 else 5))
        if len(one) == 4 and len(two) == 4:
            return self.lib.mpf_mul(one, two, self.precision, _DOWN)
        return self.tidy(self.lib.mpc_mul(self.pair(one), self.pair(two), self.precision, _DOWN))

    def quotient(self, one: Value, two: Value) -> Value:
        """Return the quotient `one / two`."""
        self.work.spend(self.cheap * (2 if len(one) == len(two) == 4 else 8))
        if two == self.lib.fzero:
            raise Undefined("a division by zero")
        if len(one) == 4 and len(two) == 4:
            return self.lib.mpf_div(one, two, self.precision, _DOWN)
        return self.tidy(self.lib.mpc_div(self.pair(one), self.pair(two), self.precision, _DOWN))

    def pair(self, value: Value) -> Value:
        """Return `value` as a pair of real and imaginary part."""
        return value if len(value) == 2 else (value, self.lib.fzero)

    def tidy(self, value: Value) -> Value:
        """Return the complex `value` without a real or imaginary part that is only a rounding error.

        If no imaginary part is left, the result is a real number.
        """
        real, imaginary = value
        if imaginary[1] and real[1]:
            difference = imaginary[2] + imaginary[3] - real[2] - real[3]
            if difference < SLACK - self.precision:
                return real
            if difference > self.precision - SLACK:
                real = self.lib.fzero
        return finite(real) if not imaginary[1] and not imaginary[2] else (finite(real), finite(imaginary))

    # --- powers -----------------------------------------------------------------------------------------------------
    def power(self, base: Value, exponent: Value, odd: int | None = None) -> Value:
        """Return `base` to the power of `exponent`.

        Args:
            base: a real or complex number.
            exponent: a real or complex number.
            odd: the numerator of the exponent, if the exponent is a fraction with an odd denominator. A negative base then has
                the real power taught at school. If None, it has the principal power.
        """
        lib = self.lib
        self.work.spend(self.dear * (2 if len(base) == len(exponent) == 4 else 6))
        if base == lib.fzero:
            if len(exponent) == 2 or exponent[0] or exponent == lib.fzero:
                raise Undefined("zero to a power that is not positive")
            return base
        if exponent == lib.fzero:
            return lib.fone
        self._span(exponent)
        self.need += max(0, 1 - magnitude(exponent))  # a root is nearer to 1 than its base is
        if len(exponent) == 4 and magnitude(exponent) > 64 or magnitude(base).bit_length() > 40:
            raise TooMuch("a power of this size")
        if len(exponent) == 4 and (whole := self.integer(exponent)) is not None:
            if len(base) == 4:
                return finite(lib.mpf_pow_int(base, whole, self.precision, _DOWN))
            return self.tidy(lib.mpc_pow_int(base, whole, self.precision, _DOWN))
        if len(base) == 4 and len(exponent) == 4 and (not base[0] or odd is not None):
            result = finite(lib.mpf_pow(lib.mpf_abs(base), exponent, self.precision, _DOWN))
            return lib.mpf_neg(result) if base[0] and odd is not None and odd % 2 else result
        if self.real:
            raise Undefined("a power that is not real")
        logarithm = lib.mpc_log(self.pair(base), self.precision + 16, _DOWN)
        return self._complex_exp(lib.mpc_mul(logarithm, self.pair(exponent), self.precision + 16, _DOWN))

    def _complex_exp(self, value: Value) -> Value:
        if size_of(value) > 64:
            raise TooMuch("an exponential of this size")
        return self.tidy(self.lib.mpc_exp(value, self.precision, _DOWN))

    def _span(self, value: Value) -> None:
        self.need += 2 * max(0, abs(magnitude(value)) - 16)

    def _saturate(self, value: Value) -> None:
        """Ask for the bits down to exp(-2 |value|), where tanh differs from 1 and sinh from cosh."""
        part = value[0] if len(value) == 2 else value
        if size_of(part) > 15:
            raise TooMuch("a hyperbolic function of an argument of this size")
        self.need += 3 * abs(int(self.lib.to_int(part)))

    # --- functions --------------------------------------------------------------------------------------------------
    def function(self, name: str, value: Value) -> Value:  # noqa: C901  (a table of functions, then one path)
        """Return the elementary function `name` of `value`."""
        lib = self.lib
        self.work.spend(self.dear * (1 if len(value) == 4 else 6))
        match name:
            case "sec":
                return self.quotient(lib.fone, self.function("cos", value))
            case "csc":
                return self.quotient(lib.fone, self.function("sin", value))
            case "cot":
                return self.quotient(self.function("cos", value), self.function("sin", value))
            case "tan":
                return self.quotient(self.function("sin", value), self.function("cos", value))
            case "arccot":
                quarter = self.quotient(self.constant("pi"), self.rational(2))
                return self.total([quarter, self.negative(self.function("arctan", value))])
        if value == lib.fzero and name == "ln":
            raise Undefined("the logarithm of zero")
        if name == "ln":
            self.need += max(0, abs(magnitude(value)).bit_length() - 16)
        elif value != lib.fzero:
            self._span(value)
            if name in _SATURATING:
                self._saturate(value)
            if size_of(value) > (64 if name in ("exp", "sinh", "cosh", "tanh") else 2000):
                raise TooMuch(f"{name} of an argument of this size")
        real, pair = _elementary(lib)[name]
        if name in ("arcsin", "arccos") and len(value) == 4 and self.integer(value) in (1, -1):
            value = lib.from_int(self.integer(value))
        if len(value) == 4:
            try:
                result = finite(real(value, self.precision, _DOWN))
            except lib.ComplexResult:
                if self.real:
                    raise Undefined(f"{name} outside its domain") from None
            else:
                floor = magnitude(value) if name != "ln" and value != lib.fzero else 0
                return lib.fzero if result[1] and magnitude(result) < floor - self.precision + SLACK else result
        return self.tidy(pair(self.pair(value), self.precision, _DOWN))

    def gamma(self, value: Value) -> Value:
        """Return the gamma function of `value`."""
        self.work.spend(self.dear * (16 if len(value) == 4 else 200))
        if len(value) == 4 and (value == self.lib.fzero or (value[0] and self.integer(value) is not None)):
            raise Undefined("a pole of the gamma function")
        if magnitude(value) > 64 or self.precision > 1000:
            raise TooMuch("a factorial of this size")
        if len(value) == 4:
            return finite(self.lib.mpf_gamma(value, self.precision, _DOWN))
        return self.tidy(self.lib.mpc_gamma(value, self.precision, _DOWN))

    def absolute(self, value: Value) -> Value:
        """Return the absolute value of `value`."""
        self.work.spend(self.cheap * 4)
        return self.lib.mpf_abs(value) if len(value) == 4 else self.lib.mpc_abs(value, self.precision, _DOWN)


def finite(value: Value) -> Value:
    """Return `value`, an mpf, if it is finite.

    Raises:
        Undefined: `value` is infinite or not a number.
    """
    if not value[1] and value[2]:
        raise Undefined("an infinite value")
    return value


def magnitude(value: Value) -> int:
    """Return the binary exponent m of `value`, with |value| < 2 ** m; 0 if the value is zero.

    For a complex number, it is the exponent of its larger part.
    """
    if len(value) == 2:
        sizes = [part[2] + part[3] for part in value if part[1]]
        return max(sizes) if sizes else 0
    size: int = value[2] + value[3]
    return size


def size_of(value: Value) -> int:
    """Return the magnitude of `value`, or 0 if the magnitude is negative."""
    return max(magnitude(value), 0)


def _elementary(lib: Any) -> dict[str, tuple[Callable[..., Value], Callable[..., Value]]]:
    return {
        "exp": (lib.mpf_exp, lib.mpc_exp),
        "ln": (lib.mpf_log, lib.mpc_log),
        "sin": (lib.mpf_sin, lib.mpc_sin),
        "cos": (lib.mpf_cos, lib.mpc_cos),
        "arcsin": (lib.mpf_asin, lib.mpc_asin),
        "arccos": (lib.mpf_acos, lib.mpc_acos),
        "arctan": (lib.mpf_atan, lib.mpc_atan),
        "sinh": (lib.mpf_sinh, lib.mpc_sinh),
        "cosh": (lib.mpf_cosh, lib.mpc_cosh),
        "tanh": (lib.mpf_tanh, lib.mpc_tanh),
    }
