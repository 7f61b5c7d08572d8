"""Table of checkable instructions: `@constraint(id, definition)` registers a check, and `find` returns one by its id."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from verigym.envs.constraints.arguments import Arguments, model_of
from verigym.envs.contract.errors import UsageError, did_you_mean, explain

MODULES = (
    "ifeval_content",
    "ifeval_layout",
    "ifbench_counts",
    "ifbench_custom",
    "ifbench_layout",
    "ifbench_repeat",
    "ifbench_sentences",
    "ifbench_words",
)
"""Modules of this package that register the built-in checks. They are imported at the first lookup."""

Check = Callable[..., bool]
C = TypeVar("C", bound=Check)


@dataclass(frozen=True)
class Constraint:
    """One kind of instruction."""

    id: str
    """`family:name`, as data sets write it."""
    definition: str
    """In one line, what a response must do."""
    check: Check
    """`check(text, **arguments)` returns whether the response `text` follows the instruction, in linear time."""
    arguments: type[Arguments]
    rule: Callable[..., str] | None = None
    """`rule(**arguments)` says why the arguments do not fit together, or returns an empty text if they do."""
    needs: tuple[str, ...] = ()
    """Packages of the extra `constraints` that the check imports."""
    copies: bool = False
    """Whether the right response is a part of the prompt."""
    missing: str = ""
    """Why the instruction cannot be checked at all, so that no prompt may use it; empty if it can be checked."""
    origin: str = ""

    def validate(self, given: Mapping[str, Any], place: str) -> dict[str, Any]:
        """Return the arguments in `given`, validated, as plain JSON values.

        Raises:
            UsageError: an argument is missing, unknown or of the wrong type, or the instruction cannot be checked on this
                machine.
        """
        if self.missing:
            raise UsageError(f"{place}: {self.id!r} cannot be checked: {self.missing}")
        absent = [package for package in self.needs if importlib.util.find_spec(package) is None]
        if absent:
            raise UsageError(f"{place}: {self.id!r} needs the package {absent[0]}; pip install 'verigym[constraints]'")
        try:
            arguments = self.arguments(**given)
        except ValidationError as error:
            raise UsageError(f"{place}, arguments of {self.id!r}: {explain(error, self.arguments.model_fields)}") from None
        problem = self.rule(**dict(arguments)) if self.rule else ""
        if problem:
            raise UsageError(f"{place}, arguments of {self.id!r}: {problem}")
        return arguments.model_dump(mode="json")


_table: dict[str, Constraint] = {}


def constraint(
    id: str,
    definition: str,
    *,
    rule: Callable[..., str] | None = None,
    needs: tuple[str, ...] = (),
    copies: bool = False,
    missing: str = "",
) -> Callable[[C], C]:
    """Return a decorator that registers a check, a function `(text, *, argument: Type, ...) -> bool`.

    Args:
        id: `family:name`, the name of the instruction in prompts.
        definition: in one line, what a response must do.
        rule: function that is called with the check's arguments, and says why they do not fit together; an empty text if
            they do. By default all arguments fit.
        needs: packages that the check imports, all from the install extra `verigym[constraints]`.
        copies: whether the right response is a part of the prompt.
        missing: why the instruction cannot be checked at all; empty if it can be checked.

    Raises:
        UsageError: another function has this id.
        TypeError: the function has another signature.
    """

    def add(check: C) -> C:
        origin = f"{check.__module__}:{check.__qualname__}"
        known = _table.get(id)
        # a module run again (notebook cell, spawned worker) defines its functions anew
        if known is not None and known.origin != origin:
            raise UsageError(f"constraint {id!r} is registered twice: by {known.origin} and by {origin}")
        _table[id] = Constraint(id, definition, check, model_of(id, check), rule, needs, copies, missing, origin)
        return check

    return add


def known() -> dict[str, Constraint]:
    """Return every constraint by its id, sorted."""
    for module in MODULES:
        importlib.import_module(f"verigym.envs.constraints.{module}")
    return dict(sorted(_table.items()))


def find(id: str) -> Constraint:
    """Return the constraint registered under `id`.

    Raises:
        UsageError: no constraint has this id; the message suggests a similar one.
    """
    found = _table.get(id) or known().get(id)
    if found is None:
        near = did_you_mean(id, known())
        hint = near if "did you mean" in near else "; docs/constraints.md lists them"
        raise UsageError(f"no instruction is called {id!r}{hint}")
    return found
