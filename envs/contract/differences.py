"""Differences between two JSON records, such as the settings of a checkpoint and of the present run, in words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

HEX_SHOWN = 12
LONGEST = 200


def differing(old: Any, new: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield (place, sentence) for each field that differs, such as ("options.digits", "options.digits was 2 and is now 3").

    Args:
        old: a JSON value.
        new: the JSON value to compare `old` with.
        place: path to the values inside their records, such as "options"; the yielded places begin with it.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*new, *(key for key in old if key not in new)]:
            yield from differing(old.get(key), new.get(key), f"{place}.{key}" if place else str(key))
    elif _objects(old) and _objects(new) and len(old) == len(new):
        for number, (before, now) in enumerate(zip(old, new, strict=True)):
            yield from differing(before, now, f"{place}.{number}" if place else str(number))
    elif old != new:
        yield place, f"{place} was {_shown(old)} and is now {_shown(new)}"


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and len(value) == 64 and value.isalnum():
        return f"{value[:HEX_SHOWN]}..."
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
