"""Encodes exact plain data as tagged JSON, for processes that do not trust each other.

`encode` runs in the candidate's process, which may tamper with it. Only values made by `decoding.decode` are compared. Their
types are exactly the built-in ones, so no comparison can call code of the candidate. Pickle is never used.
"""

from __future__ import annotations

import base64
import collections
import itertools
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DEPTH = 100
MAX_NODES = 2_000_000
MAX_BYTES = 30 << 20
SAFE_INT = 2**53
PROGRAM = "solution"
"""Name of the module that a program is loaded as."""
VIEWS = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}
BUILTINS = {
    name: getattr(sys.modules["builtins"], name)
    for name in (
        "int float complex bool str bytes bytearray list tuple dict set frozenset object type range "
        "abs all any bin chr divmod hash hex len max min oct ord pow repr round sorted sum enumerate filter map reversed zip"
    ).split()
}
BUILTINS |= {
    name: value
    for name, value in vars(sys.modules["builtins"]).items()
    if isinstance(value, type) and issubclass(value, BaseException) and value.__name__ == name
}
"""Functions and types that cross by name: they mean the same on both sides and have no side effects."""
_NAMES = {id(value): name for name, value in BUILTINS.items()}


class CannotCross(TypeError):
    """Raised for a value that cannot be encoded because it is not plain data or is too large."""

    def __init__(self, what: str, *, size: bool = False, value: object = None) -> None:
        super().__init__(what)
        self.what = what
        self.size = size
        """Whether only its size or depth prevents it."""
        self.value = value


class CodecError(ValueError):
    """Raised for data that is not the encoding of any value."""


def encode(value: Any, handle: Callable[..., Any] | None = None) -> Any:
    """Return the JSON encoding of `value`.

    Args:
        value: anything.
        handle: function that encodes a value that is not exactly plain data. It returns None to leave the value to the encoder.
            Called with the value, the encoder, the function that encodes the plain base type of the value's class (or None),
            and the depth. With None, every value is left to the encoder.

    Raises:
        CannotCross: the value is not plain data, too large or too deep. Exceptions of its iterators propagate.
    """
    return Encoder(handle).put(value, 0)


class Encoder:
    """Encodes values and enforces the limits on their size and depth."""

    __slots__ = ("_places", "handle", "nodes", "order", "room", "shared")

    def __init__(
        self, handle: Callable[..., Any] | None = None, nodes: int = MAX_NODES, shared: dict[int, int] | None = None
    ) -> None:
        self.handle = handle
        self.nodes = nodes
        self.room = MAX_BYTES
        self.shared = shared
        """Identity -> number, for the containers that both sides hold. With None, every container is written in full."""
        self.order: list[Any] = []
        """The containers written, each after those inside it."""
        self._places: dict[int, int] = {}

    def put(self, value: Any, depth: int) -> Any:
        """Return the encoding of `value`, which is nested `depth` levels deep."""
        kind = type(value)
        if kind is bool or value is None:
            return value
        if kind is int and -SAFE_INT <= value <= SAFE_INT:
            return value
        put = _PUT.get(kind)
        if put is iterator and self.handle is not None and (made := self.handle(value, self, put, depth)) is not None:
            return made
        if put is None:
            put = _find(kind)
            if put is None and (name := _NAMES.get(id(value))) is not None:
                return {"bi": name}
            if self.handle is not None and kind not in _PUT and (made := self.handle(value, self, put, depth)) is not None:
                return made
            if put is None:
                raise CannotCross(str(getattr(kind, "__name__", "object"))[:100], value=value)
        if depth > MAX_DEPTH:
            raise CannotCross("a value nested too deep", size=True)
        if self.shared is None or put not in _CHANGEABLE:
            return put(self, value, depth + 1)
        if (number := self.shared.get(id(value))) is not None:
            return {"a": number}
        if (place := self._places.get(id(value))) is not None:
            return {"=": place}
        made = put(self, value, depth + 1)
        self._places[id(value)] = len(self.order)
        self.order.append(value)
        return made

    def content(self, value: Any) -> Any:
        """Return the encoding of the items of the container `value`, even if the container itself has a number."""
        put = _PUT.get(type(value)) or _find(type(value))
        if put is None:
            raise CannotCross(type(value).__name__, value=value)
        return put(self, value, 1)

    def spend(self, nodes: int, room: int = 0) -> None:
        """Count `nodes` values and `room` bytes of output against the limits on size.

        Raise `CannotCross` if a limit is exceeded.
        """
        self.nodes -= nodes
        self.room -= room + nodes
        if self.nodes < 0:
            raise CannotCross(f"more than {MAX_NODES} values", size=True)
        if self.room < 0:
            raise CannotCross(f"more than {MAX_BYTES} bytes", size=True)

    def all(self, values: Any, depth: int) -> list[Any]:
        """Return the encodings of `values`, which are nested `depth` levels deep."""
        put = self.put
        return [put(value, depth) for value in values]


