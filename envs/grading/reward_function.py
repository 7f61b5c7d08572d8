"""`reward_function`: an environment as the reward function of another trainer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from verigym.envs.contract.base import Environment, require_environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import CompletionLike, Message, Prompt
from verigym.envs.grading.grader import Grader
from verigym.envs.registry import load

PromptLike = str | Sequence[Message | Mapping[str, Any]]


def reward_function(
    environment: Environment | str, *, columns: Mapping[str, str] | None = None, **settings: Any
) -> RewardFunction:
    """Return a function of lists, as TRL's `reward_funcs` takes: `reward_function("math")`.

    Args:
        environment: the environment, or its name if it needs no options.
        columns: field of the reference (`part.field` for a composition) -> column of the data set that holds it. By default
            every field is read from the column of its own name, a field that need not be given where the data set has it.
        settings: of the `Grader`, such as `workers`, `timeout_s` and `cache`.

    Raises:
        UsageError: there is no such environment or setting, or its reference has no field of that name.
    """
    made = load(environment) if isinstance(environment, str) else require_environment(environment, "reward_function")
    return RewardFunction(made, columns or {}, settings)


@dataclass(frozen=True)
class _Field:
    name: str
    column: str
    required: bool


class RewardFunction:
    """Called with lists of prompts and completions and the data set's columns by name; made by `reward_function`.

    Its worker processes start at the first call and end with the process, or with `close`.
    """

    def __init__(self, environment: Environment, columns: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        self.environment = environment
        known_settings = [name for name in inspect.signature(Grader).parameters if name != "environments"]
        for name in settings:
            if name in type(environment.options).model_fields:
                raise UsageError(
                    f"reward_function: {name!r} is an option of the environment: "
                    f"reward_function(verigym.load({environment.name!r}, {name}=...))"
                )
            if name not in known_settings:
                raise UsageError(f"reward_function: no setting is called {name!r}{did_you_mean(name, known_settings)}")
        self.grader = Grader(environment, **settings)
        self.__name__ = environment.name  # under which trainers log it
        known = dict(_fields_of(environment, ""))
        for name in columns:
            if known and name not in known:
                hint = did_you_mean(name, known)
                raise UsageError(f"columns: the reference of environment {environment.name!r} has no field {name!r}{hint}")
        named = {name: _Field(name, column, True) for name, column in columns.items()}
        by_default = {name: _Field(name, name.rpartition(".")[2], required) for name, required in known.items()}
        self._fields = tuple((by_default | named).values())

    def __call__(
        self, prompts: Sequence[PromptLike], completions: Sequence[CompletionLike], **columns: Any
    ) -> list[float | None]:
        """Return a reward for each completion; None, never 0, where our side failed or the row's reference cannot be used.

        Args:
            prompts: texts or lists of chat messages.
            completions: texts or lists of chat messages, one for each prompt.
            columns: of the data set, one value for each prompt. Those that the reference does not need are left alone.

        Raises:
            UsageError: a column is missing.
            ValueError: lists differ in length.
        """
        rows = self._rows(columns, {"prompts": len(prompts), "completions": len(completions)})
        problems: list[str] = []
        tasks = [
            self._task(prompt, row, number, problems) for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True), 1)
        ]
        if problems:
            others = f" (and {len(problems) - 1} more of {len(rows)} rows)" if len(problems) > 1 else ""
            warnings.warn(f"{self.__name__}: no reward for {problems[0]}{others}", stacklevel=2)
        items = [(task, completion) for task, completion in zip(tasks, completions, strict=True) if task is not None]
        scores = self.grader.stream(items)
        return [None if task is None else next(scores).reward for task in tasks]

    def _rows(self, columns: Mapping[str, Any], lengths: dict[str, int]) -> list[dict[str, Any]]:
        """Return the fields of each row's reference, by dotted name."""
        used: list[tuple[_Field, Sequence[Any]]] = []
        for field in self._fields:
            values = columns.get(field.column)
            listed = _listed(values)
            if listed is not None:
                used.append((field, listed))
                lengths[field.column] = len(listed)
            elif field.required and values is not None:
                raise UsageError(
                    f"the reward function of {self.__name__!r} got {type(values).__name__} {values!r:.60} as column "
                    f"{field.column!r}; expected a list, one value for each prompt"
                )
            elif field.required:
                raise UsageError(
                    f"the reward function of {self.__name__!r} got no column {field.column!r} for the field {field.name!r} of "
                    f"its reference; the trainer passed: {', '.join(sorted(columns)) or 'no columns'}. Name the data set's "
                    f'column: columns={{"{field.name}": "COLUMN"}}'
                )
        if len(set(lengths.values())) > 1:
            given = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"the reward function of {self.__name__!r} got lists of unequal lengths: {given}")
        return [
            {field.name: _plain(values[row]) for field, values in used if field.required or values[row] is not None}
            for row in range(lengths["prompts"])
        ]

    def _task(self, prompt: PromptLike, fields: Mapping[str, Any], number: int, problems: list[str]) -> Prompt | None:
        """Return a row's task; None, with the row among the problems, where its reference cannot be used."""
        missing = [field.column for field in self._fields if field.required and fields.get(field.name) is None]
        if missing:
            problems.append(f"row {number}, whose {missing[0]!r} is None")
            return None
        reference: dict[str, Any] = {}
        for name, value in fields.items():
            *parts, last = name.split(".")
            place = reference
            for part in parts:
                place = place.setdefault(part, {})
            place[last] = value
        try:
            return self.environment.prompt(prompt, **reference)  # type: ignore[arg-type]
        except UsageError as error:
            problems.append(f"row {number}: {error}")
            return None

    def close(self) -> None:
        """End the worker processes."""
        self.grader.close()

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"<reward function of {self.environment.grader}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _listed(values: Any) -> Sequence[Any] | None:
    """Return a column as a list, arrays and tensors too; None if it is no column."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return values
    listed = values.tolist() if hasattr(values, "tolist") else None
    return listed if isinstance(listed, list) else None


def _plain(value: Any) -> Any:
    """Return a scalar or an array of numpy or torch, as data sets in such formats have them, as a plain value."""
    return value.tolist() if hasattr(value, "tolist") else value


def _fields_of(environment: Environment, prefix: str) -> Iterator[tuple[str, bool]]:
    """Yield the dotted name of every field of the reference, and whether it must be given."""
    parts = getattr(environment, "parts", None)
    if isinstance(parts, Mapping):
        for part, inner in parts.items():
            yield from _fields_of(inner, f"{prefix}{part}.")
    kind = getattr(environment, "reference_type", None)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            yield f"{prefix}{name}", field.is_required()
