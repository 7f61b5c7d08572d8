"""Stand-ins for plain values that a candidate returns to make a test's comparison succeed.

Two kinds of plain values can do this, so the test gets a stand-in for each:

- A built-in function or type. It could pose as a function that confirms the test's argument: `bool`, for example, returns
  True for nearly every argument. So the stand-in can be called only without arguments.
- An empty sequence. Numpy broadcasts it against any value, compares no element, and so finds no difference: the empty sequence
  passes as close to every value. So numpy never reads the stand-in, in any operation and at any depth of a list.
"""

from __future__ import annotations

import collections
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NAMED = frozenset(("a", "b", "a1", "a2", "x", "y", "actual", "desired"))
"""Names that numpy's comparisons give to their two operands."""
_numpy_guarded = False


class Builtin:
    """Stands for a built-in function or type that the candidate returned.

    The stand-in equals that function or type, and can be called only without arguments.
    """

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
        """Call the built-in type or function without arguments, as a factory, and return the result.

        Raises:
            TypeError: an argument was passed.
        """
        if args or kwargs:
            raise TypeError(f"{self.__name__}() with arguments, where a function returned it; such a test needs trust=shared")
        return self.of()


class _NotForNumpy:
    """A value that numpy must not read: numpy looks up these two attributes first, wherever the value occurs."""

    __slots__ = ()
    __array_ufunc__ = None

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise AssertionError("what has no elements is compared with values")


class EmptyArray(_NotForNumpy):
    """Stands for an empty array of the candidate. It equals an empty array of the same shape, and numpy never reads it."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._array)

    def __eq__(self, other: object) -> Any:
        array = self._array
        if type(other) not in (EmptyArray, type(array)) or other.shape != array.shape:  # type: ignore[attr-defined]
            raise AssertionError("what has no elements is compared with values")
        return array == array

    def __ne__(self, other: object) -> Any:
        return self == other  # an empty array either way

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Any:
        return map(EmptyArray, self._array)

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an empty array is ambiguous")

    def __repr__(self) -> str:
        return repr(self._array)

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "size", "ndim", "dtype", "sum", "prod"):
            return getattr(self._array, name)
        if name == "tolist":
            return lambda: guard_empty(self._array.tolist())
        raise AttributeError(f"{name} of an array without elements, that a function returned")


class _List(list["Any"], _NotForNumpy):
    __slots__ = ()


class _Tuple(tuple["Any", ...], _NotForNumpy):
    __slots__ = ()


class _Nothing(_NotForNumpy):
    """An empty value of a type that cannot be subclassed, or that numpy reads through the buffer protocol."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.of)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)

    def __getitem__(self, key: Any) -> Any:
        return self.of[key]

    def __eq__(self, other: object) -> bool:
        return bool(self.of == (other.of if isinstance(other, _NotForNumpy) and hasattr(other, "of") else other))

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Any:
        return iter(())

    def __repr__(self) -> str:
        return repr(self.of)


class _Range(_Nothing):
    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self.of)


_EMPTY: dict[type, Any] = {
    list: _List,
    tuple: _Tuple,
    range: _Range,
    bytearray: _Nothing,
    collections.deque: _Nothing,
}


def guard_empty(value: Any) -> Any:
    """Return a stand-in that numpy does not read if `value` is an empty sequence and the test uses numpy; else `value` itself.

    A sequence that contains only empty sequences counts as empty.
    """
    if _numpy_guarded and type(value) in _EMPTY and all(isinstance(item, _NotForNumpy) for item in value):
        return _EMPTY[type(value)](value)
    return value


def _plain(value: Any) -> Any:
    if type(value) is EmptyArray:
        return value._array
    if type(value) in (_Nothing, _Range):
        return value.of
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _size(numpy: Any, value: Any) -> int:
    try:
        return int(numpy.size(value))
    except ValueError:  # lists of different lengths in one
        return 1


def guard_numpy() -> None:
    """Make numpy's comparisons succeed if both operands are empty, and fail if only one is.

    Does nothing if numpy is not installed.
    """
    global _numpy_guarded
    if _numpy_guarded:
        return
    _numpy_guarded = True
    try:
        import numpy.testing
    except ImportError:
        return
    close = _guarding(numpy.isclose, 0)
    numpy.isclose = close
    everything: Any = getattr(numpy.allclose, "__wrapped__", numpy.allclose)
    everything.__globals__["isclose"] = close  # of the module that also numpy.testing has it from
    numpy.allclose = _guarding(numpy.allclose, 0)
    numpy.array_equal = _guarding(numpy.array_equal, 0)
    for name, asserted in list(vars(numpy.testing).items()):
        if name[:7] == "assert_" and name.endswith(("equal", "close", "less", "nulp", "ulp")):
            setattr(numpy.testing, name, _guarding(asserted, 0))
    compare = sys.modules["numpy.testing._private.utils"]
    compare.assert_array_compare = _guarding(compare.assert_array_compare, 1)  # type: ignore[attr-defined]


def _guarding(made: Callable[..., Any], first: int) -> Callable[..., Any]:
    import functools

    import numpy

    @functools.wraps(made)
    def watched(*args: Any, **kwargs: Any) -> Any:
        values = [*args[first : first + 2], *(kwargs[name] for name in _NAMED if name in kwargs)]
        sizes = [_size(numpy, _plain(value)) for value in values]
        if 0 in sizes:
            if any(sizes):
                raise AssertionError("what has no elements is compared with values")
            args, kwargs = tuple(map(_plain, args)), {name: _plain(value) for name, value in kwargs.items()}
        return made(*args, **kwargs)

    return watched
