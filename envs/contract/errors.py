"""`EnvironmentFailure` and `UsageError`, and one-line explanations of bad input."""

from __future__ import annotations

import difflib
import os
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from verigym.envs.contract.schema import ErrorKind, Raised, Score, ScoreError


class EnvironmentFailure(Exception):
    """A failure of the grading itself (gold, back end, judge or worker), so that the completion gets no reward.

    It is never raised because of the model's text. `kind` is one of `ErrorKind`: `backend` (a tool or service of yours failed),
    `unavailable` (it is not there), `timeout`, `crashed`, `protocol` (it answered nonsense), `gold_invalid`, `internal` (a
    bug). Another word becomes `backend`, and the message says so.
    """

    def __init__(self, kind: ErrorKind, message: str = "", *, retryable: bool = False, raised: Raised | None = None) -> None:
        super().__init__(kind, message, retryable)
        error = ScoreError.of(kind, message, retryable)
        self.raised = raised
        self.kind: ErrorKind = error.kind
        self.message = error.message
        self.retryable = error.retryable

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    def score(self) -> Score:
        """Return a score with `reward=None` that holds this failure."""
        score = Score.failed(self.kind, self.message, retryable=self.retryable)
        return score if self.raised is None else score.model_copy(update={"raised": self.raised})


class UsageError(ValueError):
    """A mistake in the user's input. The message is one line with the location, what was expected and what to do."""


NEAREST = 5
"""Known words that are named where a command lists them all."""


def did_you_mean(word: str, known: Iterable[str], list_all: str = "") -> str:
    """Return `; did you mean 'x'?` for a misspelt `word`, or the list of `known` words if none of them is similar.

    Args:
        word: the unknown word.
        known: the valid words.
        list_all: a command that lists all valid words. If it is given, a long list is cut to the few words nearest to `word`.
    """
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    if list_all and len(names) > 2 * NEAREST:
        few = difflib.get_close_matches(word, names, n=NEAREST, cutoff=0.0)
        return f"; the nearest of {len(names)}: {', '.join(few)}; `{list_all}` lists all"
    return f"; known: {', '.join(names)}" if names else ""


def near_file(path: str | os.PathLike[str]) -> str:
    """Return a hint on a `path` that does not exist: a similar file name in its folder, or that the folder is missing."""
    folder, name = os.path.split(path)
    if folder and not os.path.isdir(folder):
        return f" (there is no folder {folder})"
    try:
        names = sorted(os.listdir(folder or "."))[:1000]
    except OSError:  # a folder that one may not list
        return ""
    stem, suffix = os.path.splitext(name)
    twin = stem + {".yml": ".yaml", ".yaml": ".yml"}.get(suffix, suffix)
    near = [twin] if twin in names else difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


@contextmanager
def error_context(context: str) -> Iterator[None]:
    """Return a context manager that puts `context` before the message of an error that its block raises.

    A message that already begins with `context` is left unchanged.

    Raises:
        UsageError: the block raised a UsageError or an EnvironmentFailure.
    """
    try:
        yield
    except (UsageError, EnvironmentFailure) as error:
        message = str(error)
        raise UsageError(message if message.startswith(context) else f"{context}: {message}") from None


_INSTANCE = re.compile(r"a valid dictionary or (?:instance of [A-Za-z_]\w*|object to extract fields from)")
"""Pydantic's wording for a field that is itself a model; YAML has mappings, not instances."""
MOST_NAMED = 8
"""Fields of a mapping up to which an error names them all."""

_LENGTH = re.compile(r"(Tuple|List|Set|Dictionary) should have at (least|most) (\d+) items? after validation.*")


def _expected_length(match: re.Match[str]) -> str:
    kind = "mapping" if match[1] == "Dictionary" else "list"
    return f"expected a {kind} of at {match[2]} {match[3]} item{'' if match[3] == '1' else 's'}"


