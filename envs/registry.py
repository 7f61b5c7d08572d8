"""Registry of environments: finds an environment's class by its name.

The library's own environments are in a table. Users name theirs by `@register` or `module:Class`, installed packages by entry
points.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from verigym.envs.contract.base import BaseEnvironment, Environment, require_declared
from verigym.envs.contract.errors import EnvironmentFailure, UsageError, did_you_mean
from verigym.envs.own_code import is_installed

ENTRY_POINT_GROUP = "verigym.environments"

ENVIRONMENTS = {
    "math": "verigym.envs.math.environment:MathEnvironment",
    "code": "verigym.envs.code.environment:CodeEnvironment",
    "code_with_feedback": "verigym.envs.repair.environment:CodeWithFeedbackEnvironment",
    "program_of_thought": "verigym.envs.program_of_thought:ProgramOfThoughtEnvironment",
    "functions": "verigym.envs.code.functions:FunctionsEnvironment",
    "lean": "verigym.envs.lean.environment:LeanEnvironment",
    "format": "verigym.envs.format.environment:FormatEnvironment",
    "constraints": "verigym.envs.constraints.environment:ConstraintsEnvironment",
    "language": "verigym.envs.language.environment:LanguageEnvironment",
    "match": "verigym.envs.match.environment:MatchEnvironment",
    "length": "verigym.envs.shaping.length:LengthEnvironment",
    "overlong": "verigym.envs.shaping.overlong:OverlongEnvironment",
    "repetition": "verigym.envs.shaping.repetition:RepetitionEnvironment",
    "paragraphs": "verigym.envs.shaping.paragraphs:ParagraphsEnvironment",
    "effort": "verigym.envs.shaping.effort:EffortEnvironment",
    "judge": "verigym.envs.judge.environment:JudgeEnvironment",
    "reward_model": "verigym.envs.reward_model.environment:RewardModelEnvironment",
    "process": "verigym.envs.process.environment:ProcessEnvironment",
    "arithmetic": "verigym.envs.generated.families:ArithmeticEnvironment",
    "units": "verigym.envs.generated.families:UnitsEnvironment",
    "story": "verigym.envs.generated.families:StoryEnvironment",
    "bases": "verigym.envs.generated.families:BasesEnvironment",
    "running_sums": "verigym.envs.generated.running_sums:RunningSumsEnvironment",
    "fractions": "verigym.envs.generated.puzzles.fractions:FractionsEnvironment",
    "algebra": "verigym.envs.generated.puzzles.algebra:AlgebraEnvironment",
    "counting": "verigym.envs.generated.puzzles.counting:CountingEnvironment",
    "dates": "verigym.envs.generated.puzzles.dates:DatesEnvironment",
    "sorting": "verigym.envs.generated.puzzles.sorting:SortingEnvironment",
    "logic": "verigym.envs.generated.puzzles.logic:LogicEnvironment",
    "strings": "verigym.envs.generated.puzzles.strings:StringsEnvironment",
    "graphs": "verigym.envs.generated.puzzles.graphs:GraphsEnvironment",
    "countdown": "verigym.envs.generated.puzzles.countdown:CountdownEnvironment",
    "number_guessing": "verigym.envs.games.number_guessing:GuessingEnvironment",
    "treasure_rooms": "verigym.envs.games.treasure_rooms.environment:TreasureRoomsEnvironment",
    "reasoning_gym": "verigym.envs.reasoning_gym.environment:ReasoningGymEnvironment",
    "dialogue": "verigym.envs.dialogue.environment:DialogueEnvironment",
    "retrieval": "verigym.envs.retrieval.environment:RetrievalEnvironment",
}

_EXPECTED = "expected module:Class, in this folder or installed"
_registered: dict[str, type[Any]] = {}

C = TypeVar("C", bound=type[Any])


def register(name: str) -> Callable[[C], C]:
    """Return a class decorator that makes an environment class loadable by `name` in this process.

    Raises:
        UsageError: the name is taken (the message gives both origins), or the class lacks a required attribute or method.
    """

    def add(cls: C) -> C:
        if not isinstance(cls, type):
            raise UsageError(
                f"environment {name!r}: {cls!r:.200} is no class; register the class, before it is made with options"
            )
        if issubclass(cls, BaseEnvironment):
            require_declared(cls)
        origin = f"{cls.__module__}:{cls.__qualname__}"
        if name in ENVIRONMENTS:
            raise UsageError(f"environment {name!r} is registered twice: by {ENVIRONMENTS[name]} and by {origin}")
        known = _registered.get(name)
        # A module run again (notebook cell, spawned worker) defines its class anew: the same origin may replace itself.
        if known is not None and f"{known.__module__}:{known.__qualname__}" != origin:
            raise UsageError(
                f"environment {name!r} is registered twice: by {known.__module__}:{known.__qualname__} and by {origin}"
            )
        _registered[name] = cls
        return cls

    return add


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return _read_entry_points(tuple((folder, _changed_at(folder)) for folder in sys.path))


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=1)
def _read_entry_points(folders: tuple[tuple[str, int], ...]) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points of all packages; kept until a folder of `sys.path` changes, for reading takes long."""
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        other = found.get(point.name)
        origin = ENVIRONMENTS.get(point.name) or (other.value if other and other.value != point.value else None)
        if origin:
            raise UsageError(f"environment {point.name!r} is registered twice: by {origin} and by {point.value}")
        found[point.name] = point
    return found


