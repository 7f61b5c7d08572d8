"""Compares recorded states of the candidate's objects as plain data, without sending requests."""

from __future__ import annotations

import collections
import math

from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import BASE_VALUE, CodecError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from verigym.sandbox.inside.testside.remote_info import RemoteInfo

_SEQUENCES = (list, tuple, collections.deque, range)


class Snapshot:
    """An object inside the state of another: its classes and attributes, or only its number."""

    __slots__ = ("names", "number", "state")

    def __init__(self, body: Any, plain: Any, by: Any, depth: int) -> None:
        self.number, names, _, state = body
        self.names = tuple(names)
        self.state = None if state is None else by.get({"d": state}, depth + 1)

    def __eq__(self, other: object) -> bool:
        if type(other) is not Snapshot or self.names != other.names:
            return False
        return self.number == other.number if self.state is None or other.state is None else bool(self.state == other.state)

    def __hash__(self) -> int:
        return hash(self.names)


def _read(body: Any, plain: Any, by: Any, depth: int) -> Any:
    if type(body) is dict:  # an object of the test, equal only to itself
        body = [-1 - body["lent"], ["lent"], [], None]
    return Snapshot(body, plain, by, depth) if plain is None else plain


def attributes(state: Any) -> dict[str, Any] | None:
    """Decode the attributes of a state; None if it is unknown."""
    if state is None:
        return None
    try:
        found = decode({"d": state}, _read)
    except CodecError:
        return None
    return found if type(found) is dict else None


def same(one: Any, other: Any) -> bool:
    """Whether two encoded states are known and equal."""
    first, second = attributes(one), attributes(other)
    try:
        return first is not None and second is not None and bool(first == second)
    except ValueError:  # arrays of different shapes
        return False


def matches_arguments(made: RemoteInfo, found: RemoteInfo) -> bool:
    """Whether `found` has the state that the test gave `made`: each constructor argument equals the attribute of that name.

    If no attribute has a parameter's name, attributes are matched in order, provided there are as many as parameters. The state
    that the program reports for `made` is not used, because its arguments told the program what the test expects.
    """
    known = attributes(found.state)
    return known is not None and found.names == made.names and _state_matches(made, known)


def _state_matches(made: RemoteInfo, known: dict[str, Any]) -> bool:
    assert made.given is not None
    kind, args, kwargs = made.given
    if args is None or isinstance(kind, type):  # parameters of a class made by the test are unknown
        return False
    if BASE_VALUE in known and not kwargs:
        if _is_base_value(known[BASE_VALUE], args):
            return True
        if not args:  # nothing else to compare
            return False
    if kind._parameters is None:
        return False
    bound = _bind_arguments(kind._parameters, args, kwargs)
    if bound is None:
        return False
    rest = next((name[2:] for name in kind._parameters if name[:2] == "**"), None)
    if rest is not None and any(place in known for place in _attribute_names(rest, made)):  # all of them in one attribute
        others = {name: bound.pop(name) for name in kwargs if name not in kind._parameters}
        bound |= {rest: others} if others else {}
    places = {name: place for name in bound for place in _attribute_names(name, made) if place in known}
    if not places and len(known) == len(bound):
        places = dict(zip(bound, known, strict=True))
    return all(name in places and _equals_argument(known[places[name]], value) for name, value in bound.items())


def _attribute_names(name: str, made: RemoteInfo) -> tuple[str, ...]:
    """Return the attribute names that may hold an argument."""
    return name, f"_{name}", f"_{made.name}__{name}"


def _is_base_value(found: Any, args: tuple[Any, ...]) -> bool:
    """Whether an object's base value equals the test's arguments: a single argument as a whole, or its items one by one."""
    if len(args) == 1 and isinstance(args[0], str | bytes | dict | list | tuple | set | frozenset):
        if isinstance(found, dict | str | bytes | set | frozenset):
            return type(found) is type(args[0]) and bool(found == args[0])
        items: Any = args[0]
    elif args and isinstance(found, tuple):
        items = args
    else:
        return not args and not found
    if not isinstance(items, list | tuple) or len(found) != len(items):
        return False
    return all(map(_is_item, found, items))


def _is_item(found: Any, value: Any) -> bool:
    if hasattr(type(value), "_remote_info"):
        return _equals_argument(found, value)
    try:
        return bool(found == value)
    except ValueError:  # arrays of different shapes
        return False


def _bind_arguments(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Bind arguments to parameter names; None if they do not fit."""
    found: dict[str, Any] = {}
    rest = list(args)
    for name in names:
        if name[:2] == "**":
            continue
        if name[:1] == "*":
            found[name[1:]], rest = rest, []
        elif rest:
            found[name] = rest.pop(0)
    return None if rest or found.keys() & kwargs.keys() else found | kwargs


def _equals_argument(found: Any, value: Any) -> bool:
    """Whether an attribute equals an argument, allowing usual conversions of constructors: sequence and number types."""
    info = value._remote_info() if hasattr(type(value), "_remote_info") else None
    if info is not None:
        if type(found) is not Snapshot:
            return False
        return found.number == info.number or (
            info.given is not None and found.state is not None and _state_matches(info, found.state)
        )
    try:
        if found == value:
            return True
        if isinstance(found, _SEQUENCES) and isinstance(value, _SEQUENCES):
            return len(found) == len(value) and all(map(_equals_argument, found, value))
        if isinstance(found, set | frozenset) and isinstance(value, _SEQUENCES):
            return bool(found == set(value))
        if isinstance(found, str) or isinstance(value, str):
            return str(found).strip().lower() == str(value).strip().lower()
        return math.isclose(found, value, rel_tol=1e-9)
    except (TypeError, ValueError, ArithmeticError):
        return False
