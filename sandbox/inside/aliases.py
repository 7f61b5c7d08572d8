"""Lists, dictionaries and sets that test and program both hold, each a copy: whoever goes on next has the other's changes.

Both sides have one of these. Both hold an argument that the program has kept, what it returns and keeps, and an attribute or a
name of its own that the test has read.
"""

from __future__ import annotations

import collections
import sys

from verigym.sandbox.inside.encoding import CannotCross, Encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

KINDS = (list, dict, set, bytearray, collections.deque)
_MOST = 64
_MOST_NODES = 10_000
"""Of all containers together: they are written at each crossing. What is larger is a copy, as arguments of functions are."""


_references = sys.getrefcount


class Aliases:
    """Containers by number, and how each was when the sides last agreed."""

    def __init__(self, handle: Callable[..., Any] | None = None) -> None:
        self.handle = handle
        """Writes what is not plain data in a container."""
        self._held: dict[int, list[Any]] = {}
        self._numbers: dict[int, int] = {}
        self._made = 0

    def number(self, value: Any) -> int | None:
        """The number of a container; None: it is not held by both."""
        return self._numbers.get(id(value))

    def get(self, number: int) -> Any:
        """The container of a number; None: there is none."""
        return self._held[number][0] if number in self._held else None

    def hold(self, value: Any, number: int | None = None) -> int | None:
        """Hold a container from now on; returns its number, or None if it is too large to be written at each crossing."""
        known = self._numbers.get(id(value))
        if known is not None and number in (None, known):
            return known
        if type(value) not in KINDS or len(self._held) >= _MOST:
            return None
        data = self._written([value])
        if data is None:
            return None
        if number is None:
            number = self._made = self._made + 1
        self._held[number] = [value, data[0]]
        self._numbers[id(value)] = number
        return number

    def _written(self, values: Iterable[Any]) -> list[Any] | None:
        to = Encoder(self.handle, _MOST_NODES)
        try:
            return [to.put(value, 0) for value in values]
        except (CannotCross, RuntimeError):  # too much of it, or changed by another thread meanwhile
            return None

    def changes(self) -> list[list[Any]]:
        """What this side has changed since the sides last agreed: numbers and contents. What nobody else holds is forgotten."""
        if not self._held:
            return []
        alone = [number for number, held in self._held.items() if _references(held[0]) <= _OURS]
        written = self._written(held[0] for held in self._held.values())
        if written is None:
            for number in list(self._held):
                self._forget(number)
            return []
        found = []
        for (number, held), now in zip(self._held.items(), written, strict=True):
            if now != held[1]:
                held[1] = now
                found.append([number, now])
        for number in alone:
            self._forget(number)
        return found

    def _forget(self, number: int) -> None:
        value, _ = self._held.pop(number)
        if self._numbers.get(id(value)) == number:
            del self._numbers[id(value)]

    def apply(self, changes: Any, read: Callable[[Any], Any]) -> None:
        """Change what the other side has changed.

        Raises:
            ValueError: they are not of that form.
        """
        if type(changes) is not list:
            raise ValueError("changes that are no list")
        for change in changes:
            if type(change) is not list or len(change) != 2 or type(change[0]) is not int:
                raise ValueError("a change that is no number and content")
            held = self._held.get(change[0])
            if held is None:  # forgotten here
                continue
            merge(held[0], read(change[1]))
            written = self._written([held[0]])
            held[1] = None if written is None else written[0]


def merge(old: Any, new: Any) -> Any:
    """Make `old` equal to `new` in place, its inner containers too; returns `new` where that cannot be done."""
    if type(old) is list and isinstance(new, list):
        old[:] = [merge(a, b) for a, b in zip(old, new, strict=False)] + new[len(old) :]
    elif isinstance(old, dict) and type(new) is dict:
        kept = {key: merge(old[key], value) if key in old else value for key, value in new.items()}
        old.clear()
        old.update(kept)
    elif type(old) is set and type(new) is set:
        old.clear()
        old.update(new)
    elif type(old) is bytearray and type(new) is bytearray:
        old[:] = new
    elif type(old) is collections.deque and type(new) is collections.deque:
        old.clear()
        old.extend(new)
    elif type(old).__name__ == "ndarray" and getattr(new, "shape", None) == old.shape:
        old[...] = new
    else:
        return new
    return old


def kept(given: list[tuple[Any, Any, Any]], most: int | None = None) -> list[tuple[Any, Any]]:
    """Which of the values, each the third in its tuple, something else holds as well; with the first of its tuple."""
    most = ONCE if most is None else most
    return [(place, value) for place, _, value in given if _references(value) > most]


def _counted(given: list[tuple[Any, Any, Any]]) -> int:
    return next(most for most in range(10) if not kept(given, most))


ONCE = _counted([(0, 0, [])])
_EXAMPLE: dict[int, list[Any]] = {0: [[], None]}
_OURS = next(_references(held[0]) for held in _EXAMPLE.values())
"""How often interpreters count what is held once: here in a tuple, there in the list of `Aliases`."""
