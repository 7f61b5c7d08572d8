"""`reward_function`: an environment as the reward function of another trainer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from verigym.envs.contract.base import Environment, require_environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Completion, CompletionLike, Message, Prompt, Score
from verigym.envs.grading.grader import Grader
from verigym.envs.grading.health import Health
from verigym.envs.registry import load

PromptLike = str | Sequence[Message | Mapping[str, Any]]

SHOWN = 60
"""Characters of a prompt in a warning."""


def reward_function(
    environment: Environment | str,
    *,
    columns: Mapping[str, str | None] | None = None,
    name: str | None = None,
    stop_after: int | None = 64,
    **settings: Any,
) -> RewardFunction:
    """Return a function of lists, as TRL's `reward_funcs` takes: `reward_function("math")`.

    Args:
        environment: the environment, or its name if it needs no options.
        columns: field of the reference (`part.field` for a composition) -> column of the data set that holds it. By default
            every field is read from the column of its own name, a field that need not be given where the data set has it; None
            for a field that is not read.
        name: under which the trainer logs it, by default the environment's. Two functions in one trainer need two names.
        stop_after: an error ends the run when so many completions in a row have got no reward; None for never.
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
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise UsageError(
            f"reward_function: name={name!r}: expected a text that is not empty; leave it out for the environment's"
        )
    if stop_after is not None and not (isinstance(stop_after, int) and stop_after > 0):
        raise UsageError(f"reward_function: stop_after={stop_after!r}: expected a whole number above 0, or None for never")
    return RewardFunction(made, columns or {}, made.name if name is None else name, stop_after, settings)


@dataclass(frozen=True)
class _Field:
    name: str
    column: str
    required: bool


class RewardFunction:
    """Called with lists of prompts and completions and the data set's columns by name; made by `reward_function`.

    Its worker processes start at the first call and end with the process, or with `close`.
    """

    def __init__(
        self,
        environment: Environment,
        columns: Mapping[str, str | None],
        name: str,
        stop_after: int | None,
        settings: Mapping[str, Any],
    ) -> None:
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
        for field, column in columns.items():
            if column is not None and not isinstance(column, str):
                raise UsageError(f"columns: {field!r} is to come from {column!r}; expected the name of one column")
            if column is None and known.get(field):
                raise UsageError(
                    f"columns: {field!r} is None, but {environment.name!r} cannot judge without it; name its column"
                )
        named = {field: _Field(field, column, True) for field, column in columns.items() if column is not None}
        by_default = {field: _Field(field, field.rpartition(".")[2], required) for field, required in known.items()}
        self._fields = tuple(one for field, one in (by_default | named).items() if columns.get(field, "") is not None)
        self.health = Health(name, stop_after)

    def __call__(
        self,
        prompts: Sequence[PromptLike],
        completions: Sequence[CompletionLike],
        *,
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_metric: Callable[[str, float], object] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return a reward for each completion; None, never 0, where our side failed or the row cannot be used.

        Args:
            prompts: texts or lists of chat messages.
            completions: texts or lists of chat messages, one for each prompt.
            completion_ids: the tokens of each, as TRL passes them, for environments that count tokens. Where a completion holds
                replies of tools they are left alone, for they hold what the model read, too.
            log_metric: logs a number, as TRL passes it: the share of completions without a reward, and the mean of each part
                or component of the scores.
            columns: of the data set, one value for each prompt. Those that the reference does not need are left alone.

        Raises:
            UsageError: a column is missing, or `stop_after` completions in a row have got no reward.
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
                if completion is None:
                    raise ValueError("its completion is None")
                items.append((self._task(prompt, row), _with_tokens(Completion.of(completion), tokens)))
            except ValueError as error:
                problems.append(f"row {number}: {error}" + self._unread_hint(str(error)) + _begun(prompt))
                items.append(None)
        if problems:
            others = f" (and {len(problems) - 1} more of {len(rows)} rows)" if len(problems) > 1 else ""
            # Counted, because Python shows an equal warning once.
            so_far = f"; {self.health.unusable + len(problems)} such rows so far" if self.health.unusable else ""
            warnings.warn(f"{self.__name__}: no reward for {problems[0]}{others}{so_far}", stacklevel=2)
        scores = self.grader.grade([item for item in items if item is not None])
        graded = iter(scores)
        rewards = [self.health.reward(None if item is None else next(graded)) for item in items]
        if log_metric is not None and rewards:
            log_metric(f"{self.__name__}/no_reward", rewards.count(None) / len(rewards))
            for part, mean in _parts(scores).items():
                log_metric(f"{self.__name__}/{part}", mean)
        self.health.refuse_silence(problems)
        return rewards

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
        task = self.environment.prompt(prompt, **reference)  # type: ignore[arg-type]
        if _has_nulls(reference):
            _refuse_filled_in(self.environment, prompt, reference, task)
        return task

    def _unread_hint(self, problem: str) -> str:
        """Return what to do where the problem is a field that need not be given, and was read because a column has its name."""
        for field in self._fields:
            if not field.required and f"'{field.name}'" in problem:
                return f"; if column {field.column!r} is about something else: columns={{{field.name!r}: None}}"
        return ""

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
    if tokens is None or completion.token_ids is not None or any(turn.role != "assistant" for turn in completion.turns):
        return completion
    return completion.model_copy(update={"token_ids": tuple(_plain(tokens))})


def _parts(scores: Sequence[Score]) -> dict[str, float]:
    """Return the mean of each component that is a whole part's or the environment's own."""
    values: dict[str, list[float]] = {}
    for score in scores:
        for name, value in score.components.items():
            if value is not None and "/" not in name:
                values.setdefault(name, []).append(value)
    return {name: sum(found) / len(found) for name, found in values.items()}


def _begun(prompt: PromptLike) -> str:
    """Return how a row's prompt begins, by which it is found in the data set: its place in the batch says little."""
    text = prompt if isinstance(prompt, str) else next((dict(one).get("content") for one in reversed(prompt)), "")
    return f" (prompt {text[:SHOWN]!r}{'...' if len(text) > SHOWN else ''})" if isinstance(text, str) and text else ""


def _has_nulls(value: Any, *, inside: bool = False) -> bool:
    if isinstance(value, Mapping):
        return any((inside and one is None) or _has_nulls(one, inside=True) for one in value.values())
    return isinstance(value, list | tuple) and any(_has_nulls(one, inside=True) for one in value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list | tuple) else value


def _refuse_filled_in(environment: Environment, prompt: PromptLike, reference: Mapping[str, Any], task: Prompt) -> None:
    """Refuse nulls that may be values, or may stand where a row of a table has nothing, if that makes another task.

    Raises:
        ValueError: the task is another without them.
    """
    try:
        bare = environment.prompt(prompt, **_without_nulls(reference))  # type: ignore[arg-type]
    except UsageError:
        return
    if bare.key != task.key:
        raise ValueError(
            "its reference holds nulls, which a table fills in where other rows have a value, and which may be meant; "
            "make the column JSON texts (json.dumps)"
        )


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
