"""What the test sees of the candidate: functions, classes, errors and the module, all of which ask the other process."""

from __future__ import annotations

import builtins
import types

from verigym.sandbox.inside.guarded import Builtin
from verigym.sandbox.inside.peer import Peer, RemoteError
from verigym.sandbox.inside.remotes import Handle, RemoteClass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ERRORS = {name: value for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)}


_USUAL = {
    name: module
    for module, names in {
        "json": "JSONDecodeError",
        "statistics": "StatisticsError",
        "dataclasses": "FrozenInstanceError",
        "decimal": "DecimalException InvalidOperation DivisionByZero Inexact Rounded Overflow Underflow",
        "queue": "Empty Full",
        "subprocess": "SubprocessError CalledProcessError TimeoutExpired",
        "zipfile": "BadZipFile",
        "configparser": "NoSectionError NoOptionError ParsingError",
        "asyncio": "InvalidStateError QueueEmpty QueueFull",
    }.items()
    for name in names.split()
}
"""Exceptions of the standard library that tests expect: name -> module."""


def _usual_error(name: str) -> type[Exception] | None:
    if name not in _USUAL:
        return None
    found = getattr(__import__(_USUAL[name]), name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


class CandidateError(Exception):
    """The candidate raised what must not be raised here: SystemExit, KeyboardInterrupt and their like."""


class Proxies:
    """Makes and remembers them, for one candidate."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        peer.wrap, peer.unwrap = self.wrap, self.unwrap
        self.handles: dict[int, Handle] = {}
        self.known: dict[str, Any] = {}
        self.errors: dict[str, type[Exception]] = {}
        self.numbers: dict[int, int] = {}

    def names(self) -> frozenset[str]:
        """What the candidate defines."""
        return self.peer.names()

    def module(self, name: str, public: Callable[[], list[str]]) -> RemoteModule:
        """The module that `import solution` gives."""
        return RemoteModule(name, self, public)

    def wrap(self, body: Any) -> Handle:
        """The object of a number that the candidate sent."""
        number, names, is_callable = body
        if type(number) is not int or type(names) is not list or any(type(name) is not str for name in names) or not names:
            raise ValueError("not the form of a handle")
        if number not in self.handles:
            self.handles[number] = Handle(self, number, names, is_callable is True)
        return self.handles[number]

    def unwrap(self, value: Any) -> Any:
        """The number of an object, where it has one."""
        if type(value) is Handle:
            return {"h": value._number}
        if type(value) is RemoteClass:
            return {"h": value._handle._number}
        if type(value) is Builtin:
            return {"bi": value.__name__}
        if id(value) in self.numbers:
            return {"h": self.numbers[id(value)]}
        return None

    def value(self, body: dict[str, Any], args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Ask, and raise here what the candidate raised."""
        try:
            return self.peer.value(body, args, kwargs)
        except RemoteError as error:
            raised = self.exception(error.error)
        raise raised

    def answer(self, reply: dict[str, Any]) -> Any:
        """The value in an answer that has come."""
        if "value" in reply:
            return self.peer.read(reply["value"])
        if "error" in reply:
            raise self.exception(self.peer._error(reply["error"]))
        self.peer.lose(f"it returned what cannot cross: {str(reply.get('cannot'))[:100]}")

    def find(self, name: str) -> Any:
        """What the candidate defines under a name.

        Raises:
            LookupError: nothing.
        """
        if name in self.known:
            return self.known[name]
        self.peer.touched = True
        if name not in self.peer.names():
            raise LookupError(name)
        meta = self.peer.functions.get(name) if self.peer.asked == 0 else None  # a call may have changed what a name means
        if type(meta) is dict and meta.get("kind") == "function":
            self.known[name] = self._make(name, meta)
            return self.known[name]
        reply = self.peer.ask({"get": name})
        meta = reply.get("meta")
        if "cannot" not in reply or type(meta) is not dict:
            return self.answer(reply)
        self.known[name] = self._make(name, meta)
        return self.known[name]

    def _make(self, name: str, meta: dict[str, Any]) -> Any:
        meta["h"] = self.peer.read({"h": meta.get("h")})
        meta["doc"] = meta["doc"] if type(meta.get("doc")) is str else None
        kind = meta.get("kind")
        if kind == "exception":
            meta |= self.peer._error({"type": name, "message": "", "mro": meta.get("mro"), "own": meta.get("own")})
            return self.error_class(meta["own"], meta["mro"])
        if kind == "class":
            members = meta.get("members")
            meta["members"] = {key: self.peer.read(data) for key, data in members.items()} if type(members) is dict else {}
            return RemoteClass(self, name, meta)
        made = self.function(name, meta.get("async") is True)
        made.__doc__ = meta["doc"]
        self.numbers[id(made)] = meta["h"]._number
        return made

    def function(self, name: str, is_async: bool = False) -> Callable[..., Any]:
        """A function that calls the candidate's."""

        def remote(*args: Any, **kwargs: Any) -> Any:
            return self.value({"call": name}, args, kwargs)

        async def remote_async(*args: Any, **kwargs: Any) -> Any:
            return remote(*args, **kwargs)

        made = remote_async if is_async else remote
        made.__name__ = made.__qualname__ = name
        made.__module__ = "solution"
        return made

    def error_class(self, own: list[str], mro: list[str]) -> type[Exception]:
        """The local class for an exception: the built-in one, or one of that name that derives from it."""
        made: type[Exception] = CandidateError
        if "Exception" in mro:
            made = next((_ERRORS[name] for name in mro if name in _ERRORS), Exception)
        if issubclass(made, StopIteration | StopAsyncIteration):
            # Raised from a call inside map() it would end the test's loop instead of failing it.
            made = RuntimeError
        for name in reversed(own):
            if (usual := _usual_error(name)) is not None:
                made = usual
                continue
            if name not in self.errors:
                self.errors[name] = type(name[:200].replace("\0", ""), (made,), {"__str__": _said, "__module__": "solution"})
            made = self.errors[name]
        return made

    def exception(self, error: dict[str, Any]) -> Exception:
        """The local exception for what the candidate raised."""
        kind = self.error_class(error["own"], error["mro"])
        if kind is CandidateError:
            return CandidateError(f"{error['type']}: {error['message']}")
        for args in (error["args"], [error["message"]]):
            try:
                made = kind(*args)
            except Exception:  # noqa: S112, arguments that do not fit the class
                continue
            if error["own"] and isinstance(getattr(made, "__dict__", None), dict):
                made.__dict__["_said"] = error["message"]
                made.__dict__.update({key: value for key, value in error["attributes"].items() if key not in dir(Exception)})
            return made
        made = kind.__new__(kind)  # of the standard library, with a constructor of its own: a JSONDecodeError
        made.args = (error["message"],)
        made.__dict__.update({key: value for key, value in error["attributes"].items() if key not in dir(Exception)})
        return made


def _said(error: Exception) -> str:
    said = error.__dict__.get("_said")
    return said if said is not None else Exception.__str__(error)


class RemoteModule(types.ModuleType):
    """What `import solution` gives to the test."""

    def __init__(self, name: str, proxies: Proxies, public: Callable[[], list[str]]) -> None:
        super().__init__(name)
        self.__dict__.update(_proxies=proxies, _public=public)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._public()
        if name[:2] == "__":
            raise AttributeError(name)
        try:
            return self._proxies.find(name)
        except LookupError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:2] != "__":
            self._proxies.peer.refuse(f"the test sets {self.__name__}.{name}")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._proxies.peer.names())
