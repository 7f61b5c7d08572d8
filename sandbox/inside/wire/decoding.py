"""Decodes the output of `encode` strictly: malformed data raises `CodecError`, and time and memory are bounded."""

from __future__ import annotations

import base64
import binascii
import collections
import math

from verigym.sandbox.inside.wire import inert_values
from verigym.sandbox.inside.wire.encoding import BUILTINS, MAX_DEPTH, MAX_NODES, SAFE_INT, CodecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_COLLISIONS = 100_000
_DIGITS = 100_000


class Array:
    """Stands for an array in a process that must not use numpy. It holds the array's parts and equals only itself."""

    __slots__ = ("kind", "shape", "values")

    def __init__(self, kind: str, shape: list[int], values: list[Any]) -> None:
        self.kind, self.shape, self.values = kind, shape, values

    def __repr__(self) -> str:
        return f"array(dtype={self.kind!r}, shape={tuple(self.shape)})"


def decode(data: Any, handle: Callable[..., Any] | None = None, *, arrays: bool = True, guard: bool = False) -> Any:
    """Return the value that `data` encodes. With the default arguments, it consists of built-in types and numpy arrays only.

    Args:
        data: parsed JSON.
        handle: function that returns the object for a handle (a reference to an object of the other process). It gets four
            arguments: the object's description; its plain value (None unless its class derives from a built-in type); the
            decoder; the depth. If `handle` is None, a handle in `data` is an error.
        arrays: whether arrays become numpy arrays. A trusted process passes False and gets `Array` objects, so that numpy
            does not process untrusted data.
        guard: whether the data is a candidate's answer that a test will use. If so, some values become stand-ins; see
            `inert_values`.

    Raises:
        CodecError: `data` is not the encoding of a value.
    """
    with codec_errors():
        return Decoder(handle, arrays, guard).get(data, 0)


