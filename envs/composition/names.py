"""Names of references in a composition: keyed by part, and by `part/inner` where the part is a composition itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Reference

T = TypeVar("T")


def outer(part: str, environment: Environment, references: Mapping[str, Reference]) -> dict[str, Reference]:
    """Return a part's references under their names in the whole."""
    if tuple(references) == (environment.name,):
        return {part: references[environment.name]}
    return {f"{part}/{inner}": reference for inner, reference in references.items()}


def inner(part: str, environment: Environment, references: Mapping[str, T]) -> dict[str, T]:
    """Undo `outer`."""
    if part in references:
        return {environment.name: references[part]}
    prefix = f"{part}/"
    return {name.removeprefix(prefix): value for name, value in references.items() if name.startswith(prefix)}
