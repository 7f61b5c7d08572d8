"""Checks the arguments of public functions against their annotations (`checked`), at the call.

The error message is one sentence that says which value to give instead. The check is fast: for most arguments it only looks up
their type.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type[Any])
_MOST_SHOWN = 60
_PLAIN = {str: "a text", bytes: "bytes", bool: "True or False", NoneType: "None"}


@dataclass(frozen=True)
class Expected:
    """A type annotation that describes in words which values a parameter or an option accepts, for error messages."""

    words: str


@dataclass(frozen=True)
class _Problem:
    place: str
    hint: Any
    value: Any


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, wrapped so that every call's arguments are checked against its annotations.

    The ranges of numbers are not checked: `function` must check them itself.

    Raises:
        TypeError, from a call: an argument is unknown, missing or of the wrong type.
        ValueError, from a call: a string is not one of the words that a `Literal` annotation lists.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    return _wrapped(function, hints, function.__qualname__)


def checked_class(kind: C) -> C:
    """Return the dataclass `kind`, changed so that its constructor checks its arguments as `checked` does."""
    hints = typing.get_type_hints(kind, include_extras=True)
    kind.__init__ = _wrapped(kind.__init__, hints, kind.__name__)
    return kind


def suggestion(word: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` with the word in `known` closest to `word`, or all `known` words if no word is close."""
    matches = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else f"; known: {', '.join(sorted(known))}"


def _wrapped(function: Callable[P, R], hints: Mapping[str, Any], called: str) -> Callable[P, R]:
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.name != "self" and one.kind is not one.VAR_KEYWORD]
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters)
    positional = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    required = {one.name for one in named if one.default is one.empty}
    known = {one.name: hints[one.name] for one in named}
    settled = {name: _settled(hint) for name, hint in known.items()}

    def look(name: str, value: Any) -> None:
        if name not in known:
            if open_ended or name == "self":
                return
            raise TypeError(f"{called}: no parameter is called {name!r}{_meant(name, known)}")
        if type(value) not in settled[name] and (problem := _problem(known[name], value, name)):
            _refuse(called, problem)

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if len(args) > len(positional):
            given = ", ".join(map(_shown, args[len(positional) :]))
            first = "" if len(positional) > ("self" in positional) else f", such as {next(iter(known))}=..."
            raise TypeError(f"{called}: too many arguments without a name, from {given} on; name them{first}")
        for name, value in zip(positional, args, strict=False):
            look(name, value)
        for name, value in kwargs.items():
            look(name, value)
        lacking = required.difference(positional[: len(args)], kwargs)
        if lacking:
            name = next(one for one in known if one in lacking)
            raise TypeError(f"{called}: {name!r} is missing: expected {_words(known[name])}")
        return function(*args, **kwargs)

    return wrapper


def _meant(name: str, known: Mapping[str, Any]) -> str:
    if difflib.get_close_matches(name, known, n=1):
        return suggestion(name, known)
    return f"; it takes {', '.join(f'{one} ({_words(hint)})' for one, hint in known.items())}"


@functools.cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    while typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    return typing.get_origin(hint) or hint, typing.get_args(hint)


@functools.cache
def _alternatives(hint: Any) -> tuple[Any, ...]:
    origin, args = _parts(hint)
    return args if origin in (typing.Union, UnionType) else (hint,)


@functools.cache
def _settled(hint: Any) -> frozenset[type]:
    """Return the types whose values need no second look."""
    return frozenset(one for one in map(lambda one: _parts(one)[0], _alternatives(hint)) if one in _PLAIN or is_dataclass(one))


def _problem(hint: Any, value: Any, place: str) -> _Problem | None:
    """Return what is wrong with a value, at the innermost place; None if nothing is."""
    if type(value) in _settled(hint):
        return None
    found: _Problem | None = None
    for one in _alternatives(hint):
        inner = _problem_with_one(one, value, place)
        if inner is None:
            return None
        if inner.place != place:
            found = inner
    return found or _Problem(place, hint, value)


def _problem_with_one(hint: Any, value: Any, place: str) -> _Problem | None:
    origin, args = _parts(hint)
    here = _Problem(place, hint, value)
    if origin in (Any, int, float):
        return None
    if origin is Literal:
        return None if isinstance(value, str) and value in args else here
    if not isinstance(value, origin) or (_is_list(origin) and isinstance(value, str | bytes | bytearray)):
        return here
    if _is_list(origin) and args[0] is not Any:
        return next(filter(None, (_problem(args[0], one, f"{place}[{index}]") for index, one in enumerate(value))), None)
    if origin is Mapping:
        for key, one in value.items():
            if problem := _problem(args[0], key, f"a name in {place}") or _problem(args[1], one, f"{place}[{_shown(key)}]"):
                return problem
    return None


def _is_list(origin: Any) -> bool:
    return origin in (Sequence, tuple)


def _words(hint: Any) -> str:
    """Return what a parameter expects, in words."""
    if typing.get_origin(hint) is typing.Annotated:
        return next(one.words for one in typing.get_args(hint) if isinstance(one, Expected))
    if len(alternatives := _alternatives(hint)) > 1:
        return " or ".join(map(_words, alternatives))
    origin, args = _parts(hint)
    if origin is Literal:
        return "one of " + ", ".join(args)
    if _is_list(origin):
        return "a list" if args[0] is Any else f"a list of {_plural(args[0])}"
    if origin is Mapping:
        return f"a dictionary of {_plural(args[0])} to {_plural(args[1])}"
    if origin in (int, float):
        return "a number"
    if origin in _PLAIN:
        return _PLAIN[origin]
    return getattr(origin, "__name__", str(origin))


def _plural(hint: Any) -> str:
    return {str: "texts", bytes: "bytes", Any: "values"}.get(hint) or f"{_words(hint)}s"


def _refuse(called: str, problem: _Problem) -> NoReturn:
    value, accepted = problem.value, [_parts(one) for one in _alternatives(problem.hint)]
    kinds = [origin for origin, _ in accepted]
    sentence = f"{called}: {problem.place}: expected {_words(problem.hint)}; got {_given(value)}"
    made = next((one for one in kinds if is_dataclass(one)), None)
    if isinstance(value, Mapping) and made is not None and all(isinstance(key, str) for key in value):
        given = ", ".join(f"{key}={_shown(one)}" for key, one in value.items())
        sentence += f": give {getattr(made, '__name__', made)}({given})"
    elif isinstance(value, str) and any(map(_is_list, kinds)):
        sentence += f": give [{_shown(value)}]"
    elif isinstance(value, str) and bytes in kinds:
        sentence += ": give its .encode()"
    elif isinstance(value, bytes) and str in kinds:
        sentence += ": give its .decode()"
    raise (ValueError if Literal in kinds and isinstance(value, str) else TypeError)(sentence)


def _given(value: Any) -> str:
    kind = type(value)
    named = _PLAIN.get(kind) or f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"
    return "None" if value is None else f"{named}, {_shown(value)}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # of a class of the caller's, or an integer of thousands of digits
        return "a value that cannot be shown"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
