"""Proxies of the candidate's functions, classes and module."""

from __future__ import annotations

import types

from verigym.sandbox.inside.candidate.exceptions import plain_name
from verigym.sandbox.inside.testside.derived import DerivedMeta, local_base
from verigym.sandbox.inside.testside.handles import STANDARD, Handle
from verigym.sandbox.inside.testside.remote_info import info_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from verigym.sandbox.inside.testside.proxies import Proxies
    from verigym.sandbox.inside.testside.remote_info import RemoteInfo


_OF_FUNCTIONS = frozenset(
    "__name__ __qualname__ __doc__ __defaults__ __kwdefaults__ __annotations__ __code__ __closure__ __wrapped__".split()
)


class RemoteFunction:
    """A callable proxy of a function of the candidate, with the function's name and signature."""

    def __init__(self, proxies: Proxies, name: str, info: RemoteInfo, is_async: bool) -> None:
        self._proxies = proxies
        self._written = name
        self._info = info
        self._is_async = is_async

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return types.FunctionType

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the candidate's function and return its result.

        For an async function, return a coroutine; the function is called only when the coroutine is awaited.
        """
        if self._is_async:
            return self._awaited(args, kwargs)
        return self._proxies.value({"call": self._written}, args, kwargs)

    async def _awaited(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return await self._proxies.value({"call": self._written}, args, kwargs)

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_FUNCTIONS:
            return object.__getattribute__(self, "_info").attribute(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return f"<function {self._written}>"

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return "solution"

    @property
    def __signature__(self) -> Any:
        import inspect

        parameters = []
        for name, kind, has_default, default in self._info.ask("signature"):
            given = {"default": default} if has_default else {}
            parameters.append(inspect.Parameter(name, inspect._ParameterKind(kind), **given))
        return inspect.Signature(parameters)


_OF_STAND_INS = frozenset(
    (
        "__class__ __dict__ __name__ __qualname__ __doc__ __mro__ __call__ __instancecheck__ __subclasscheck__ __mro_entries__ "
        "__setattr__ __getattr__ __getattribute__ __init__ __new__ __hash__ __eq__ __reduce_ex__ __init_subclass__ __prepare__ "
        "__array__ __array_ufunc__ __array_interface__ __array_struct__"
    ).split()
)
"""Dunder names that the proxy itself has; all others are looked up in the program."""


class RemoteClass:
    """Proxy of a class of the candidate."""

    def __init__(self, proxies: Proxies, name: str, meta: dict[str, Any]) -> None:
        self._names = meta["names"]
        self.__name__ = self.__qualname__ = plain_name(self._names[0])
        self._written = name
        self.__doc__ = meta["doc"]
        self._proxies = proxies
        self._handle = meta["h"]
        self._parameters = meta["parameters"]
        # Bound once: enumeration members must not change after the candidate has answered.
        self._members = meta["members"]
        self._is_open = name in proxies.usage.classes
        self._handle._remote_info().is_named = self._handle._remote_info().is_open = True

    def _remote_info(self) -> RemoteInfo:
        return self._handle._remote_info()  # type: ignore[no-any-return]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make an instance of the candidate's class and return its proxy.

        Values of the test may be passed to the instance only if the test uses the name as a class name. Without this rule, a
        candidate could define the expected function `f` as a class, whose instances would learn the values that the test
        expects.
        """
        made = self._proxies.value({"op": "call", "h": self._handle._remote_info().number, "make": True}, args, kwargs)
        return self._made(made, args, kwargs)

    @property
    def __mro__(self) -> tuple[type | RemoteClass, ...]:
        """Its MRO; classes of the candidate are found by name."""
        own = self._proxies.names()
        return tuple(
            self._proxies.find(name) if name in own else STANDARD.get(name) or type(plain_name(name), (), {})
            for name in self._names
        ) + (object,)

    def _made(self, made: Any, args: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> Any:
        if not isinstance(made, Handle) or made._remote_info().number in self._proxies.members:
            return made
        made = self._proxies.made(made._remote_info(), (self, args, kwargs))
        made._remote_info().is_open = self._is_open
        return made

    def __getattribute__(self, name: str) -> Any:
        if name[:2] == "__" and name not in _OF_STAND_INS:
            return object.__getattribute__(self, "_handle")._remote_info().attribute(name)
        return object.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._remote_info().ask("dir")]

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        if name in self._members:
            return self._members[name]
        value = getattr(self._handle, name)
        if isinstance(value, Handle | type | RemoteClass) or not callable(value):
            return value

        def method(*args: Any, **kwargs: Any) -> Any:
            made = value(*args, **kwargs)
            is_mine = isinstance(made, Handle) and self._names[0] in made._remote_info().names
            return self._made(made, None, {}) if is_mine else made

        method.__name__ = name
        return method

    def __setattr__(self, name: str, value: Any) -> None:
        if "_is_open" in self.__dict__ and name[:2] != "__":
            setattr(self._handle, name, value)
        else:
            object.__setattr__(self, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._members.values())) if self._members else iter(self._handle)

    def __len__(self) -> int:
        return len(self._members) if self._members else len(self._handle)

    def __contains__(self, item: Any) -> bool:
        return any(item is member for member in self._members.values())

    def __getitem__(self, key: Any) -> Any:
        return self._members[key] if self._members else self._handle[key]

    def __instancecheck__(self, value: object) -> bool:
        info = info_of(value)
        return info is not None and type(value) is not RemoteClass and self._names[0] in info.names

    def __subclasscheck__(self, kind: object) -> bool:
        remote = kind._base if type(kind) is DerivedMeta else kind
        return type(remote) is RemoteClass and self._names[0] in remote._names

    def __mro_entries__(self, bases: tuple[Any, ...]) -> Any:
        if self._members:  # Python's own rule, which the program cannot avoid
            raise TypeError(f"{self.__name__!r} is an enumeration: no class can be derived from it")
        if "_derivable" not in self.__dict__:
            self.__dict__["_derivable"] = local_base(self)
        return (self.__dict__["_derivable"],)


class RemoteModule(types.ModuleType):
    """The module that `import solution` gives the test."""

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
            self._proxies.peer.missed_a_name = True
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name[:2] != "__":
            self._proxies.peer.refuse(f"the test sets {self.__name__}.{name}")
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        self._proxies.peer.missed_a_name = True  # it may look for any name
        return sorted(self._proxies.peer.names())
