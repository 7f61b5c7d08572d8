"""`key=value` overrides of settings, and the line of the file for errors that are found after the file was read."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from verigym.datasets_cfg.yamlfile import Document, Loc, value_of
from verigym.envs.contract.errors import UsageError

_FIELD = re.compile(r"field '([A-Za-z_0-9.-]+)'")


def overriding(document: Document, overrides: Sequence[str]) -> Document:
    """Return `document` with the `key=value` overrides applied. Errors in an overridden field then point to the override.

    Raises:
        UsageError: as `apply_overrides`.
    """
    fields, places = copy.deepcopy(dict(document.fields)), dict(document.places)
    for override, loc in apply_overrides(fields, overrides):
        for inner in [place for place in places if place[: len(loc)] == loc]:
            del places[inner]
        places[loc] = f"override {override!r}"
    return replace(document, fields=fields, places=places)


def apply_overrides(fields: dict[str, Any], overrides: Sequence[str]) -> list[tuple[str, Loc]]:
    """Apply the `key=value` overrides to `fields` in place, and return each with the path of its field.

    Raises:
        UsageError: as `apply_override`; or a field is set twice.
    """
    applied: list[tuple[str, Loc]] = []
    for override in overrides:
        loc = apply_override(fields, override)
        if earlier := next((other for other, place in applied if place == loc), None):
            raise UsageError(f"override {override!r}: {earlier!r} sets this field too; keep one")
        applied.append((override, loc))
    return applied


def apply_override(fields: dict[str, Any], override: str) -> Loc:
    """Set the field that `override`, a text `key=value`, names in `fields`; return the field's path as keys and list positions.

    `fields` is changed in place.

    Raises:
        UsageError: there is no `=`, the value is not YAML or repeats a key, or the path does not exist.
    """
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UsageError(f"override {override!r}: expected key=value, for example steps=100")
    value = value_of(text, f"override {override!r}")
    # YAML 1.1 reads 1e-5 as text, because its grammar wants a dot.
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            pass
    *parents, last = key.split(".")
    place: Any = fields
    loc: list[int | str] = []
    for part in parents:
        try:
            loc.append(int(part) if isinstance(place, list) else part)
            place = place[loc[-1]]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UsageError(f"override {override!r}: there is no {part!r} in the configuration file") from None
    try:
        loc.append(int(last) if isinstance(place, list) else last)
        place[loc[-1]] = value
    except (IndexError, ValueError, TypeError):
        raise UsageError(f"override {override!r}: {last!r} cannot be set there") from None
    return tuple(loc)


def place_of(fields: Mapping[str, Any], message: str, around: Loc = ()) -> Loc | None:
    """Return the path of the field or source that `message` begins with; None if it does not begin with one.

    Args:
        fields: the fields of a run or a stage, as in the file.
        message: an error message, such as `field 'sources.0.weight': ...`, `model: ...` or `source 'math': ...`.
        around: the path of `fields` in the document.
    """
    if named := _FIELD.match(message):
        return (*around, *_parts(named[1]))
    if (named := re.match(r"([a-z_]+):", message)) and named[1] in fields:
        return (*around, named[1])
    sources = fields.get("sources")
    for number, source in enumerate(sources if isinstance(sources, list | tuple) else ()):
        if not isinstance(source, Mapping):
            continue
        label = source.get("name") or source.get("dataset") or source.get("environment")
        if message.startswith(f"source {label!r}"):
            named = _FIELD.search(message)
            return (*around, "sources", number, *(_within(source, _parts(named[1])) if named else ()))
    return None


def _parts(path: str) -> Loc:
    return tuple(int(part) if part.isdigit() else part for part in path.split("."))


def _within(source: Mapping[str, Any], path: Loc) -> Loc:
    """Return the path of a field inside one of the option mappings of `source`; empty if none of them has the field."""
    for name, value in source.items():
        if isinstance(value, Mapping):
            if path[0] in value:
                return (name, *path)
            if inner := _within(value, path):
                return (name, *inner)
    return ()


@contextmanager
def located(document: Document) -> Iterator[None]:
    """Return a context that adds file and line to a `UsageError` whose message begins with a field or a source of `document`.

    Raises:
        UsageError: the error raised inside, with file and line before its message.
    """
    try:
        yield
    except UsageError as error:
        place = place_of(document.fields, str(error))
        raise (error if place is None else UsageError(f"{document.place(place)}: {error}")) from None
