"""Objects of classes that the test defines, lent to the candidate: it asks the test's process for all they do.

A function of the test's is called back in the test's process; an object is a function with a state. The candidate may read
and set what it could in one process, but for names with two underscores, which lead to frames and modules.
"""

from __future__ import annotations

from verigym.sandbox.inside.wire import special_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_TEXTS = ("__repr__", "__str__")
_BASES = ("abc", "builtins", "enum", "typing", "unittest.mock")
"""Modules of whose classes a class of the test's may be made. A TestCase, say, would hand out the test itself."""


def is_exported(value: Any, module: str) -> bool:
    """Whether an object crosses by number: its class is the test's, or a mock, and plain data cannot be meant."""
    kind = type(value)
    if kind is object:
        return True
    homes = [base.__dict__.get("__module__", "builtins") for base in type.__dict__["__mro__"].__get__(kind)]
    return homes[0] in (module, "unittest.mock") and all(home == module or home in _BASES for home in homes)


def special(kind: type) -> list[str]:
    """The special methods that a class of the test's defines; those of `object` need nobody to be asked."""
    found = [*special_methods.of(kind), *_TEXTS]
    return [name for name in found if getattr(kind, name) is not getattr(object, name, None)]


class ExportedObject:
    """Does with an object of the test's what the candidate asks for. Called as a function of the test's is."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, op: str, name: str, *args: Any, **kwargs: Any) -> Any:
        """Do it.

        Returns:
            What the object gives; of a special method, whether it is implemented for these arguments, and what it gives.

        Raises:
            AttributeError: the name is not the candidate's to use.
        """
        if op == "special":
            if name not in special(type(self.value)):
                raise AttributeError(name)
            found = getattr(type(self.value), name)(self.value, *args, **kwargs)
            return (False, None) if found is NotImplemented else (True, found)
        if type(name) is not str or name[:2] == "__":
            raise AttributeError(name)
        if op == "set":
            return setattr(self.value, name, *args)
        return delattr(self.value, name) if op == "del" else getattr(self.value, name)


def make_stub(ask: Callable[..., Any], about: dict[str, Any]) -> Any:
    """What the candidate gets for an object of the test's.

    Args:
        ask: has the object's `ExportedObject` called.
        about: the name of its class, and the special methods that this has.
    """

    def method(name: str) -> Callable[..., Any]:
        def special(self: Any, *args: Any, **kwargs: Any) -> Any:
            is_implemented, found = ask("special", name, *args, **kwargs)
            return found if is_implemented else NotImplemented

        special.__name__ = name
        return special

    body: dict[str, Any] = {
        "__getattr__": lambda self, name: ask("get", name),
        "__setattr__": lambda self, name, value: ask("set", name, value),
        "__delattr__": lambda self, name: ask("del", name),
        "__module__": "__main__",
        "__doc__": about["doc"],
        **{name: method(name) for name in about["special"]},
    }
    if "__eq__" in body and "__hash__" not in body:
        body["__hash__"] = None
    return type(about["name"], (), body)()
