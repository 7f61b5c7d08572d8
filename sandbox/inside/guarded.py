"""Plain values of a candidate's that could do more for it than be compared, as a test gets them.

A built-in function or type would judge what a test passes to it: `bool` for a function that says whether its argument is right.
An array without elements is equal to everything by numpy's rules for arrays of different shapes: nothing in it differs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_CLOSE = ("allclose", "isclose")
_kinds: list[type] = []


class Builtin:
    """A built-in function or type that the candidate named: equal to it, and called with nothing but no arguments."""

    __slots__ = ("__name__", "of")

    def __init__(self, name: str, of: Any) -> None:
        self.__name__, self.of = name, of

    def __eq__(self, other: object) -> bool:
        return other is self.of or (type(other) is Builtin and other.of is self.of)

    def __hash__(self) -> int:
        return hash(self.of)

    def __repr__(self) -> str:
        return repr(self.of)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as a factory.

        Raises:
            TypeError: there are arguments.
        """
        if args or kwargs:
            raise TypeError(f"{self.__name__}() with arguments, where a function returned it; such a test needs trust=shared")
        return self.of()


def empty_array(array: Any) -> Any:
    """The same array of no elements, that refuses to be compared with what has some."""
    if not _kinds:
        _kinds.append(_guard())
    return array.view(_kinds[0])


def _guard() -> type:
    import numpy

    def look(values: Any) -> None:
        if any(numpy.size(value) for value in values):
            raise TypeError("an array without elements is compared with values")

    class EmptyArray(numpy.ndarray):
        @property
        def flat(self) -> Any:  # as pytest.approx compares each element with a number
            raise TypeError("an array without elements is compared with a value")

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            if method == "__call__" and ufunc.__name__ in _COMPARE:
                look(inputs)
            plain = [value.view(numpy.ndarray) if isinstance(value, EmptyArray) else value for value in inputs]
            made = getattr(ufunc, method)(*plain, **kwargs)
            return made.view(EmptyArray) if type(made) is numpy.ndarray and not made.size else made

        def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            if func.__name__ in _CLOSE:
                look(args[:2])
            return super().__array_function__(func, types, args, kwargs)

    return EmptyArray
