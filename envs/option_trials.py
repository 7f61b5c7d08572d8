"""Grades a few texts again with other environment options that say where to look for the answer, to find options that work."""

from __future__ import annotations

import json
import time
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, computed_field

from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, Prompt, Status
from verigym.envs.grading.grader import Grader

PLACES = ("extract", "answer_in", "program")
"""Environment options that say where to look for the answer in the text; the value of each is one of a fixed list of names."""
PREFIX = "continue_prefix"
TEXTS = 24
TRIAL_S = 10.0
"""Wall time that one text may take in a trial."""
ALL_TRIALS_S = 30.0
"""Total wall time in seconds for all trials; results then cover only the texts that were graded by that time."""
NEARLY = 0.9
"""A trial counts as nearly as good as the best trial if it reaches this share of the best count. Among nearly equal trials, the
trial that was made first is proposed; values of an option are tried from the most to the least reliable."""
_READ = {Status.CORRECT, Status.PARTIAL, Status.INCORRECT}


class Trial(BaseModel):
    """The result of grading some texts with another option."""

    model_config = ConfigDict(frozen=True)

    change: Mapping[str, Any] = Field(exclude=True)
    """The options that differ from those of the environment."""
    texts: int
    """Texts tried; 0 where the time for trials was over."""
    read: int
    """Texts in which an answer was found."""
    right: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def arguments(self) -> str:
        """Return the changed options as arguments of `verigym grade`."""
        return as_arguments(self.change)


def try_options(
    environment: Environment,
    pairs: Sequence[tuple[Prompt, Completion]],
    workers: int | None,
) -> list[Trial]:
    """Grade a few texts again with other options that say where to look for the answer; return one result per option.

    The values of an option are tried in the order in which its type lists them, the most reliable first.

    Args:
        environment: the environment whose results are suspicious.
        pairs: prompts and completions, of which the first TEXTS are graded.
        workers: 0 to grade in this process, without limits; any other value uses one worker process.
    """
    found = []
    end = time.monotonic() + ALL_TRIALS_S
    few = list(pairs[:TEXTS])
    for change in alternatives(environment):
        statuses: list[Status] = []
        try:
            options = environment.options.model_dump(exclude_unset=True)
            trial = type(environment)(**{**options, **change})
            with Grader(trial, workers=workers if workers == 0 else 1, timeout_s=TRIAL_S) as grader:
                for score in grader.stream(few) if time.monotonic() < end else ():
                    statuses.append(score.status)
                    if time.monotonic() > end:
                        break
        except (UsageError, EnvironmentFailure):  # an option that does not go with the others
            continue
        read = sum(status in _READ for status in statuses)
        right = sum(status is Status.CORRECT for status in statuses)
        found.append(Trial(change=change, texts=len(statuses), read=read, right=right))
    return found


def alternatives(environment: Environment) -> Iterator[dict[str, Any]]:
    """Yield changes to the environment's options that make the environment look for the answer in another place."""
    options = getattr(environment, "options", None)
    if not isinstance(options, BaseModel):
        return
    fields = type(options).model_fields
    prefixes: list[dict[str, Any]] = [{}, {PREFIX: not getattr(options, PREFIX)}] if PREFIX in fields else [{}]
    yield from prefixes[1:]
    for name in PLACES:
        if name not in fields:
            continue
        now = getattr(options, name)
        for place in _names(fields[name].annotation):
            if place != now and (place,) != now:
                yield from ({name: _fitting(options, name, place), **prefix} for prefix in prefixes)


def best(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the most right answers; if no trial has any, the trial in which the most answers were found.

    Return None if no answer was found in any trial. Of trials that are nearly as good, the first is returned.
    """
    for count in ("right", "read"):
        most = max((getattr(trial, count) for trial in trials), default=0)
        if most:
            return next(trial for trial in trials if getattr(trial, count) >= NEARLY * most)
    return None


def as_arguments(change: Mapping[str, Any]) -> str:
    """Return the options in `change` as command-line arguments."""
    return " ".join(f"--option {name}={_value(value)}" for name, value in change.items())


def as_fields(change: Mapping[str, Any]) -> str:
    """Return the options in `change` as lines of a run's YAML, in one line."""
    return f"options: {json.dumps(dict(change))}"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.replace("_", "").isalnum() else f"'{text}'"


def _fitting(options: BaseModel, name: str, place: str) -> str | list[str]:
    """Return one place as the option takes it: alone or in a list."""
    try:
        type(options)(**{name: place})
    except ValidationError:
        return [place]
    return place


def _names(annotation: Any) -> list[str]:
    """Return every string that a type's literals list."""
    if typing.get_origin(annotation) is typing.Literal:
        return [value for value in typing.get_args(annotation) if isinstance(value, str)]
    return list(dict.fromkeys(name for part in typing.get_args(annotation) for name in _names(part)))