def _int(to: Encoder, value: int, depth: int) -> Any:
    value = int.__int__(value)
    if -SAFE_INT <= value <= SAFE_INT:
        return value
    to.spend(1, value.bit_length() >> 2)
    return {"i": hex(value)}


def _float(to: Encoder, value: float, depth: int) -> Any:
    value = float.__float__(value)
    return value if value - value == 0 else {"f": float.__repr__(value)}


def _str(to: Encoder, value: str, depth: int) -> Any:
    to.spend(0, str.__len__(value))
    return str.__str__(value)


def _bytes(to: Encoder, value: Any, depth: int, tag: str = "b") -> Any:
    to.spend(0, memoryview(value).nbytes * 4 // 3)
    return {tag: base64.b64encode(memoryview(value)).decode("ascii")}


def _list(to: Encoder, value: list[Any], depth: int) -> Any:
    to.spend(list.__len__(value))
    return to.all(list.__iter__(value), depth)


def _tuple(to: Encoder, value: tuple[Any, ...], depth: int) -> Any:
    to.spend(tuple.__len__(value))
    return {"t": to.all(tuple.__iter__(value), depth)}


def _dict(to: Encoder, value: dict[Any, Any], depth: int) -> Any:
    items = collections.OrderedDict.items(value) if isinstance(value, collections.OrderedDict) else dict.items(value)
    to.spend(2 * dict.__len__(value))
    put = to.put
    return {"d": [[put(key, depth), put(item, depth)] for key, item in items]}


def _counted(to: Encoder, values: Any, depth: int) -> list[Any]:
    made = []
    for value in values:
        to.spend(1)
        made.append(to.put(value, depth))
    return made


def _tagged(tag: str, iterate: Callable[[Any], Any]) -> Callable[[Encoder, Any, int], Any]:
    return lambda to, value, depth: {tag: _counted(to, iterate(value), depth)}


def _pair(real: str, other: str, tag: str) -> Callable[[Encoder, Any, int], Any]:
    return lambda to, value, depth: {tag: [to.put(getattr(value, real), depth), to.put(getattr(value, other), depth)]}


def _view(name: str) -> Callable[[Encoder, Any, int], Any]:
    return lambda to, value, depth: {"view": [name, _counted(to, value, depth)]}


_PUT: dict[type, Callable[[Encoder, Any, int], Any]] = {
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    bytearray: lambda to, value, depth: _bytes(to, value, depth, "ba"),
    list: _list,
    tuple: _tuple,
    dict: _dict,
    set: _tagged("s", set.__iter__),
    frozenset: _tagged("fs", frozenset.__iter__),
    collections.deque: _tagged("dq", collections.deque.__iter__),
    complex: _pair("real", "imag", "c"),
    slice: lambda to, value, depth: {"sl": to.all((value.start, value.stop, value.step), depth)},
    range: lambda to, value, depth: {"r": to.all((value.start, value.stop, value.step), depth)},
    type(...): lambda to, value, depth: {"el": 1},
    **{kind: _view(name) for name, kind in VIEWS.items()},
}
PLAIN = frozenset(_PUT) | {bool}
"""The types of plain values, without iterators and types of modules that are imported later."""
iterator = _tagged("it", iter)
for _made in (
    iter([]),
    iter(()),
    iter({}),
    iter(set()),
    iter(""),
    iter(range(0)),
    map(len, ""),
    filter(len, ""),
    zip(),
    reversed([]),
):
    _PUT[type(_made)] = iterator
_PUT[type(_ for _ in ())] = iterator
_PUT[enumerate] = iterator
_PUT.update({kind: iterator for kind in vars(itertools).values() if isinstance(kind, type) and hasattr(kind, "__next__")})


BASE_VALUE = ""
"""Key of the plain value in the state (the attributes) of an object whose class derives from a plain type.

No attribute has this name.
"""


def base_encoder(kind: type) -> Callable[[Encoder, Any, int], Any] | None:
    """Return the encoder of the container or string type that the class `kind` derives from; None if there is none."""
    bases = type.__dict__["__mro__"].__get__(kind)[1:]
    return next((_PUT[base] for base in bases if base in (str, bytes, list, tuple, dict, set, frozenset)), None)


def _find(kind: type) -> Callable[[Encoder, Any, int], Any] | None:
    for name, register in list(_LATER.items()):
        if name in sys.modules:
            del _LATER[name]
            try:
                register(sys.modules[name])
            except Exception:  # noqa: S112, a module of the candidate with that name
                continue
    for base in type.__dict__["__mro__"].__get__(kind):
        if base in _PUT:
            return _PUT[base]
    numbers = sys.modules.get("numbers")
    if numbers is None or getattr(kind, "__module__", PROGRAM) == PROGRAM:
        return None
    # A number type of a library, such as sympy's, crosses as its value.
    for name, put in (("Integral", _integral), ("Rational", _rational), ("Real", _real)):
        try:
            if issubclass(kind, getattr(numbers, name)):
                return put
        except Exception:  # noqa: S112, a module of the candidate with that name
            continue
    return None


def _integral(to: Encoder, value: Any, depth: int) -> Any:
    return to.put(int(value), depth)


def _rational(to: Encoder, value: Any, depth: int) -> Any:
    return {"frac": [to.put(int(value.numerator), depth), to.put(int(value.denominator), depth)]}


def _real(to: Encoder, value: Any, depth: int) -> Any:
    return to.put(float(value), depth)


def _later_datetime(module: Any) -> None:
    iso = {"dt": module.datetime, "date": module.date, "time": module.time}
    _PUT.update(
        {kind: (lambda to, value, depth, tag=tag, kind=kind: {tag: kind.isoformat(value)}) for tag, kind in iso.items()}
    )
    _PUT[module.timedelta] = lambda to, value, depth: {"td": [value.days, value.seconds, value.microseconds]}


def _later_fractions(module: Any) -> None:
    _PUT[module.Fraction] = _pair("numerator", "denominator", "frac")


def _later_decimal(module: Any) -> None:
    _PUT[module.Decimal] = lambda to, value, depth: {"dec": module.Decimal.__str__(value)}


def _later_uuid(module: Any) -> None:
    _PUT[module.UUID] = lambda to, value, depth: {"uuid": to.put(int(value.int), depth)}


def _later_time(module: Any) -> None:
    _PUT[module.struct_time] = lambda to, value, depth: {"when": to.all(tuple(value), depth)}


def _array(to: Encoder, value: Any, depth: int) -> Any:
    to.spend(value.size)
    flat = [item.item() if hasattr(item, "item") else item for item in value.ravel()]
    kind = value.dtype.kind
    return {"np": [kind if kind in "USO" else value.dtype.str, list(value.shape), to.all(flat, depth)]}


def _scalar(to: Encoder, value: Any, depth: int) -> Any:
    plain = value.item()
    if type(plain) is type(value) or plain is None:  # NaT
        raise CannotCross(type(value).__name__)
    return to.put(plain, depth)


_CHANGEABLE = {_list, _dict, _PUT[set], _PUT[bytearray], _PUT[collections.deque], _array}
"""Encoders of mutable types, whose identity matters."""


def _later_numpy(module: Any) -> None:
    _PUT[module.ndarray] = _array
    _PUT[module.generic] = _scalar


_LATER: dict[str, Callable[[Any], None]] = {
    "datetime": _later_datetime,
    "fractions": _later_fractions,
    "decimal": _later_decimal,
    "numpy": _later_numpy,
    "time": _later_time,
    "uuid": _later_uuid,
}