def _place(loc: tuple[int | str, ...], known: Iterable[str]) -> tuple[tuple[int | str, ...], tuple[str, ...]]:
    """Return a problem's place without the alternatives of unions, and the names of the fields allowed there.

    For a union, pydantic adds the alternative that it tried to the place, such as `literal['lines']`.

    Args:
        loc: the place as pydantic gives it.
        known: the field names at the top level, as for `explain`. The returned names are empty if the types do not tell.
    """
    place: list[int | str] = []
    fields: Mapping[str, Any] = known if isinstance(known, Mapping) else dict.fromkeys(known)
    names, inner = tuple(fields), _type_of(fields, loc[0] if loc else "")
    place += loc[:1]
    for part in loc[1:]:
        alternatives = _alternatives(inner)
        if len(alternatives) > 1 and isinstance(part, str):
            inner = next((one for one in alternatives if part == getattr(one, "__name__", None)), alternatives[-1])
            continue
        only = alternatives[0] if alternatives else None
        place.append(part)
        if isinstance(only, type) and issubclass(only, BaseModel):
            names, inner = tuple(only.model_fields), _type_of(only.model_fields, part)
        else:
            arguments = [one for one in typing.get_args(only) if one is not ...]
            names, inner = (), arguments[-1] if arguments else None
    return tuple(place), names


def _mapping(loc: tuple[int | str, ...], known: Iterable[str]) -> str:
    """Return "a mapping" with the fields that belong there, where the types tell and they are few."""
    inside, names = _place((*loc, "?"), known)
    few = inside[-1] == "?" and 0 < len(names) <= MOST_NAMED
    return f"a mapping of the fields {', '.join(names)}" if few else "a mapping of fields"


def _type_of(fields: Mapping[str, Any], name: int | str) -> Any:
    field = fields.get(str(name))
    return field.annotation if isinstance(field, FieldInfo) else None


def _alternatives(annotation: Any) -> list[Any]:
    """Return the members of a union except None; the type itself if it is no union; nothing for an unknown type."""
    while typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [inner for one in typing.get_args(annotation) if one is not type(None) for inner in _alternatives(one)]
    return [] if annotation is None else [annotation]


def explain(error: ValidationError, known: Iterable[str] = ()) -> str:
    """Return one line that describes the first problem in a pydantic `error`, with the field and the given value.

    Args:
        error: the validation error to describe.
        known: valid field names at the top level, from which a correction of a misspelt name is suggested. Pass a model's
            `model_fields` to get suggestions for nested fields too.
    """
    known = known if isinstance(known, Mapping) else tuple(known)
    reported = error.errors(include_url=False, include_context=False)
    # pydantic also calls a list too short if one of its elements is wrong.
    inner = [problem["loc"] for problem in reported if problem["type"] != "too_short"]
    problems = [
        problem
        for problem in reported
        if problem["type"] != "too_short" or not any(loc[: len(problem["loc"])] == problem["loc"] for loc in inner)
    ]
    # A misspelt required field is both unknown and missing; the unknown name carries the suggestion.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    loc, siblings = _place(first["loc"], known)
    place = ".".join(str(part) for part in loc)
    # A union reports a problem for each alternative; to the reader they are one.
    count = 1 + sum(problem is not first and _place(problem["loc"], known)[0] != loc for problem in problems)
    more = f" (and {count - 1} more)" if count > 1 else ""
    if first["type"] == "extra_forbidden":
        name = str(loc[-1])
        colon = ":" in name and name.partition(":")[0] in siblings  # YAML reads {dataset:gsm8k} as a key without a value
        hint = "; YAML needs a space after the colon" if colon else did_you_mean(name, siblings)
        return f"unknown field {place!r}{hint}{more}"
    if first["type"] == "missing":
        return f"field {place!r} is missing{more}"
    message = first["msg"].removeprefix("Value error, ").replace("\n", " ").replace("a valid tuple", "a list")
    message = _LENGTH.sub(_expected_length, _INSTANCE.sub(_mapping(first["loc"], known), message))
    if not place:  # several fields together
        return f"{message}{more}"
    try:
        given = repr(first.get("input"))
    except (ValueError, RecursionError):  # an integer of thousands of digits, a structure of thousands of levels
        given = f"a {type(first.get('input')).__name__} too large to show"
    shown = given if len(given) <= 80 else given[:77] + "..."
    return f"field {place!r}: {message}; got {shown}{more}"
