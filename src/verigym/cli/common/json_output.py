"""The option `--json`, which works in the same way for every command that prints figures.

With `--json`, standard output holds exactly one JSON document on one line; all other output goes to standard error. Numbers are
not rounded, and their names are those of verigym's files; NaN and infinities become null. A command that ends without a result
(after a mistake in the call, or a stop by a signal) prints no document.
"""

from __future__ import annotations

import enum
import functools
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, ParamSpec, TextIO

import typer
from pydantic import BaseModel

from verigym.cli.common.stopping import InterruptedWithResults
from verigym.exit_codes import ExitCode

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document; everything else goes to standard error.", show_default=False)
]
"""Type of the option `--json`. A command with this option has a parameter `as_json: Json` and the decorator `json_output`."""

P = ParamSpec("P")


NO_DOCUMENT = object()


@dataclass(frozen=True)
class Result:
    """The result of a command: its exit code, and the document that `--json` prints."""

    code: ExitCode
    document: Any = NO_DOCUMENT
    """Document for `--json`, of the types that `plain` converts: numbers, texts, lists, mappings, models, dataclasses,
    enumerations and paths. `NO_DOCUMENT` if this process prints no document: under torchrun, only the first process prints
    one."""


def json_output(command: Callable[P, Result]) -> Callable[P, int]:
    """Return `command` wrapped so that it prints its `Result` as JSON if `as_json` is set, and returns the exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        if not kwargs.get("as_json"):
            return command(*args, **kwargs).code
        with _standard_output_kept() as out:
            try:
                result = command(*args, **kwargs)
            except InterruptedWithResults as stop:
                _write(stop.document, out)
                raise
            _write(result.document, out)
        return result.code

    return run


@contextmanager
def _standard_output_kept() -> Iterator[TextIO]:
    """Yield standard output, and send to standard error what anything else writes there: C code and child processes too."""
    out = sys.stdout
    try:
        descriptor, error = out.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # not files of the system, such as in a notebook
        with redirect_stdout(sys.stderr):
            yield out
        return
    out.flush()
    with open(os.dup(descriptor), "w", encoding="utf-8") as kept, redirect_stdout(sys.stderr):
        os.dup2(error, descriptor)
        try:
            yield kept
        finally:
            os.dup2(kept.fileno(), descriptor)


def _write(document: Any, out: TextIO) -> None:
    if document is NO_DOCUMENT:
        return
    # ASCII: the document must not depend on how standard output is encoded, nor fail on half surrogates.
    out.write(json.dumps(plain(document), allow_nan=False) + "\n")
    out.flush()


def plain(value: Any) -> Any:
    """Return `value` in JSON types: models and dataclasses as mappings, NaN and infinities as None, other objects as text."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return str(value)
