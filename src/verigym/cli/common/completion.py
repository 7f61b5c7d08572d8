"""Shell completion for names that verigym knows, such as environments. If nothing is offered, the shell completes file names.

Each function gets `incomplete`, the part of the word that has been typed. typer drops offered words that do not begin with it.
On an error a function offers nothing, because a message would be written into the line that the user is typing.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import typer

Offered = Sequence[str] | Sequence[tuple[str, str]]
"""Words, or words with what they mean."""


def _silent(offer: Callable[..., Iterable[Any]]) -> Callable[..., list[Any]]:
    @functools.wraps(offer)
    def quiet(*args: Any, **kwargs: Any) -> list[Any]:
        try:
            return list(offer(*args, **kwargs))
        except Exception:
            return []

    return quiet


@_silent
def environments(incomplete: str) -> Offered:
    """Return completions of `incomplete`: the names of environments."""
    from verigym.envs.registry import available

    return list(available())


@_silent
def data_sets(incomplete: str) -> Offered:
    """Return completions of `incomplete`: the data sets that come with verigym, and YAML files."""
    from verigym.datasets_cfg import available

    return [*available(), *_yaml_files(incomplete)]


@_silent
def suites(incomplete: str) -> Offered:
    """Return completions of `incomplete`: the suites that come with verigym, and YAML files."""
    from verigym.datasets_cfg.suites import available_suites

    return [*available_suites(), *_yaml_files(incomplete)]


@_silent
def environment_options(context: typer.Context, incomplete: str) -> Offered:
    """Return completions of `incomplete`: `NAME=` for each option of the environment named earlier on the command line."""
    from verigym.envs.registry import available, origin

    # An argument is not assigned yet where the line ends in an option without its value.
    known = available()
    name = next((word for word in (context.params.get("env"), *context.args) if word in known), None)
    if name is None:  # `module:Class` would run a file
        return []
    fields = origin(name).options_type.model_fields
    return [(f"{field}=", info.description or "") for field, info in fields.items()]


@_silent
def package_kinds(incomplete: str) -> Offered:
    """Return completions of `incomplete`: the kinds of packages that `verigym init` makes."""
    from verigym.scaffold import KINDS

    return KINDS


@_silent
def back_ends(incomplete: str) -> Offered:
    """Return completions of `incomplete`: the sandbox's back ends."""
    from verigym.sandbox.backends import BACKENDS

    return list(BACKENDS)


def words(*known: str) -> Callable[[str], list[str]]:
    """Return a completion function that always offers the words `known`."""

    def offer(incomplete: str) -> list[str]:
        return list(known)

    return offer


def _yaml_files(incomplete: str) -> Sequence[str]:
    """Return YAML files and folders in the folder that is being typed; hidden ones only where a dot is typed."""
    folder, begun = os.path.split(incomplete)
    found = []
    with os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith(".") and not begun.startswith("."):
                continue
            if entry.is_dir():
                found.append(os.path.join(folder, entry.name, ""))
            elif entry.name.endswith((".yaml", ".yml")):
                found.append(os.path.join(folder, entry.name))
    return sorted(found)
