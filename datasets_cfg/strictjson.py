"""JSON as its standard has it: no key twice in one object, no NaN."""

from __future__ import annotations

import json
from typing import Any, NoReturn


class NotStrict(ValueError):
    """Python reads it, and it is no JSON or does not say what it means."""


def loads(text: str) -> Any:
    """Return the value in a text.

    Raises:
        NotStrict: a key occurs twice in one object, or a number is NaN or infinite.
        json.JSONDecodeError: it is no JSON.
        ValueError, RecursionError: an integer of too many digits, brackets too deep in each other.
    """
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise NotStrict(f"key {twice!r} occurs twice in one object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise NotStrict(f"{constant} is not JSON")
