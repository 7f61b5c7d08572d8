"""Values of command-line arguments: NAME=VALUE pairs, lists of counts, and pydantic's errors in one line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from verigym.envs import UsageError, strict_json
from verigym.envs.contract.errors import explain

M = TypeVar("M", bound=BaseModel)


def pairs(given: Sequence[str], flag: str, *, alone: bool = False) -> dict[str, Any]:
    """Return NAME=VALUE arguments as a dictionary. A value that begins with `[` or `{` is parsed as JSON.

    Args:
        given: the arguments.
        flag: the option that they were given with, for messages.
        alone: allow NAME alone, which means NAME=NAME.

    Raises:
        UsageError: an argument has no name or no `=`, a name is given twice, or a value is invalid JSON or repeats a key.
    """
    found: dict[str, Any] = {}
    for argument in given:
        name, equals, value = argument.partition("=")
        if not name or not (equals or alone):
            raise UsageError(f"{flag} {argument!r}: expected NAME=VALUE")
        if name in found:
            raise UsageError(f"{flag} {name!r} is given twice")
        found[name] = _value(value, f"{flag} {name}") if equals else name
    return found


def _value(text: str, place: str) -> Any:
    if not text.startswith(("[", "{")):
        return text
    try:
        return strict_json.loads(text)
    except ValueError as error:
        raise UsageError(f"{place}: not JSON: {error}") from None


def misused(error: Exception) -> str:
    """Return a one-line message for a mistake in the command's arguments, with a suggested option and a hint at `--help`.

    Args:
        error: the exception that typer raised; it has a method `format_message`.
    """
    context, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    message = " ".join(str(error.format_message()).split())  # type: ignore[attr-defined]
    if context is None:
        return f"{message} (see verigym --help)"
    if option is not None:
        flags = [flag for one in context.command.get_params(context) for flag in (*one.opts, *one.secondary_opts)]
        known = [flag for flag in flags if flag.startswith("--")]
        begun = [flag for flag in known if flag.startswith(option)]
        near = begun or difflib.get_close_matches(option, known, n=1, cutoff=0.6)
        message = f"no option {option}" + (f"; did you mean {' or '.join(near)}?" if near else "")
        if not begun and any(one.name == "args" for one in context.command.params):
            message += "; arguments of the program come after --"
    names: list[str] = []
    while context.parent is not None:
        names, context = [str(context.info_name), *names], context.parent
    return f"{message} (see {' '.join(['verigym', *names])} --help)"


def counts(text: str | None, flag: str) -> list[int]:
    """Parse a text such as `1,4,16`, and return its numbers in ascending order; return an empty list for None.

    Raises:
        UsageError: `text`, the value of the option `flag`, is not a list of whole numbers from 1 to 99999.
    """
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 and int(part) >= 1 for part in parts):
        raise UsageError(f"{flag} {text!r}: expected counts from 1 to 99999 such as 1,4,16")
    return sorted({int(part) for part in parts})


def validated(model: type[M], **fields: Any) -> M:
    """Return a settings object of type `model` with these fields.

    Raises:
        UsageError: a value is invalid.
    """
    try:
        return model(**fields)
    except ValidationError as error:
        raise UsageError(explain(error, model.model_fields)) from None
