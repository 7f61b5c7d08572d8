"""Keeps the copies of mutable containers in test and program equal: each message carries the sender's changes.

Here a container is a list, dict, set or similar object. Both sides keep the same table of containers by number. Arguments of a
call, and the containers in them, stay in the table until a search finds that the program has kept no reference to them. A
result enters the table only if the program keeps a reference to it. A container in the table is sent as its number, so one list
stays one list wherever it occurs. A change to the container is sent once, as its new items.
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
"""Limit on the items of all held containers, which every message compares. Beyond it, values are plain copies after a call."""
_FEW = 256
"""Below this number of containers and items, no search for unreferenced ones is made."""
_INNER = frozenset(
    (list, dict, set, bytearray, tuple, frozenset, collections.deque)
    + (collections.defaultdict, collections.OrderedDict, collections.Counter)
)
_references = sys.getrefcount
_is = _operator.is_


class SharedContainers:
    """The containers (lists, dicts and so on) that both processes hold, as one process sees them.

    It stores each container by number, with the items that the container had at the last message.
    """

    def __init__(self, handle: Callable[..., Any] | None = None, read: Callable[..., Any] | None = None, sign: int = 1) -> None:
        self.handle = handle
        """Function that encodes those values in a container that are not plain data; see `handle` of `encoding.encode`."""
        self._read = read
        """Decodes it; see `decoding.decode`."""
        self._sign = sign
        """Sign (1 or -1) of the numbers that this side assigns. The other side's numbers have the opposite sign."""
        self._held: dict[int, list[Any]] = {}
        self._numbers: dict[int, int] = {}
        self._made = 0
        self._size = 0
        self._few = _FEW
        self._received: Sequence[int] = ()
        """Numbers of the containers that came with the last message."""

    def get(self, number: int) -> Any:
        """Return the container with that `number`; None if there is none."""
        return self._held[number][0] if number in self._held else None

    def write(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Encode `values`; a container that occurs twice is encoded once.

        Returns:
            The JSON encoding of each value, and the containers in the values.

        Raises:
            CannotCross: a value is not plain data, or is too large.
        """
        to = Encoder(self.handle, shared=self._numbers)
        return [to.put(value, 0) for value in values], to.order

    def read(self, data: Sequence[Any], *, guard: bool = False) -> tuple[list[Any], list[Any]]:
        """Decode `data`, which the other process has encoded with `write`.

        Args:
            data: the encoded values.
            guard: whether the values are a candidate's answer that a test will use; see `inert_values`.

        Returns:
            The values, and the containers in them.

        Raises:
            CodecError: `data` is malformed.
        """
        by = Decoder(self._read, True, guard, self.get)
        with codec_errors():
            return [by.get(item, 0) for item in data], by.order

    def send(self, containers: list[Any], holder: list[Any] | None = None, *, is_over: bool = False) -> dict[str, Any]:
        """Return the update of the other side's table that must accompany the values just encoded.

        The update contains numbers of new containers, changed items, and numbers of containers that leave the table.

        Args:
            containers: the containers in the values.
            holder: the list through which the caller refers to the values. Containers to which nothing else refers are not put
                into the table. None: all containers are put into the table.
            is_over: whether a call ends with this message. Then a table that has grown too large is emptied.
        """
        places: Sequence[int] = range(len(containers))
        if holder is not None:
            is_small = len(containers) > 0 and _size(holder) <= _MOST
            kept = _held_elsewhere((holder, containers), {id(value) for value in containers}) if is_small else set()
            places = [place for place, value in enumerate(containers) if id(value) in kept]
        update: dict[str, Any] = {}
        if places:
            update["held"] = [self._number(len(containers)), None if holder is None else places]
            self._hold(containers, *update["held"])
        changed, dropped = self._changes()
        if is_over and self._size > _MOST:  # first the arguments of this call
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
        """Apply the update that came with a message: add new containers to the table, apply changes, and remove containers.

        Args:
            update: the update, as received.
            containers: the containers in the values of the message.
            guard: whether the message is a candidate's answer that a test will use; see `inert_values`.

        Raises:
            ValueError: `update` is malformed.
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
        """Hold containers under numbers that the other side assigned."""
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
            if id(value) in self._numbers:  # numbered twice by the other side
                continue
            self._held[base + sign * place] = [value, items]
            self._numbers[id(value)] = base + sign * place
            self._size += _weight(items)

    def _changes(self) -> tuple[list[Any], list[int]]:
        """Return the new items of containers changed since the last message, and the numbers of those not encodable."""
        changed: list[Any] = []
        dropped = []
        for number, held in [pair for pair in self._held.items() if not _same(*pair[1])]:
            to = Encoder(self.handle, shared=self._numbers)
            try:
                body = to.content(held[0])
            except (CannotCross, RuntimeError):  # too large, or mutated by another thread meanwhile
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
        """Return the numbers of containers that only this table and the `passing` lists hold."""
        needed = _held_elsewhere((self._held, *passing), self._numbers)
        unreferenced = [number for number, held in self._held.items() if id(held[0]) not in needed]
        self._few = _FEW + 2 * (self._size - sum(_weight(self._held[number][1]) for number in unreferenced))
        return unreferenced

    def _drop(self, numbers: Iterable[int]) -> list[int]:
        """Drop these containers; returns the numbers of those that were held."""
        dropped = []
        for number in numbers:
            held = self._held.pop(number, None)
            if held is not None:
                self._size -= _weight(held[1])
                del self._numbers[id(held[0])]
                dropped.append(number)
        return dropped


def _parts(data: Any, count: int) -> list[Any]:
    if type(data) is not list or len(data) != count:
        raise ValueError("a change of another form")
    return data


def _items(value: Any) -> Any:
    """Return a container's items, for later comparison by identity; of bytearrays and arrays the bytes."""
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
    except RuntimeError:  # mutated by another thread meanwhile
        return False


def _weight(items: Any) -> int:
    return 16 + len(items)  # comparing a container has a fixed cost of about 16 items


def _size(holder: list[Any]) -> int:
    """Count the objects in a list of values, up to the limit."""
    size, todo = 0, [holder]
    while todo and size <= _MOST:
        for child in gc.get_referents(todo.pop()):
            size += 1
            if type(child) in _INNER:
                todo.append(child)
    return size


def _assign(value: Any, content: Any) -> None:
    """Replace a container's items.

    Raises:
        ValueError: they are of another kind of container.
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
    """Return the ids of objects inside the containers, at any depth, that something outside also holds, and of their content.

    Args:
        roots: the containers.
        known: ids of objects that count beside the usual containers.
        most: number of references that this function itself holds.
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
    held = set(map(id, todo))
    while todo:
        for child in gc.get_referents(todo.pop()):
            if id(child) in nodes and id(child) not in held:
                held.add(id(child))
                todo.append(child)
    return held


_OWN = 0
_OWN = next(most for most in range(10) if not _held_elsewhere(([[[1]], ([2],)],), (), most))
"""References that the search itself holds to each object, which differs between interpreters."""
