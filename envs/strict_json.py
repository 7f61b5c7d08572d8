"""Strict JSON: no duplicate keys, no NaN or infinity, bounded depth.

Python's own depth limit depends on the interpreter and on the present stack depth. A verdict must not depend on these.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

DEPTH = 100
"""Levels of arrays and objects."""
_TOO_DEEP = f"nested deeper than {DEPTH} levels"
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"?|[][{}]', re.DOTALL)


class NotStrict(ValueError):
    """The text is not strict JSON, although Python's parser may accept it."""


def loads(text: str) -> Any:
    """Return the JSON value in `text`, read strictly.

    Raises:
        NotStrict: an object has a duplicate key, a number is NaN or infinite, or arrays and objects are nested too deeply.
        json.JSONDecodeError: `text` is not JSON.
        ValueError: an integer has too many digits.
    """
    refuse_depth(text)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _in_one_wording(error) from None


def refuse_depth(text: str) -> None:
    """Refuse JSON whose arrays and objects are nested too deeply.

    Raises:
        NotStrict: they are nested too deeply.
    """
    if text.count("[") + text.count("{") <= DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        bracket = match[0]
        if bracket in "[{":
            depth += 1
            if depth > DEPTH:
                raise NotStrict(_TOO_DEEP)
        elif bracket in "]}":
            depth -= 1


def _in_one_wording(error: json.JSONDecodeError) -> json.JSONDecodeError:
    """Return the error in the words of Python 3.11 and 3.12: 3.13 names a comma before a closing bracket."""
    if not error.msg.startswith("Illegal trailing comma"):
        return error
    place = error.pos + 1
    while error.doc[place : place + 1] in (" ", "\t", "\n", "\r"):
        place += 1
    expected = "Expecting value" if error.msg.endswith("array") else "Expecting property name enclosed in double quotes"
    return json.JSONDecodeError(expected, error.doc, place)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NotStrict(f"key {twice[:40]!r} occurs twice in one object")
    return value


def _refuse(constant: str) -> NoReturn:
    raise NotStrict(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise NotStrict(f"the number {digits[:40]} is too large")
    return value
