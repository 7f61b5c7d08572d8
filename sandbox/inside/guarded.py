"""Plain values of a candidate's that could do more for it than be compared, as a test gets them.

A built-in function or type would judge what a test passes to it: `bool` for a function that says whether its argument is right.
What has no elements is close to everything by numpy's rules for different shapes: nothing in it differs.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_COMPARE = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_watched = False
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

    def plain(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(value.view(numpy.ndarray) if isinstance(value, EmptyArray) else value for value in values)

    class EmptyArray(numpy.ndarray):
        @property
        def flat(self) -> Any:  # as pytest.approx compares each element with a number
            raise AssertionError("what has no elements is compared with values")

        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
            if method == "__call__" and ufunc.__name__ in _COMPARE:
                _look(numpy.size, inputs)
            if "out" in kwargs:
                kwargs["out"] = plain(kwargs["out"])
            made = getattr(ufunc, method)(*plain(inputs), **kwargs)
            return made.view(EmptyArray) if type(made) is numpy.ndarray and not made.size else made

    return EmptyArray


def watch_numpy() -> None:
    """Have numpy's comparisons refuse to compare what has no elements with what has some. Where it is not there, do nothing."""
    global _watched
    if _watched:
        return
    _watched = True
    try:
        import numpy.testing
    except ImportError:
        return
    close = _watching(numpy.isclose, 0)
    numpy.isclose = close
    everything: Any = getattr(numpy.allclose, "__wrapped__", numpy.allclose)
    everything.__globals__["isclose"] = close  # of the module that also numpy.testing has it from
    compare = sys.modules["numpy.testing._private.utils"]
    compare.assert_array_compare = _watching(compare.assert_array_compare, 1)  # type: ignore[attr-defined]


def _watching(made: Callable[..., Any], first: int) -> Callable[..., Any]:
    import functools

    import numpy

    @functools.wraps(made)
    def watched(*args: Any, **kwargs: Any) -> Any:
        _look(numpy.size, [*args[first : first + 2], *(kwargs[name] for name in ("a", "b") if name in kwargs)])
        return made(*args, **kwargs)

    return watched


def _look(size: Callable[[Any], int], values: Sequence[Any]) -> None:
    sizes = list(map(size, values))
    if 0 in sizes and any(sizes):
        raise AssertionError("what has no elements is compared with values")