def available() -> dict[str, str]:
    """Return every known name with its origin, `module:Class`."""
    names = dict(ENVIRONMENTS)
    names.update({name: f"{cls.__module__}:{cls.__qualname__}" for name, cls in _registered.items()})
    for name, point in _entry_points().items():
        if name in _registered:
            raise UsageError(f"environment {name!r} is registered twice: by {names[name]} and by {point.value}")
        names[name] = point.value
    return dict(sorted(names.items()))


class Package(NamedTuple):
    """An installed package that an environment comes with."""

    name: str
    version: str


def package_of(name: str) -> Package | None:
    """Return the package that provides the environment `name`, or None if this process or a file of the user defines it."""
    point = _entry_points().get(name)
    if name in ENVIRONMENTS:
        return Package("verigym", importlib.metadata.version("verigym"))
    return Package(point.dist.name, point.dist.version) if point is not None and point.dist is not None else None


def origin(name: str) -> Any:
    """Return the environment class called `name`, or the class at `module:Class` if `name` has a colon.

    Raises:
        UsageError: no environment has this name (the message suggests one), or `module:Class` is not an environment.
    """
    if not isinstance(name, str):
        raise UsageError(f"expected the name of an environment as a text, such as 'math'; got {name!r}")
    if name in _registered:
        return _registered[name]
    if ":" in name:
        return _at(name)
    origins = available()
    if name not in origins:
        raise UsageError(f"no environment is called {name!r}{did_you_mean(name, origins, 'verigym envs')}")
    module, _, attribute = origins[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def import_own(module: str) -> ModuleType:
    """Return the user's module `module`, imported with the current folder last on the path.

    Errors of the module are not caught.
    """
    if os.getcwd() not in sys.path:  # at the end: a file of yours called math.py must not hide Python's own
        sys.path.append(os.getcwd())
    return importlib.import_module(module)


def _at(place: str) -> type[BaseEnvironment[Any, Any]]:
    """Return the environment at `module:Class`."""
    module, _, attribute = place.partition(":")
    try:
        code = import_own(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"environment {place!r}: {_not_imported(module, attribute, error)}") from None
    found = getattr(code, attribute, None)
    if found is None:
        known = [name for name, value in vars(code).items() if isinstance(value, type) and issubclass(value, BaseEnvironment)]
        own = [name for name in known if getattr(code, name).__module__ == code.__name__] or known
        hint = did_you_mean(attribute, own) or "; it defines no environment"
        raise UsageError(f"environment {place!r}: {_EXPECTED}: module {module!r} has no {attribute!r}{hint}")
    # Nothing else may be called with the options of a configuration, which may come from elsewhere.
    if not (isinstance(found, type) and issubclass(found, BaseEnvironment)):
        composed = not isinstance(found, type) and isinstance(found, Environment)
        raise UsageError(
            f"environment {place!r} is no class that extends BaseEnvironment; name one that does"
            + (". A composition works in Python, and as `format:` or `add:` of a source in a configuration" if composed else "")
        )
    require_declared(found)
    return found


def _not_imported(module: str, attribute: str, error: BaseException) -> str:
    """Return why a module that should hold an environment could not be imported, and where."""
    line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if module.endswith(".py") and os.path.isfile(module):
        folder, name = os.path.split(module)
        here = f" in the folder {folder}" if folder else ""
        return f"{_EXPECTED}; this names a file: write {name.removesuffix('.py')}:{attribute}{here}"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in (__file__, importlib.__file__)
    ]
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen ")]
    if not frames:  # it was never found
        return f"{_EXPECTED}: {line}"
    at = ([frame for frame in frames if not is_installed(frame.filename)] or frames)[-1]
    return f"{at.filename}:{at.lineno}: {line}"


def load(name: str, /, **options: Any) -> Environment:
    """Return the environment called `name`, made with `options`.

    Raises:
        UsageError: no environment has this name (the message suggests one), or an option is unknown or invalid.
    """
    kind = origin(name)
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as error:  # of an __init__ of the user's own
        raise UsageError(
            f"environment {name!r}: its __init__: {error}; declare parameters as fields of options_type and leave __init__ out"
        ) from None
    environment: Environment = kind(**options)
    return environment


def load_usable(name: str, /, **options: Any) -> Environment:
    """Return the environment called `name`, made with `options`, after checking that its tools and services are available.

    Raises:
        UsageError: see `load`; or something that the environment needs is missing, which the message names.
    """
    environment = load(name, **options)
    try:
        environment.check()
    except EnvironmentFailure as failure:
        raise UsageError(f"environment {name!r} cannot be used here: {failure.message}") from None
    return environment