class codec_errors:  # noqa: N801, used as a function
    """Context manager that turns errors of malformed data into `CodecError`."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _WRONG) and not isinstance(error, CodecError):
            raise CodecError(f"{type(error).__name__}: {error}"[:200]) from None


_WRONG = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError, MemoryError)


class Decoder:
    """Decodes values and enforces the limits on their size and depth."""

    __slots__ = ("arrays", "collisions", "guard", "handle", "nodes", "order", "shared")

    def __init__(
        self,
        handle: Callable[..., Any] | None,
        arrays: bool,
        guard: bool,
        shared: Callable[[int], Any] | None = None,
    ) -> None:
        self.handle = handle
        self.arrays = arrays
        self.guard = guard
        self.nodes = MAX_NODES
        self.collisions = _COLLISIONS
        self.shared = shared
        """Returns the container with a number that both sides hold."""
        self.order: list[Any] = []
        """The containers read, each after those inside it."""

    def get(self, data: Any, depth: int) -> Any:
        """Decode `data`, which is nested `depth` levels deep."""
        if self.shared is None or not (type(data) is list or (type(data) is dict and data.keys() & _CHANGEABLE)):
            return self.raw(data, depth)
        made = self.raw(data, depth)
        self.order.append(made)
        return made

    def raw(self, data: Any, depth: int) -> Any:
        """Decode `data`, which is nested `depth` levels deep, without adding it to `order`, the list of containers read."""
        kind = type(data)
        if kind is str or kind is bool or data is None:
            return data
        if kind is int:
            if -SAFE_INT <= data <= SAFE_INT:
                return data
            raise CodecError("a large integer must be tagged")
        if kind is float:
            if math.isfinite(data):
                return data
            raise CodecError("a float that is not finite must be tagged")
        if kind is list:
            made = self.all(data, depth)
            return inert_values.guard_empty(made) if self.guard else made
        if kind is dict and len(data) == 1:
            ((tag, body),) = data.items()
            get = _GET.get(tag)
            if get is not None:
                return get(self, body, depth)
        raise CodecError("an unknown tag")

    def all(self, data: Any, depth: int) -> list[Any]:
        """Decode each encoding in the list `data`, which is nested `depth` levels deep."""
        if type(data) is not list:
            raise CodecError("expected a list")
        if depth > MAX_DEPTH:
            raise CodecError("nested too deep")
        self.nodes -= len(data)
        if self.nodes < 0:
            raise CodecError("too many values")
        get = self.get
        return [get(item, depth + 1) for item in data]

    def hashable(self, keys: list[Any]) -> list[Any]:
        """Return `keys` if hashing them is cheap, else raise CodecError. Forged keys with equal hashes take quadratic time."""
        if len(keys) > 100:
            run, last = 0, None
            for value in sorted(map(hash, keys)):
                run = run + 1 if value == last else 0
                last = value
                self.collisions -= run
            if self.collisions < 0:
                raise CodecError("too many keys with one hash")
        return keys


def _typed(data: Any, kind: type) -> Any:
    if type(data) is not kind:
        raise CodecError(f"expected {kind.__name__}")
    return data


def _int(by: Decoder, body: Any, depth: int) -> int:
    value = int(_typed(body, str), 16)
    if hex(value) != body:
        raise CodecError("not the form of an integer")
    return value


def _float(by: Decoder, body: Any, depth: int) -> float:
    if body not in ("nan", "inf", "-inf"):
        raise CodecError("not the form of a float")
    return float(body)


def _bytes(by: Decoder, body: Any, depth: int) -> bytes:
    try:
        return base64.b64decode(_typed(body, str).encode("ascii"), validate=True)
    except binascii.Error:
        raise CodecError("not base64") from None


def _dict(by: Decoder, body: Any, depth: int) -> dict[Any, Any]:
    if depth > MAX_DEPTH:
        raise CodecError("nested too deep")
    by.nodes -= 2 * len(_typed(body, list))
    if by.nodes < 0:
        raise CodecError("too many values")
    pairs = [(by.get(key, depth + 1), by.get(value, depth + 1)) for key, value in body]
    by.hashable([key for key, _ in pairs])
    made = dict(pairs)
    if len(made) != len(pairs):
        raise CodecError("a key twice")
    return made


def _range(by: Decoder, body: Any, depth: int) -> Any:
    return _guarded(by, range(*_some(by, body, depth, 3, int)))


def _guarded(by: Decoder, value: Any) -> Any:
    return inert_values.guard_empty(value) if by.guard and not value else value


def _some(by: Decoder, body: Any, depth: int, count: int, *kinds: type) -> list[Any]:
    values = by.all(body, depth)
    if len(values) != count or any(type(value) not in kinds for value in values):
        raise CodecError(f"expected {count} values of {kinds[0].__name__}")
    return values


def _fraction(by: Decoder, body: Any, depth: int) -> Any:
    from fractions import Fraction

    over, under = _some(by, body, depth, 2, int)
    if under < 1 or max(over.bit_length(), under.bit_length()) > _DIGITS:
        raise CodecError("not the form of a fraction")
    return Fraction(over, under)


def _decimal(by: Decoder, body: Any, depth: int) -> Any:
    from decimal import Decimal

    if len(_typed(body, str)) > _DIGITS:
        raise CodecError("too many digits")
    value = Decimal(body)
    if value.is_finite() and abs(value.adjusted()) > _DIGITS:
        raise CodecError("too large an exponent")
    return value


def _iso(name: str) -> Callable[[Decoder, Any, int], Any]:
    def get(by: Decoder, body: Any, depth: int) -> Any:
        import datetime

        return getattr(datetime, name).fromisoformat(_typed(body, str))

    return get


def _timedelta(by: Decoder, body: Any, depth: int) -> Any:
    import datetime

    return datetime.timedelta(*_some(by, body, depth, 3, int))


def _uuid(by: Decoder, body: Any, depth: int) -> Any:
    from uuid import UUID

    return UUID(int=_typed(by.get(body, depth), int))


def _struct_time(by: Decoder, body: Any, depth: int) -> Any:
    import time

    return time.struct_time(_some(by, body, depth, 9, int))


def _array(by: Decoder, body: Any, depth: int) -> Any:
    kind, shape, flat = _typed(body, list)
    if type(kind) is not str or not (kind in "USO" or (kind[1:2] in tuple("biufcMm") and len(kind) < 12)):
        raise CodecError("an array of an unknown type")
    if len(_typed(shape, list)) > 32 or any(type(size) is not int or size < 0 for size in shape):
        raise CodecError("not the shape of an array")
    values = by.all(flat, depth)
    if math.prod(shape) != len(values):
        raise CodecError("not the shape of an array")
    if not by.arrays:
        return Array(kind, shape, values)
    try:
        import numpy
    except ImportError:
        return values if len(shape) == 1 else _nested(values, shape)
    made = numpy.empty(len(values), dtype=object)
    for index, value in enumerate(values):
        made[index] = value
    made = (made if kind == "O" else made.astype(kind)).reshape(shape)
    return inert_values.EmptyArray(made) if by.guard and not made.size else made


def _nested(values: list[Any], shape: list[int]) -> Any:
    if not shape:
        return values[0]
    step = len(values) // shape[0] if shape[0] else 0
    if len(shape) == 1:
        return values
    return [_nested(values[index * step : (index + 1) * step], shape[1:]) for index in range(shape[0] if values else 0)]


def _three(values: list[Any]) -> list[Any]:
    if len(values) != 3:
        raise CodecError("not the form of a slice")
    return values


def _view(by: Decoder, body: Any, depth: int) -> Iterable[Any]:
    name, data = _typed(body, list)
    values = by.all(data, depth)
    if name == "keys":
        return dict.fromkeys(by.hashable(values)).keys()
    if name == "values":
        return dict(enumerate(values)).values()
    if name == "items" and all(type(pair) is tuple and len(pair) == 2 for pair in values):
        by.hashable([key for key, _ in values])
        return dict(values).items()
    raise CodecError("an unknown view")


def _ellipsis(by: Decoder, body: Any, depth: int) -> Any:
    if body != 1:
        raise CodecError("an unknown tag")
    return ...


def _builtin(by: Decoder, body: Any, depth: int) -> Any:
    value = BUILTINS[_typed(body, str)]
    return inert_values.Builtin(body, value) if by.guard else value


def _handle(by: Decoder, body: Any, depth: int) -> Any:
    if by.handle is None:
        raise CodecError("a handle where only plain data may be")
    return by.handle(body, None, by, depth)


def _tuple(by: Decoder, body: Any, depth: int) -> Any:
    made = tuple(by.all(body, depth))
    return inert_values.guard_empty(made) if by.guard else made


def _deque(by: Decoder, body: Any, depth: int) -> Any:
    made = collections.deque(by.all(body, depth))
    return inert_values.guard_empty(made) if by.guard else made


def _steps(by: Decoder, body: Any, depth: int, kind: Any = iter) -> Any:
    if by.handle is None:
        raise CodecError("a handle where only plain data may be")
    begun, number = _typed(body, list)
    return by.handle([_typed(number, int), by.all(begun, depth)], kind, by, depth)


def _valued(by: Decoder, body: Any, depth: int) -> Any:
    if by.handle is None:
        raise CodecError("a handle where only plain data may be")
    value, about = _typed(body, list)
    return by.handle(about, by.raw(value, depth + 1), by, depth)


def _held(by: Decoder, body: Any, depth: int) -> Any:
    container = None if by.shared is None else by.shared(_typed(body, int))
    if container is None:
        raise CodecError("a container that is not held")
    return container


def _again(by: Decoder, body: Any, depth: int) -> Any:
    if not 0 <= _typed(body, int) < len(by.order):
        raise CodecError("a container that has not come")
    return by.order[body]


_CHANGEABLE = frozenset(("d", "s", "ba", "dq", "np"))
_GET: dict[str, Callable[[Decoder, Any, int], Any]] = {
    "i": _int,
    "f": _float,
    "t": _tuple,
    "s": lambda by, body, depth: set(by.hashable(by.all(body, depth))),
    "fs": lambda by, body, depth: frozenset(by.hashable(by.all(body, depth))),
    "d": _dict,
    "b": _bytes,
    "ba": lambda by, body, depth: _guarded(by, bytearray(_bytes(by, body, depth))),
    "c": lambda by, body, depth: complex(*_some(by, body, depth, 2, float)),
    "frac": _fraction,
    "dec": _decimal,
    "dt": _iso("datetime"),
    "date": _iso("date"),
    "time": _iso("time"),
    "td": _timedelta,
    "uuid": _uuid,
    "when": _struct_time,
    "r": _range,
    "sl": lambda by, body, depth: slice(*_three(by.all(body, depth))),
    "dq": _deque,
    "it": lambda by, body, depth: iter(by.all(body, depth)),
    "el": _ellipsis,
    "np": _array,
    "bi": _builtin,
    "view": _view,
    "h": _handle,
    "v": _valued,
    "its": _steps,
    "gen": lambda by, body, depth: _steps(by, body, depth, next),
    "a": _held,
    "=": _again,
}
