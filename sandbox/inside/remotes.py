"""Classes and objects of the candidate's, as the test sees them.

An object of the candidate's is only a number here. Equality, order, hash and truth never ask the candidate, and neither does
`in` beyond what iteration gives: an object whose `__eq__` lies gains nothing.
"""

from __future__ import annotations

from verigym.sandbox.inside.peer import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from verigym.sandbox.inside.proxies import Proxies


class Handle:
    """An object of the candidate's, by number."""

    __slots__ = ("_callable", "_function_of_class", "_made_by_test", "_methods", "_names", "_number", "_proxies", "_read")

    def __init__(self, proxies: Proxies, number: int, names: list[str], is_callable: bool) -> None:
        values: tuple[Any, ...] = (is_callable, False, False, set(), names, number, proxies, None)
        for slot, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(self, slot, value)

    def _do(self, op: str, *args: Any, **kwargs: Any) -> Any:
        return self._proxies.value({"op": op, "h": self._number}, args, kwargs)

    def _method(self, name: str) -> Callable[..., Any]:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._only_if_made_by_test(f"{name}()", args, kwargs)
            return self._do("method", name, *args, **kwargs)

        guarded.__name__ = name
        return guarded

    def _only_if_made_by_test(self, what: str, args: Any, kwargs: Any) -> None:
        """An argument may be what is expected, and an object that stands where plain data should must not judge it."""
        if (args or kwargs) and not self._made_by_test and not self._function_of_class:
            raise TypeError(f"{what} with arguments, of an object that a function returned; such a test needs trust=shared")

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        if name in self._methods:
            return self._method(name)
        reply = self._proxies.peer.ask({"op": "attr", "h": self._number}, (name,))
        if reply.get("cannot") == "method":
            self._methods.add(name)
            return self._method(name)
        found = self._proxies.answer(reply)
        if type(found) is Handle and found._callable and self._made_by_test:  # a static method
            object.__setattr__(found, "_function_of_class", True)
        return found

    def _content(self) -> Any:
        """What is in it, asked for once, so that length, iteration and items agree as those of plain data do."""
        if self._read is None:
            content = self._do("content")
            if type(content) not in (list, dict):
                self._proxies.peer.lose("protocol: content that is neither a list nor a dict")
            object.__setattr__(self, "_read", content)
        return self._read

    def __setattr__(self, name: str, value: Any) -> None:
        self._do("set", name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the object."""
        if not self._callable:
            raise TypeError(f"{self._names[0]!r} object is not callable")
        self._only_if_made_by_test("a call", args, kwargs)
        return self._do("call", *args, **kwargs)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return int(self._do("len")) if self._made_by_test else len(self._content())

    def __str__(self) -> str:
        return self._text("str")

    def __repr__(self) -> str:
        return self._text("repr")

    def _text(self, op: str) -> str:
        text = self._do(op)
        return text if type(text) is str else self._proxies.peer.lose("protocol: a text that is no text")

    def __iter__(self) -> Iterator[Any]:
        if not self._made_by_test:
            return iter(self._content())
        made = self._do("iter")
        # An iterator of a class of the candidate's: its `__next__` is asked each time.
        return made if type(made) is Handle else iter(made)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy

        items = list(self)
        if not items:  # see `guarded`
            raise TypeError(f"an empty {self._names[0]!r} object is no array")
        return numpy.array(items, dtype=dtype)

    def __next__(self) -> Any:
        if not self._made_by_test:
            content = self._content()
            if type(content) is list and content:
                return content.pop(0)
            raise StopIteration
        try:
            return self._proxies.peer.value({"op": "next", "h": self._number})
        except RemoteError as error:
            if "StopIteration" in error.error["mro"]:
                raise StopIteration from None
            raise self._proxies.exception(error.error) from None

    def __contains__(self, item: Any) -> bool:
        return any(item is found or item == found for found in self)

    def __getitem__(self, key: Any) -> Any:
        return self._do("item", key) if self._made_by_test else self._content()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._do("setitem", key, value)

    def __enter__(self) -> Any:
        return self._do("method", "__enter__")

    def __exit__(self, *_: object) -> None:
        self._do("method", "__exit__", None, None, None)


class RemoteClass:
    """A class of the candidate's."""

    def __init__(self, proxies: Proxies, name: str, meta: dict[str, Any]) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = meta["doc"]
        self._proxies = proxies
        self._handle = meta["h"]
        # Bound once: what an enumeration's member is must not change after the candidate has answered.
        self._members = meta["members"]
        self._is_class = name[:1].isupper()
        object.__setattr__(self._handle, "_made_by_test", self._is_class)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make an instance. Only where the test's name for it is a class's may it judge arguments: `f` could be a class too."""
        made = self._proxies.value({"call": self.__name__}, args, kwargs)
        if type(made) is Handle and self._is_class:
            object.__setattr__(made, "_made_by_test", True)
        return made

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return self._members[name] if name in self._members else getattr(self._handle, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._members.values())) if self._members else iter(self._handle)

    def __getitem__(self, key: Any) -> Any:
        return self._members[key] if self._members else self._handle[key]

    def __instancecheck__(self, value: object) -> bool:
        return type(value) is Handle and self.__name__ in value._names

    def __subclasscheck__(self, kind: object) -> bool:
        return type(kind) is RemoteClass and self.__name__ in kind._handle._names

    def __mro_entries__(self, bases: tuple[Any, ...]) -> Any:
        self._proxies.peer.refuse(f"the test derives a class from {self.__name__}")
