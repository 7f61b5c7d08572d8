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
    """An object nested in the state of another object: its class names and attributes, or only its number."""

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
        body = [-1 - body["exported"], ["exported"], [], None]
    return Snapshot(body, plain, by, depth) if plain is None else plain


def attributes(state: Any) -> dict[str, Any] | None:
    """Return the attributes decoded from the encoded `state`; None if the state is unknown or malformed."""
    if state is None:
        return None
    try:
        decoded = decode({"d": state}, _read)
    except CodecError:
        return None
    return decoded if type(decoded) is dict else None


def same(one: Any, other: Any) -> bool:
    """Return whether the encoded states `one` and `other` are both known and equal."""
    first, second = attributes(one), attributes(other)
    try:
        return first is not None and second is not None and bool(first == second)
    except ValueError:  # arrays of different shapes
        return False


def matches_arguments(made: RemoteInfo, found: RemoteInfo) -> bool:
    """Return whether the attributes of `found` equal the arguments with which the test constructed `made`.

    Each constructor argument must equal the attribute of `found` that has the parameter's name. If no attribute has the name of
    a parameter, and there are as many attributes as arguments, they are compared in order. The state that the program reports
    for `made` is not used: the program knows the constructor arguments, and could report whatever the test expects.
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


def _is_base_value(value: Any, args: tuple[Any, ...]) -> bool:
    """Whether an object's base value equals the test's arguments: a single argument as a whole, or its items one by one."""
    if len(args) == 1 and isinstance(args[0], str | bytes | dict | list | tuple | set | frozenset):
        if isinstance(value, dict | str | bytes | set | frozenset):
            return type(value) is type(args[0]) and bool(value == args[0])
        items: Any = args[0]
    elif args and isinstance(value, tuple):
        items = args
    else:
        return not args and not value
    if not isinstance(items, list | tuple) or len(value) != len(items):
        return False
    return all(map(_is_item, value, items))


def _is_item(found: Any, value: Any) -> bool:
    if hasattr(type(value), "_remote_info"):
        return _equals_argument(found, value)
    try:
        return bool(found == value)
    except ValueError:  # arrays of different shapes
        return False


def _bind_arguments(names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Bind arguments to parameter names; None if they do not fit."""
    bound: dict[str, Any] = {}
    rest = list(args)
    for name in names:
        if name[:2] == "**":
            continue
        if name[:1] == "*":
            bound[name[1:]], rest = rest, []
        elif rest:
            bound[name] = rest.pop(0)
    return None if rest or bound.keys() & kwargs.keys() else bound | kwargs


def _equals_argument(attribute: Any, argument: Any) -> bool:
    """Return whether an attribute equals an argument, allowing usual conversions of constructors: sequence and number types."""
    info = argument._remote_info() if hasattr(type(argument), "_remote_info") else None
    if info is not None:
        if type(attribute) is not Snapshot:
            return False
        return attribute.number == info.number or (
            info.given is not None and attribute.state is not None and _state_matches(info, attribute.state)
        )
    try:
        if attribute == argument:
            return True
        if isinstance(attribute, _SEQUENCES) and isinstance(argument, _SEQUENCES):
            return len(attribute) == len(argument) and all(map(_equals_argument, attribute, argument))
        if isinstance(attribute, set | frozenset) and isinstance(argument, _SEQUENCES):
            return bool(attribute == set(argument))
        if isinstance(attribute, str) or isinstance(argument, str):
            return str(attribute).strip().lower() == str(argument).strip().lower()
        return math.isclose(attribute, argument, rel_tol=1e-9)
    except (TypeError, ValueError, ArithmeticError):
        return False
