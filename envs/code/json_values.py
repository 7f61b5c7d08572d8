"""Types of values that a reference may hold: plain data that survives JSON unchanged, and text that can be encoded as bytes."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator

MAX_DEPTH = 90
MAX_INT_DIGITS = 4000
_HINT = "compare such values in an assert test"


def storable_text(value: Any) -> Any:
    """Return `value` unchanged. If it is a string, check that it can be encoded as bytes, as a program's input must be.

    Raises:
        ValueError: `value` holds a lone surrogate that cannot be encoded.
    """
    if isinstance(value, str):
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ValueError("the text holds a lone surrogate, which no encoding can write") from None
    return value


def json_value(value: Any) -> Any:
    """Return `value` unchanged, after checking that it survives a JSON round trip.

    Raises:
        ValueError: `value` contains something that JSON cannot represent exactly: a tuple, a set, a key that is not a string,
            NaN, a very long integer.
    """
    waiting = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        problem = _problem(item)
        if problem:
            raise ValueError(problem)
        if depth > MAX_DEPTH:
            raise ValueError(f"the value is nested more than {MAX_DEPTH} levels deep")
        if type(item) is list:
            waiting += [(inner, depth + 1) for inner in item]
        elif type(item) is dict:
            waiting += [(inner, depth + 1) for inner in item.values()]
    return value


def _problem(item: Any) -> str:
    """Return what is wrong with one item, its contents apart."""
    if item is None or type(item) in (bool, str, list):
        return ""
    if type(item) is float:
        return "" if math.isfinite(item) else f"the value holds {item}, which JSON cannot carry; {_HINT}"
    if type(item) is int:
        short = item.bit_length() * 0.30103 < MAX_INT_DIGITS
        return "" if short else f"the value holds an integer of more than {MAX_INT_DIGITS} digits; {_HINT}"
    if type(item) is dict:
        key = next((key for key in item if type(key) is not str), None)
        return "" if key is None else f"the value holds the dictionary key {key!r:.40}; JSON's keys are strings; {_HINT}"
    if type(item) is tuple:
        return "the value holds a tuple, which JSON cannot carry: write a list (policy tuple_as_list lets tuples equal it)"
    return f"the value holds a {type(item).__name__}, which JSON cannot carry; {_HINT}"


Json = Annotated[Any, BeforeValidator(json_value)]
