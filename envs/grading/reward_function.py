"""`reward_function`: an environment as the reward function of another trainer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from verigym.envs.contract.base import Environment, require_environment
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Completion, CompletionLike, Prompt, Score
from verigym.envs.grading.grader import Grader
from verigym.envs.grading.health import Health
from verigym.envs.grading.reference_columns import PromptLike, ReferenceColumns, plain
from verigym.envs.registry import load

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
    """Return a reward function that takes lists, as TRL's `reward_funcs` expects: `reward_function("math")`.

    Args:
        environment: the environment, or its name if it needs no options.
        columns: mapping from a field of the reference (`part.field` for a composition) to the data set column that holds it, or
            to None for a field that is not read. A field that is not in this mapping is read from the column with the field's
            name (without `part.`); for an optional field this column may be missing.
        name: name under which the trainer logs the reward, by default the environment's. Two functions in one trainer need two
            names.
        stop_after: number of completions in a row without a reward after which an error ends the run; None for never.
        settings: settings of the `Grader`, such as `workers`, `timeout_s` and `cache`.

    Raises:
        UsageError: the environment or a setting is unknown, or `columns` names a field that the reference lacks.
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
    return RewardFunction(made, columns or {}, made.name if name is None else name, stop_after, settings)


class RewardFunction:
    """A reward function, made by `reward_function`.

    Call it with a list of prompts, a list of completions, and the data set's columns as keyword arguments. Its worker processes
    start at the first call, and end with this process or with `close`.
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
                known = [*known_settings, "columns", "name", "stop_after"]
                raise UsageError(f"reward_function: no setting is called {setting!r}{did_you_mean(setting, known)}")
        self.grader = Grader(environment, **settings)
        self.__name__ = name  # under which trainers log it
        self._columns = ReferenceColumns(environment, columns, f"the reward function of {name!r}")
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
        """Return a reward for each completion, or None (never 0) if grading failed or the row cannot be used.

        Args:
            prompts: texts or lists of chat messages.
            completions: texts or lists of chat messages, one for each prompt.
            completion_ids: the token ids of each completion, as TRL passes them, for environments that count tokens. They are
                ignored for a completion with tool replies, since they then include tokens that the model only read.
            log_metric: function that logs a number under a name, as TRL passes it. It gets the share of completions without a
                reward, and the mean of each part or component of the scores.
            columns: columns of the data set, with one value for each prompt. Columns that the reference does not need are
                ignored.

        Raises:
            UsageError: a column is missing, or `stop_after` completions in a row have got no reward.
            ValueError: lists differ in length.
        """
        lengths = {"prompts": len(prompts), "completions": len(completions)}
        if completion_ids is not None:
            lengths["completion_ids"] = len(completion_ids)
        rows = self._columns.rows(columns, lengths)
        items: list[tuple[Prompt, Completion] | None] = []
        problems: list[str] = []
        for number, (prompt, completion, row) in enumerate(zip(prompts, completions, rows, strict=True), 1):
            tokens = None if completion_ids is None else completion_ids[number - 1]
            try:
                if completion is None:
                    raise ValueError("its completion is None")
                items.append((self._columns.task(prompt, row), with_tokens(Completion.of(completion), tokens)))
            except ValueError as error:
                problems.append(f"row {number}: {error}" + self._columns.hint(str(error)) + begun(prompt))
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
            for part, mean in mean_parts(scores).items():
                log_metric(f"{self.__name__}/{part}", mean)
        self.health.refuse_silence(problems)
        return rewards

    def close(self) -> None:
        """End the worker processes."""
        self.grader.close()

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"<reward function of {self.environment.grader}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def with_tokens(completion: Completion, tokens: Sequence[int] | None) -> Completion:
    """Return `completion` with `tokens` as its token ids.

    It is returned unchanged if it has token ids already, or if `tokens` would include those of tool replies.
    """
    if tokens is None or completion.token_ids is not None or any(turn.role != "assistant" for turn in completion.turns):
        return completion
    return completion.model_copy(update={"token_ids": tuple(plain(tokens))})


def mean_parts(scores: Sequence[Score]) -> dict[str, float]:
    """Return the mean of each score component by name. Components inside a part (with a slash in their names) are left out."""
    values: dict[str, list[float]] = {}
    for score in scores:
        for name, value in score.components.items():
            if value is not None and "/" not in name:
                values.setdefault(name, []).append(value)
    return {name: sum(found) / len(found) for name, found in values.items()}


def begun(prompt: PromptLike) -> str:
    """Return the beginning of `prompt`, quoted for an error message, so that its row can be found in the data set."""
    text = prompt if isinstance(prompt, str) else next((dict(one).get("content") for one in reversed(prompt)), "")
    return f" (prompt {text[:SHOWN]!r}{'...' if len(text) > SHOWN else ''})" if isinstance(text, str) and text else ""
