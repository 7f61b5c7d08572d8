"""Containers that test and program both hold, each a copy: whoever goes on next has the other's changes.

Both sides have one table of them, by number. Arguments are held, with all that is in them, from when they are sent until the
program is found to have kept none of them; results only where the program holds them elsewhere too. A held container is written
as its number, so that one list stays one wherever it stands; a change to one is sent as its new items, once.
"""

from __future__ import annotations

import _operator
import collections
import gc
import sys

from verigym.sandbox.inside.wire.decoding import Decoder, codec_errors
from verigym.sandbox.inside.wire.encoding import CannotCross, Encoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence
    from typing import Any

_MOST = 50_000
"""Items of all held containers together, looked through at each crossing. When a call has ended, what is larger is a copy."""
_FEW = 256
"""So many containers and items are not worth a search for those that nobody needs."""
_INNER = frozenset(
    (list, dict, set, bytearray, tuple, frozenset, collections.deque)
    + (collections.defaultdict, collections.OrderedDict, collections.Counter)
)
_references = sys.getrefcount
_is = _operator.is_


class SharedContainers:
    """One side's table: containers by number, and the items that each had when the sides last agreed."""

    def __init__(self, handle: Callable[..., Any] | None = None, read: Callable[..., Any] | None = None, sign: int = 1) -> None:
        self.handle = handle
        """Writes what is not plain data in a container."""
        self._read = read
        """Reads that."""
        self._sign = sign
        """This side's numbers have it, the other's do not."""
        self._held: dict[int, list[Any]] = {}
        self._numbers: dict[int, int] = {}
        self._made = 0
        self._size = 0
        self._few = _FEW
        self._received: Sequence[int] = ()
        """The numbers of what came with the last message."""

    def get(self, number: int) -> Any:
        """The container of a number; None: there is none."""
        return self._held[number][0] if number in self._held else None

    def write(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The JSON of each value, in which a container that stands in two places is one, and the containers met.

        Raises:
            CannotCross: one is not plain data, or too large.
        """
        to = Encoder(self.handle, shared=self._numbers)
        return [to.put(value, 0) for value in values], to.order

    def read(self, data: Sequence[Any], *, guard: bool = False) -> tuple[list[Any], list[Any]]:
        """The values that the other side has written, and the containers met.

        Raises:
            CodecError: they are no encodings.
        """
        by = Decoder(self._read, True, guard, self.get)
        with codec_errors():
            return [by.get(item, 0) for item in data], by.order

    def send(self, containers: list[Any], holder: list[Any] | None = None, *, is_over: bool = False) -> dict[str, Any]:
        """What the other side must know beside the values just written; both hold from now on what was met.

        Args:
            containers: those in the values.
            holder: a list that holds the values; what nothing else holds is left out.
            is_over: whether a call ends with this, so that what is too large may be forgotten.
        """
        places: Sequence[int] = range(len(containers))
        if holder is not None:
            is_small = len(containers) > 0 and _size(holder) <= _MOST
            mine = _held_elsewhere((holder, containers), {id(value) for value in containers}) if is_small else set()
            places = [place for place, value in enumerate(containers) if id(value) in mine]
        update: dict[str, Any] = {}
        if places:
            update["held"] = [self._number(len(containers)), None if holder is None else places]
            self._hold(containers, *update["held"])
        changed, dropped = self._changes()
        if is_over and self._size > _MOST:  # first what this call was given
            dropped += self._received
        dropped = self._drop(dropped)
        if self._size > self._few:
            dropped += self._drop(self._unreferenced(holder or [], containers))
        if is_over and self._size > _MOST:
            dropped += self._drop(list(self._held))
        if changed:
            update["changed"] = changed
        return update | ({"gone": dropped} if dropped else {})

    def receive(self, update: Any, containers: list[Any], *, guard: bool = False) -> None:
        """Hold what came with a message, and change what the other side has changed.

        Raises:
            ValueError: it is not of that form.
        """
        if type(update) is not dict or not all(type(update.get(key, [])) is list for key in ("held", "changed", "gone")):
            raise ValueError("no account of what both hold")
        self._received = ()
        if "held" in update:
            base, places = _parts(update["held"], 2)
            self._hold_numbered(containers, base, places)
            self._received = range(base, base - self._sign * len(containers), -self._sign)
        for change in update.get("changed", ()):
            number, body, base = _parts(change, 3)
            held = self._held.get(number) if type(number) is int else None
            by = Decoder(self._read, True, guard, self.get)
            with codec_errors():
                content = by.raw(body, 0)
            if base is not None:
                self._hold_numbered(by.order, base, None)
            if held is not None:
                _assign(held[0], content)
                held[1] = _items(held[0])
        self._drop(number for number in update.get("gone", ()) if type(number) is int)

    def _number(self, count: int) -> int:
        first = self._made + 1
        self._made += count
        return first * self._sign

    def _hold_numbered(self, containers: list[Any], base: Any, places: Any) -> None:
        """Hold what the other side has numbered."""
        if type(base) is not int or base * self._sign >= 0:
            raise ValueError("held by no number of that side's")
        if places is not None and (
            type(places) is not list or not all(type(p) is int and 0 <= p < len(containers) for p in places)
        ):
            raise ValueError("held at no place")
        if not self._held.keys().isdisjoint(base - self._sign * place for place in range(len(containers))):
            raise ValueError("a number twice")
        self._hold(containers, base, places)

    def _hold(self, containers: list[Any], base: int, places: Sequence[int] | None) -> None:
        sign = 1 if base > 0 else -1
        for place in range(len(containers)) if places is None else places:
            value = containers[place]
            items = _items(value)
            if id(value) in self._numbers:  # twice, by a side that says so of its own accord
                continue
            self._held[base + sign * place] = [value, items]
            self._numbers[id(value)] = base + sign * place
            self._size += _weight(items)

    def _changes(self) -> tuple[list[Any], list[int]]:
        """New items of what this side has changed since the sides last agreed; the numbers of what can no longer be written."""
        changed: list[Any] = []
        dropped = []
        for number, held in [pair for pair in self._held.items() if not _same(*pair[1])]:
            to = Encoder(self.handle, shared=self._numbers)
            try:
                body = to.content(held[0])
            except (CannotCross, RuntimeError):  # too much of it, or changed by another thread meanwhile
                dropped.append(number)
                continue
            self._size -= _weight(held[1])
            held[1] = _items(held[0])
            self._size += _weight(held[1])
            base = self._number(len(to.order)) if to.order else None
            changed.append([number, body, base])
            if base is not None:
                self._hold(to.order, base, None)
        return changed, dropped

    def _unreferenced(self, *passing: list[Any]) -> list[int]:
        """The numbers of what nothing but this table holds, and the lists of what is passed now."""
        needed = _held_elsewhere((self._held, *passing), self._numbers)
        found = [number for number, held in self._held.items() if id(held[0]) not in needed]
        self._few = _FEW + 2 * (self._size - sum(_weight(self._held[number][1]) for number in found))
        return found

    def _drop(self, numbers: Iterable[int]) -> list[int]:
        """Hold none of these any more; returns which were held."""
        found = []
        for number in numbers:
            held = self._held.pop(number, None)
            if held is not None:
                self._size -= _weight(held[1])
                del self._numbers[id(held[0])]
                found.append(number)
        return found


def _parts(data: Any, count: int) -> list[Any]:
    if type(data) is not list or len(data) != count:
        raise ValueError("a change of another form")
    return data


def _items(value: Any) -> Any:
    """What a container holds now, to be told from what it holds later by identity; of bytes and arrays the bytes."""
    if isinstance(value, dict):
        return [*dict.keys(value), *dict.values(value)]
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "tobytes"):
        return value.ravel().tolist() if value.dtype.hasobject else value.tobytes()
    return list(value)


def _same(value: Any, items: Any) -> bool:
    try:
        if type(value) is list:
            return len(value) == len(items) and all(map(_is, value, items))
        now = _items(value)
        return len(now) == len(items) and all(map(_is, now, items)) if type(items) is list else bool(now == items)
    except RuntimeError:  # changed by another thread meanwhile
        return False


def _weight(items: Any) -> int:
    return 16 + len(items)  # to look at a container costs as much as to look at so many items


def _size(holder: list[Any]) -> int:
    """How much is in a list of values, counted as far as matters."""
    size, todo = 0, [holder]
    while todo and size <= _MOST:
        for child in gc.get_referents(todo.pop()):
            size += 1
            if type(child) in _INNER:
                todo.append(child)
    return size


def _assign(value: Any, content: Any) -> None:
    """Give a container other items.

    Raises:
        ValueError: they are another kind's.
    """
    if isinstance(value, list) and isinstance(content, list):
        list.__setitem__(value, slice(None), content)
    elif isinstance(value, dict) and isinstance(content, dict):
        dict.clear(value)
        dict.update(value, content)
    elif isinstance(value, set) and isinstance(content, set):
        value.clear()
        value.update(content)
    elif type(value) is bytearray and isinstance(content, bytearray):
        value[:] = list(content)
    elif type(value) is collections.deque and isinstance(content, collections.deque):
        value.clear()
        value.extend(content)
    elif getattr(value, "shape", None) is not None and getattr(content, "shape", None) == value.shape:
        if value.size:
            value[...] = content
    else:
        raise ValueError("changed into another kind of value")


def _held_elsewhere(roots: Sequence[Any], known: Container[int], most: int | None = None) -> set[int]:
    """Of what is in containers, at any depth, what something outside them holds as well, and what is in that; by identity.

    Args:
        roots: the containers.
        known: identities of what counts beside the usual containers.
        most: how many references are this function's own.
    """
    counts: dict[int, int] = {}
    nodes: dict[int, Any] = {}
    todo = [*roots]
    child: Any = None
    while todo:
        for child in gc.get_referents(todo.pop()):
            key = id(child)
            if key in counts:
                counts[key] += 1
            elif type(child) in _INNER or key in known:
                counts[key] = 1
                nodes[key] = child
                todo.append(child)
    child = None
    most = _OWN if most is None else most
    todo = [node for key, node in nodes.items() if _references(node) - counts[key] > most]
    found = set(map(id, todo))
    while todo:
        for child in gc.get_referents(todo.pop()):
            if id(child) in nodes and id(child) not in found:
                found.add(id(child))
                todo.append(child)
    return found


_OWN = 0
_OWN = next(most for most in range(10) if not _held_elsewhere(([[[1]], ([2],)],), (), most))
"""How many references to what it looks at the search has itself, which interpreters count differently."""
