"""Failures with an owner: what we raise when a verdict cannot be given, and how bad input is explained in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pydantic import ValidationError

from verigym.envs.schema import ErrorKind, Score


class EnvironmentFailure(Exception):
    """Our side failed (gold, back end, judge, worker): there is no score. Raised inside `judge`, never for the model's text."""

    def __init__(self, kind: ErrorKind, message: str, *, retryable: bool = False) -> None:
        super().__init__(kind, message, retryable)
        self.kind: ErrorKind = kind
        self.message = message
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    def score(self) -> Score:
        """Return the score that says so: `reward=None`."""
        return Score.failed(self.kind, self.message, retryable=self.retryable)


class UsageError(ValueError):
    """Bad input from a person: one line that names the place, what was expected and what to do."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` or, where nothing is near, the list of known words."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""


@contextmanager
def told_of(what: str) -> Iterator[None]:
    """Put what it is about before the message of a mistake, where that does not begin with it.

    Raises:
        UsageError: the mistake, or the failure of an environment that cannot work here.
    """
    try:
        yield
    except (UsageError, EnvironmentFailure) as error:
        said = str(error)
        raise UsageError(said if said.startswith(what) else f"{what}: {said}") from None


def explain(error: ValidationError, known: Iterable[str] = ()) -> str:
    """Return a pydantic error as one line: the first problem, its field and what was given.

    `known` are the field names at the top level, for the suggestion after an unknown one.
    """
    found = error.errors(include_url=False, include_context=False)
    # A list of which an element is wrong is said to be too short as well.
    inner = [problem["loc"] for problem in found if problem["type"] != "too_short"]
    problems = [
        problem
        for problem in found
        if problem["type"] != "too_short" or not any(loc[: len(problem["loc"])] == problem["loc"] for loc in inner)
    ]
    # A misspelt required field is both unknown and missing; the unknown name carries the suggestion.
    first = next((problem for problem in problems if problem["type"] == "extra_forbidden"), problems[0])
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        hint = did_you_mean(str(first["loc"][-1]), known) if len(first["loc"]) == 1 else ""
        return f"unknown field {place!r}{hint}{more}"
    if first["type"] == "missing":
        return f"field {place!r} is missing{more}"
    message = first["msg"].removeprefix("Value error, ").replace("\n", " ").replace("a valid tuple", "a list")
    if not place:  # several fields together
        return f"{message}{more}"
    try:
        given = repr(first.get("input"))
    except (ValueError, RecursionError):  # an integer of thousands of digits, a structure of thousands of levels
        given = f"a {type(first.get('input')).__name__} too large to show"
    shown = given if len(given) <= 80 else given[:77] + "..."
    return f"field {place!r}: {message}; got {shown}{more}"
