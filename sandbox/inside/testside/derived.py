"""Classes that the test derives from classes of the candidate, which is the program under test.

Methods that the test defines run in the test's process, and inherited methods in the program's. The program makes a counterpart
class of the same name, with methods that call back the test's functions. An instance is an object of the program: the program
stores all its attributes, and the test refers to the instance by number.
"""

from __future__ import annotations

import abc
import types

from verigym.sandbox.inside.testside.handles import SPECIAL, Handle, make
from verigym.sandbox.inside.testside.remote_info import Remote, RemoteInfo, info_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from verigym.sandbox.inside.testside.remotes import RemoteClass

_OF_THE_BODY = {
    "__new__",
    "__init_subclass__",
    "__class_getitem__",
    "__getattr__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
}
"""Methods of a test's class that its counterpart in the program does not get."""

_CALLED_BY_NAME = ("__init__", "__post_init__")
"""Special methods that are called by name through `super()`. The others follow the rules for all objects."""
_COMPARING = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_NOBODYS = ("abc", "builtins", "typing", __name__, Handle.__module__, Remote.__module__)


class DerivedMeta(abc.ABCMeta):
    """Metaclass of the classes that the test derives from the candidate's classes."""

    _base: RemoteClass
    _number: int

    def __getattr__(cls, name: str) -> Any:
        if name[:1] == "_":
            raise AttributeError(name)
        handle = make(RemoteInfo(cls._base._proxies, cls.number(), ["builtins.type"], frozenset(), None), None)
        handle._remote_info().is_named = True
        return getattr(handle, name)

    def __init__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any], /, **options: Any) -> None:
        super().__init__(name, bases, body)

    def number(cls, options: dict[str, Any] | None = None) -> int:
        """Return the number of this class's counterpart in the program.

        The counterpart is made on first use and not earlier, since decorators may still change the class.

        Args:
            options: keyword arguments of the class statement, used when the counterpart is made.
        """
        if "_number" not in cls.__dict__:
            base, *others = (vars(kind)["_base"] for kind in cls.__mro__ if "_base" in vars(kind))
            proxies = base._proxies
            number = proxies.value(
                {"op": "derive", "h": base._remote_info().number}, (cls.__name__, _members(cls), others), options
            )
            if type(number) is not int or number in proxies.derived:
                proxies.peer.mark_lost("protocol: no number of a class")
            cls._number = number
            proxies.derived[number] = cls
        return cls._number


def local_base(remote: RemoteClass) -> type:
    """Return a local base class for classes that the test derives from `remote`, a class of the candidate."""
    shape = remote._proxies.value({"op": "shape", "h": remote._remote_info().number})
    if type(shape) is not list or not all(type(name) is str for name in shape):
        remote._proxies.peer.mark_lost("protocol: a class of no known form")
    body: dict[str, Any] = {
        name: _inherited(name, remote) for name in shape if name[:1] != "@" and (name[:2] != "__" or name in _CALLED_BY_NAME)
    }
    body |= {name[1:]: property(_by_super(name[1:], remote)) for name in shape if name[:1] == "@"}
    if "__init_subclass__" in shape:  # it must run when the class is made
        body["__init_subclass__"] = classmethod(lambda cls, **options: cls.number(options))
    usual = SPECIAL | {name: getattr(Handle, name) for name in ("__eq__", "__ne__", "__bool__", "__str__", "__repr__")}
    body |= {name: _special(name, usual[name], remote) for name in usual.keys() & {*shape, "__str__", "__repr__"}}
    body["__hash__"] = SPECIAL["__hash__"] if "__hash__" in shape else None
    body |= {
        "__getattribute__": _get,
        "__new__": _new,
        "_base": remote,
        "_parameters": None,
        "_written": None,
    }
    return DerivedMeta(remote.__name__, (_DerivedHandle,), {"__slots__": (), "__module__": "solution"} | body)


def _get(self: Any, name: str) -> Any:
    """Look up an attribute; where the class has a plain value, ask the program, which may have set another."""
    if name[:1] != "_":
        attribute = next((vars(kind)[name] for kind in type(self).__mro__ if name in vars(kind)), _get)
        if type(attribute) in _VALUES:
            return Handle.__getattr__(self, name)
    return Handle.__getattribute__(self, name)


_VALUES = (int, float, str, bool, bytes, tuple, list, dict, set, type(None))
"""Types of class attributes that cross beside functions."""


def _new(cls: Any, *args: Any, **kwargs: Any) -> Any:
    proxies = cls._base._proxies
    made = proxies.value({"op": "new", "h": cls.number(), "make": True}, args, kwargs)
    if type(made) is not cls:
        proxies.peer.mark_lost("protocol: an object of another class")
    info = made._remote_info()
    info.given, info.is_open = (cls, args, kwargs), True
    return made


def _inherited(name: str, remote: RemoteClass | None = None) -> Callable[..., Any]:
    """Make a method that calls the candidate's definition, even if the test's class overrides it."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        base, info = type(self)._base if remote is None else remote, self._remote_info()
        info.touched = True
        result = base._proxies.value({"op": "inherited", "h": base._remote_info().number}, (name, self, *args), kwargs)
        return info.checked_result(result, "method", (name, *args), kwargs)

    method.__name__ = name
    return method


class _DerivedHandle(Handle):
    """An instance of a class that the test derives. Without an `__init__` of the candidate, `object`'s is called there."""

    __slots__ = ()
    __init__ = _inherited("__init__")


def _by_super(name: str, remote: RemoteClass) -> Callable[[Any], Any]:
    return lambda self: remote._proxies.value({"op": "property", "h": remote._remote_info().number}, (name, self))


def _special(name: str, usual: Callable[..., Any], remote: RemoteClass) -> Callable[..., Any]:
    """Make a special method: as for any object, but if the test's class overrides it, this is a call through `super()`."""
    inherited = _inherited(name, remote)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if name in _COMPARING and info_of(args[0]) is None and getattr(type(self), name) is not method:
            return NotImplemented  # it would learn what is expected
        return (usual if getattr(type(self), name) is method else inherited)(self, *args, **kwargs)

    method.__name__ = name
    return method


def _members(cls: DerivedMeta) -> dict[str, Any]:
    """Return what the test's classes define, in a form that can cross: kind, and functions or value."""
    members: dict[str, Any] = {}
    kinds = [kind for kind in cls.__mro__ if "_base" not in vars(kind) and kind.__module__ not in _NOBODYS]
    for kind in reversed(kinds):
        for name, value in vars(kind).items():
            if type(value) is types.FunctionType and name not in _OF_THE_BODY:
                members[name] = ["function", value, bool(getattr(value, "__isabstractmethod__", False))]
            elif isinstance(value, property):
                members[name] = ["property", value.fget, value.fset, value.fdel]
            elif isinstance(value, staticmethod):
                members[name] = ["static", value.__func__]
            elif type(value) in _VALUES and name[:1] != "_":
                members[name] = ["value", value]
    return members
