"""Objects of the test's classes that the candidate uses by reference: every access is a request to the test's process.

Functions of the test are called in the same way. The candidate may read and set attributes, as if test and candidate shared one
process, but for
- names with two leading underscores, because they give access to frames and modules;
- methods of the object's class, which the candidate may call and not replace: the test judges with them;
- what the class of a mock defines, such as its records and assertions, and names with a leading underscore;
- objects of the candidate as attributes of a mock, which would answer the test's assertions.
"""

from __future__ import annotations

from verigym.sandbox.inside.wire import special_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_TEXTS = ("__repr__", "__str__")
_BASES = ("abc", "builtins", "enum", "typing", "unittest.mock")
"""Modules whose classes an exported class may derive from. A TestCase, for instance, would give access to the test itself."""


def is_exported(value: Any, module: str) -> bool:
    """Return whether `value` is sent to the candidate by reference instead of as data.

    This holds for mocks, for bare `object()`s, and for instances of classes that `module`, the test's module, defines. A class
    that derives from a class of another module is excluded, except for a few modules such as `abc`.
    """
    kind = type(value)
    if kind is object:
        return True
    homes = [base.__dict__.get("__module__", "builtins") for base in type.__dict__["__mro__"].__get__(kind)]
    return homes[0] in (module, "unittest.mock") and all(home == module or home in _BASES for home in homes)


def special(kind: type) -> list[str]:
    """Return the special methods that `kind`, a class of the test, defines, without those inherited from `object`."""
    names = [*special_methods.of(kind), *_TEXTS]
    return [name for name in names if getattr(kind, name) is not getattr(object, name, None)]


def _is_mock(kind: type) -> bool:
    return any(base.__module__ == "unittest.mock" for base in kind.__mro__)


def _defines(kind: type, name: str) -> bool:
    """Return whether a class defines a method, or another attribute that an instance's own would hide, other than data."""
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return hasattr(type(found), "__get__") and not hasattr(type(found), "__set__")


class ExportedObject:
    """Wraps an object of the test and performs the candidate's operations on it. The candidate calls it like a function."""

    __slots__ = ("_is_candidates", "value")

    def __init__(self, value: Any, is_candidates: Callable[[Any], bool]) -> None:
        self.value = value
        self._is_candidates = is_candidates

    def _is_refused(self, op: str, name: str, given: tuple[Any, ...]) -> bool:
        """Return whether the candidate may not do this: it would change how the test judges."""
        kind = type(self.value)
        if _is_mock(kind):
            return name[:1] == "_" or name[:6] == "assert" or hasattr(kind, name) or any(map(self._is_candidates, given))
        return op in ("set", "del") and _defines(kind, name)

    def __call__(self, op: str, name: str, *args: Any, **kwargs: Any) -> Any:
        """Perform the operation `op` on the attribute or special method `name` of the object.

        Returns:
            For a special method, a pair: whether the method is implemented for these arguments, and its result. Otherwise only
            the result.

        Raises:
            AttributeError: the candidate may not use `name`.
        """
        if op == "special":
            if name not in special(type(self.value)):
                raise AttributeError(name)
            result = getattr(type(self.value), name)(self.value, *args, **kwargs)
            return (False, None) if result is NotImplemented else (True, result)
        if type(name) is not str or name[:2] == "__":
            raise AttributeError(name)
        if self._is_refused(op, name, args):
            raise AttributeError(f"{name!r} of {type(self.value).__name__!r} is the test's own")
        if op == "set":
            return setattr(self.value, name, *args)
        return delattr(self.value, name) if op == "del" else getattr(self.value, name)


def make_stub(ask: Callable[..., Any], description: dict[str, Any]) -> Any:
    """Make the stub that represents an object of the test in the candidate's process.

    Args:
        ask: calls the object's `ExportedObject` in the test's process.
        description: the class name (`name`), docstring (`doc`) and special methods (`special`) of the object.
    """

    def method(name: str) -> Callable[..., Any]:
        def special(self: Any, *args: Any, **kwargs: Any) -> Any:
            is_implemented, result = ask("special", name, *args, **kwargs)
            return result if is_implemented else NotImplemented

        special.__name__ = name
        return special

    body: dict[str, Any] = {
        "__getattr__": lambda self, name: ask("get", name),
        "__setattr__": lambda self, name, value: ask("set", name, value),
        "__delattr__": lambda self, name: ask("del", name),
        "__module__": "__main__",
        "__doc__": description["doc"],
        **{name: method(name) for name in description["special"]},
    }
    if "__eq__" in body and "__hash__" not in body:
        body["__hash__"] = None
    return type(description["name"], (), body)()
