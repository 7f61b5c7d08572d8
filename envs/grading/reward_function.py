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
from verigym.envs.contract.schema import Completion, CompletionLike, Message, Prompt
from verigym.envs.grading.grader import Grader
from verigym.envs.registry import load

PromptLike = str | Sequence[Message | Mapping[str, Any]]


def reward_function(
    environment: Environment | str,
    *,
    columns: Mapping[str, str] | None = None,
    name: str | None = None,
    **settings: Any,
) -> RewardFunction:
    """Return a function of lists, as TRL's `reward_funcs` takes: `reward_function("math")`.

    Args:
        environment: the environment, or its name if it needs no options.
        columns: field of the reference (`part.field` for a composition) -> column of the data set that holds it. By default
            every field is read from the column of its own name, a field that need not be given where the data set has it.
        name: under which the trainer logs it, by default the environment's. Two functions in one trainer need two names.
        settings: of the `Grader`, such as `workers`, `timeout_s` and `cache`.

    Raises:
        UsageError: there is no such environment or setting, or its reference has no field of that name.
    """
    made = load(environment) if isinstance(environment, str) else require_environment(environment, "reward_function")
    if columns is not None and not isinstance(columns, Mapping):
        raise UsageError(
            f"reward_function: columns={columns!r:.60}: expected a field of the reference and its column, such as "
            f'{{"answer": "gold"}}; columns of the field\'s own name need not be given'
        )
    return RewardFunction(made, columns or {}, made.name if name is None else name, settings)


@dataclass(frozen=True)
class _Field:
    name: str
    column: str
    required: bool


class RewardFunction:
    """Called with lists of prompts and completions and the data set's columns by name; made by `reward_function`.

    Its worker processes start at the first call and end with the process, or with `close`.
    """

    def __init__(self, environment: Environment, columns: Mapping[str, str], name: str, settings: Mapping[str, Any]) -> None:
        self.environment = environment
        known_settings = [name for name in inspect.signature(Grader).parameters if name != "environments"]
        for setting in settings:
            if setting in type(environment.options).model_fields:
                raise UsageError(
                    f"reward_function: {setting!r} is an option of the environment: "
                    f"reward_function(verigym.load({environment.name!r}, {setting}=...))"
                )
            if setting not in known_settings:
                raise UsageError(f"reward_function: no setting is called {setting!r}{did_you_mean(setting, known_settings)}")
        self.grader = Grader(environment, **settings)
        self.__name__ = name  # under which trainers log it
        known = dict(_fields_of(environment, ""))
        for field in columns:
            if known and field not in known:
                hint = did_you_mean(field, known)
                raise UsageError(f"columns: the reference of environment {environment.name!r} has no field {field!r}{hint}")
        named = {field: _Field(field, column, True) for field, column in columns.items()}
        by_default = {field: _Field(field, field.rpartition(".")[2], required) for field, required in known.items()}
        self._fields = tuple((by_default | named).values())

    def __call__(
        self,
        prompts: Sequence[PromptLike],
        completions: Sequence[CompletionLike],
        *,
        completion_ids: Sequence[Sequence[int]] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return a reward for each completion; None, never 0, where our side failed or the row cannot be used.

        Args:
            prompts: texts or lists of chat messages.
            completions: texts or lists of chat messages, one for each prompt.
            completion_ids: the tokens of each, as TRL passes them, for environments that count tokens. Those of an episode are
                left alone: they hold what the model read, too.
            columns: of the data set, one value for each prompt. Those that the reference does not need are left alone.

        Raises:
            UsageError: a column is missing.
            ValueError: lists differ in length.
        """
        lengths = {"prompts": len(prompts), "completions": len(completions)}
        if completion_ids is not None:
            lengths["completion_ids"] = len(completion_ids)
        rows = self._rows(columns, lengths)
        items: list[tuple[Prompt, Completion] | None] = []
        problems: list[str] = []
        for number, (prompt, completion, row) in enumerate(zip(prompts, completions, rows, strict=True), 1):
            tokens = None if completion_ids is None else completion_ids[number - 1]
            try:
                items.append((self._task(prompt, row), _with_tokens(Completion.of(completion), tokens)))
            except ValueError as error:
                problems.append(f"row {number}: {error}")
                items.append(None)
        if problems:
            others = f" (and {len(problems) - 1} more of {len(rows)} rows)" if len(problems) > 1 else ""
            warnings.warn(f"{self.__name__}: no reward for {problems[0]}{others}", stacklevel=2)
        scores = self.grader.stream([item for item in items if item is not None])
        return [None if item is None else next(scores).reward for item in items]

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

    def _task(self, prompt: PromptLike, fields: Mapping[str, Any]) -> Prompt:
        """Return a row's task.

        Raises:
            ValueError: the row's prompt or reference cannot be used.
        """
        missing = [field.column for field in self._fields if field.required and fields.get(field.name) is None]
        if missing:
            raise ValueError(f"its {missing[0]!r} is None")
        reference: dict[str, Any] = {}
        for name, value in fields.items():
            *parts, last = name.split(".")
            place = reference
            for part in parts:
                place = place.setdefault(part, {})
            place[last] = value
        return self.environment.prompt(prompt, **reference)  # type: ignore[arg-type]

    def close(self) -> None:
        """End the worker processes."""
        self.grader.close()

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"<reward function of {self.environment.grader}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _with_tokens(completion: Completion, tokens: Sequence[int] | None) -> Completion:
    if tokens is None or completion.turns or completion.token_ids is not None:
        return completion
    return Completion(text=completion.text, token_ids=tuple(_plain(tokens)), finish_reason=completion.finish_reason)


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
