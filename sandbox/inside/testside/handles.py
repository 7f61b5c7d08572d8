"""Handles: the test's proxies for objects of the candidate, with the special methods of the objects' classes.

`remote_info` has the rules for the requests that these methods send.
"""

from __future__ import annotations

import collections

from verigym.sandbox.inside.candidate.objects import TESTS_OWN
from verigym.sandbox.inside.testside.iterators import RemoteIterator
from verigym.sandbox.inside.testside.peer import Exhausted
from verigym.sandbox.inside.testside.remote_info import Remote, RemoteInfo, info_of, written
from verigym.sandbox.inside.testside.usage import OF_PLAIN_VALUES
from verigym.sandbox.inside.wire import special_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_UPON = (int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, collections.deque)
STANDARD = {f"{kind.__module__}.{kind.__name__}": kind for kind in _UPON}
_kinds: dict[tuple[tuple[str, ...], tuple[str, ...], type | None], type] = {}


def make(info: RemoteInfo, plain: Any) -> Any:
    """Return the proxy of an object of the candidate.

    Args:
        info: the test's record of the object: number, class names, special methods and state.
        plain: the object's plain value, or None. If there is a plain value, the proxy is an instance of its type that also has
            the object's attributes.
    """
    if plain is not None and type(plain) not in _UPON:
        return plain
    if info.names[0][: len(TESTS_OWN)] == TESTS_OWN:  # an instance of a class that the test derives
        made: Any = object.__new__(info.proxies.derived_class(info.names[0]))
        object.__setattr__(made, "_verigym", info)
        info.is_derived = True
        return made
    upon = None if plain is None else type(plain)
    key = (tuple(info.names), tuple(sorted(info.special)), upon)
    kind = _kinds.get(key)
    if kind is None:
        if upon is None:
            methods: dict[str, Any] = {name: SPECIAL[name] for name in info.special & SPECIAL.keys()}
            if "builtins.BaseException" in info.names:
                stand_in = info.proxies.error_class(*_split(info.names))
                methods["__class__"] = property(lambda self: stand_in)
            elif (upon_plain := next((base for name, base in STANDARD.items() if name in info.names[1:]), None)) is not None:
                stand_in = type(info.name, (upon_plain,), {})  # satisfies `isinstance` only
                methods["__class__"] = property(lambda self: stand_in)
            kind = type(info.name, (Handle,), {"__slots__": (), "__hash__": None, "__doc__": property(_doc)} | methods)
        else:
            kind = type(info.name, (upon,), {"__getattr__": Handle.__getattr__, "_remote_info": lambda self: self.__dict__[""]})
        _kinds[key] = kind
    if upon is None:
        return kind(info)
    made = kind(plain)
    made.__dict__[""] = info
    return made


def _split(names: list[str]) -> tuple[list[str], list[str]]:
    """Split an exception's class names into its own and the built-in ones."""
    return [name for name in names if "." not in name], [name.rpartition(".")[2] for name in names if "." in name]


_SAID_BY_THE_PROGRAM = frozenset(("__dict__", "__slots__", "__weakref__"))
"""Dunder names looked up in the program. Others that libraries use (`__array__`, `__deepcopy__`) are the proxy's own."""


class Handle(Remote):
    """Proxy of an object of the candidate. `make` adds the special methods that the object's class has."""

    __slots__ = ("__weakref__", "_verigym")
    __array_ufunc__ = None

    def __init__(self, info: RemoteInfo) -> None:
        object.__setattr__(self, "_verigym", info)

    def _remote_info(self) -> RemoteInfo:
        return self._verigym  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refuse: numpy would otherwise probe the object as an array."""
        raise TypeError(f"a {self._remote_info().name!r} object is no array")

    def __copy__(self) -> Any:
        return self._remote_info().copied("copy")

    def __deepcopy__(self, memo: Any) -> Any:
        return self._remote_info().copied("deepcopy")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"cannot pickle a {self._remote_info().name!r} object of the program")

    def __getattribute__(self, name: str) -> Any:
        if name in _SAID_BY_THE_PROGRAM:  # the proxy has them whether or not the object does
            return object.__getattribute__(self, "_remote_info")().attribute(name)
        return object.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._remote_info().ask("dir")]

    def __getattr__(self, name: str) -> Any:
        info = self._remote_info()
        if name[:2] == "__" and name not in ("__name__", "__qualname__", "__wrapped__"):
            raise AttributeError(name)
        if name not in info.methods:
            reply = info.proxies.peer.ask({"op": "attr", "h": info.number}, (name,))
            if reply.get("cannot") == "function":
                return info.proxies.described(name, reply)
            if reply.get("cannot") != "method":
                value = info.proxies.answer(reply)
                is_called = isinstance(value, Handle) and "__call__" in value._remote_info().special
                if name not in OF_PLAIN_VALUES or not is_called or info.is_named:
                    info.record_origin(value)
                    return value
            info.methods.add(name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return info.tell("method", name, *args, **kwargs)

        method.__name__ = name
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        info = self._remote_info()
        info.tell("set", name, value)
        is_the_tests = info.given is not None or info.is_named or info.is_derived
        if not is_the_tests and info_of(value) is None:  # otherwise a read-only attribute would go unnoticed
            raise info.refusal("attributes to set")

    def __delattr__(self, name: str) -> None:
        self._remote_info().tell("delattr", name)

    def __str__(self) -> str:
        return _text(self._remote_info(), "str")

    def __repr__(self) -> str:
        return _text(self._remote_info(), "repr")

    def __eq__(self, other: object) -> Any:
        info, other_info = self._remote_info(), info_of(other)
        if other_info is not None:
            return info.proxies.equal(info, other_info)
        read = next((op for kinds, op in _READ_AS.items() if type(other) in kinds), None)
        if read is None or "__eq__" not in info.special:
            return NotImplemented
        has_base_value = not STANDARD.keys().isdisjoint(info.names)  # what is a string is not compared as a list of letters
        for op in ("plain",) if has_base_value else ("plain", read):
            try:
                value = info.ask(op)
            except Exception:  # noqa: S112, the object does not support it
                continue
            if value == other or (isinstance(other, tuple) and isinstance(value, list) and tuple(value) == other):
                return bool(info.ask("order", "eq", other))
        return False

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __bool__(self) -> bool:
        info = self._remote_info()
        if info.is_tainted:
            raise info.refusal("truth")
        if "__bool__" in info.special:
            return bool(info.ask("bool"))
        return len(self) > 0 if "__len__" in info.special else True


_READ_AS = {
    (list, tuple): "content",
    (dict,): "content",
    (set, frozenset): "content",
    (int, float): "float",
    (complex,): "complex",
    (str,): "str",
}
"""How an object is converted for comparison with a plain value: both the converted value and the object must agree."""


def _text(info: RemoteInfo, op: str, *args: Any) -> str:
    text = info.ask(op, *args)
    return str(text) if isinstance(text, str) else info.proxies.peer.mark_lost("protocol: a text that is no text")


def _doc(self: Handle) -> str | None:
    doc = self._remote_info().ask("attr", "__doc__")
    return doc if isinstance(doc, str) else None


def _iter(self: Handle) -> Iterator[Any]:
    info = self._remote_info()
    if "__next__" in info.special:
        return self
    if info.given is None:
        return iter(info.read())
    steps = info_of(info.ask("iter"))
    return iter(()) if steps is None else RemoteIterator(steps)


def _next(self: Handle) -> Any:
    return next(RemoteIterator(self._remote_info()))


def _len(self: Handle) -> int:
    info = self._remote_info()
    if info.given is not None or not info.special & {"__iter__", "__getitem__"}:
        return int(info.ask("len"))
    return int(info.checked_by_object(len(info.read()), "len"))


def _contains(self: Handle, item: Any) -> bool:
    info = self._remote_info()
    made_by = "" if info.given is None else written(info.given[0])
    if info.is_open or (made_by[:1].isupper() and len(made_by) > 1):  # a single letter may be a function's name
        return bool(info.tell("contains", item))
    return bool(info.checked_by_object(any(item is element or item == element for element in info.read()), "contains", item))


def _getitem(self: Handle, key: Any) -> Any:
    info = self._remote_info()
    # Tuple keys need an object that the test made by its class: keys of a dictionary might be the expected values.
    is_of_such_keys = isinstance(key, tuple) and info.name in info.proxies.usage.made
    if info.given is not None or info.is_named or is_of_such_keys:
        return info.tell("item", key)
    if isinstance(key, slice):
        raise info.refusal("a slice")
    return info.checked_by_object(info.read()[key], "item", key)


def _changing(op: str) -> Callable[..., None]:
    return lambda self, *args: self._remote_info().tell(op, *args)


_CONVERSIONS = ("int", "float", "complex", "index")
"""Conversions that libraries try on anything that may be a number."""


def _unary(op: str) -> Callable[..., Any]:
    def method(self: Handle, *args: Any) -> Any:
        info = self._remote_info()
        if info.is_tainted or (op in _CONVERSIONS and info.given is None):
            raise info.refusal(f"{op}()")
        return info.ask(op, *args)

    return method


def _binary(name: str, is_right: bool) -> Callable[..., Any]:
    return lambda self, other: self._remote_info().tell("operate", name, other, is_right)


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Handle, other: object) -> Any:
        result = self._remote_info().tell("operate", name, other, False)
        return _itself(self, result) if self._remote_info().is_open else result

    return method


def _order(name: str) -> Callable[..., Any]:
    def method(self: Handle, other: object) -> Any:
        info, other_info = self._remote_info(), info_of(other)
        if (
            other_info is None
            or (info.given is None) is not (other_info.given is None)
            or info.is_tainted
            or other_info.is_tainted
        ):
            return NotImplemented
        return bool(info.ask("order", name, other))

    return method


def _enter(self: Handle) -> Any:
    return _itself(self, self._remote_info().ask("method", "__enter__"))


def _itself(self: Handle, result: Any) -> Any:
    info = info_of(result)
    return self if info is not None and info.number == self._remote_info().number else result


def _exit(self: Handle, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> Any:
    return bool(self._remote_info().ask("exit", *_left_by(kind, error)))


def _left_by(kind: type[BaseException] | None, error: BaseException | None) -> tuple[Any, ...]:
    """Describe the exception that left a `with` block: class names and message."""
    return (None, "") if kind is None else ([base.__name__ for base in kind.__mro__[:-2]], str(error))


async def _aenter(self: Handle) -> Any:
    return _itself(self, await self._remote_info().ask("method", "__aenter__"))


async def _aexit(self: Handle, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> Any:
    return bool(await self._remote_info().ask("aexit", *_left_by(kind, error)))


def _aiter(self: Handle) -> Any:
    return _itself(self, self._remote_info().ask("method", "__aiter__"))


async def _anext(self: Handle) -> Any:
    info = self._remote_info()
    reply = info.proxies.peer.ask({"op": "anext", "h": info.number})
    try:
        return await info.proxies.answer(reply)
    except Exhausted:
        raise StopAsyncIteration from None


def _await(self: Handle) -> Any:
    return self._remote_info().ask("await").__await__()


SPECIAL: dict[str, Callable[..., Any]] = {
    "__call__": lambda self, *args, **kwargs: self._remote_info().tell("call", *args, **kwargs),
    "__len__": _len,
    "__iter__": _iter,
    "__next__": _next,
    "__reversed__": lambda self: (
        iter(list(self)[::-1]) if not self._remote_info().is_open else self._remote_info().ask("reversed")
    ),
    "__contains__": _contains,
    "__getitem__": _getitem,
    "__setitem__": _changing("setitem"),
    "__delitem__": _changing("delitem"),
    "__enter__": _enter,
    "__exit__": _exit,
    "__aenter__": _aenter,
    "__aexit__": _aexit,
    "__aiter__": _aiter,
    "__anext__": _anext,
    "__await__": _await,
    "__format__": lambda self, spec: _text(self._remote_info(), "format", spec),
    "__round__": _unary("round"),
    **{name: _unary(op) for name, op in special_methods.UNARY.items() if name != "__bool__"},
    **{name: _binary(op, is_right) for name, (op, is_right) in special_methods.BINARY.items()},
    **{name: _in_place(op) for name, op in special_methods.IN_PLACE.items()},
    **{name: _order(op) for name, op in special_methods.ORDER.items()},
}
