"""`Scorer` grades another trainer's completions one at a time; `Always` adds what to do if a reward is missing.

A reward is missing if grading failed through no fault of the model. Trainers that cannot leave a completion out need `Always`.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from verigym.adapters.sources import COLUMN, Sources, SourcesLike, open_sources
from verigym.envs.contract.errors import UsageError, did_you_mean
from verigym.envs.contract.schema import Completion, CompletionLike, Prompt, Score
from verigym.envs.grading.grader import Grader
from verigym.envs.grading.health import Health
from verigym.envs.grading.placement import pools
from verigym.envs.grading.reference_columns import PromptLike, ReferenceColumns

Unscored = Literal["stop", "retry"] | float
"""What to do if a completion has no reward and the trainer cannot leave it out.

`stop` raises an error, which stops the run. `retry` grades the completion again several times, with growing waits, if the cause
may be temporary; if all tries fail, it raises the error. A number is reported in place of the reward."""

WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0)
"""Seconds before each further try of `retry`."""

GRADER_SETTINGS = tuple(name for name in inspect.signature(Grader).parameters if name != "environments")


class UnscoredError(RuntimeError):
    """Raised when a completion has no reward and the trainer cannot leave it out."""


class Scorer:
    """Grades completions of the tasks of one or several sources. The worker processes start with the first completion.

    Args:
        what: the environment, data set, suite or mixture, as `open_sources` accepts it.
        columns: for rows that do not hold a whole task in the column `verigym`: maps each field of the environment's reference
            (what it grades against) to the row's column.
        stop_after: raise an error after this many consecutive completions without a reward; None for never.
        settings: keyword arguments of `Grader`, such as `workers`, `timeout_s` and `cache`, and of `open_sources`.

    Raises:
        UsageError: `open_sources` or `Grader` refuses an argument.
    """

    def __init__(
        self,
        what: SourcesLike | Sources,
        *,
        columns: Mapping[str, str | None] | None = None,
        stop_after: int | None = 64,
        **settings: Any,
    ) -> None:
        self.limits = {name: settings.pop(name) for name in GRADER_SETTINGS if name in settings}
        self.sources = open_sources(what, **settings)
        environments = self.sources.environments
        if columns and len(environments) > 1:
            raise UsageError(f"columns: rows of a mixture carry their tasks in column {COLUMN!r}; leave `columns` out")
        shared, self._pool_of = pools(environments)
        self._graders = [Grader(pool, **self.limits) for pool in shared]
        name = "+".join(environments)
        self._columns = None
        if len(environments) == 1:
            self._columns = ReferenceColumns(next(iter(environments.values())), columns or {}, f"the scorer of {name!r}")
        self.health = Health(name, stop_after)

    def __repr__(self) -> str:
        return f"<scorer of {self.sources!r}>"

    def task(self, row: Mapping[str, Any], prompt: PromptLike | None = None) -> tuple[str, Prompt]:
        """Return the source's label and the prompt of `row`.

        Args:
            row: a row with a `verigym` column, or with the fields of the reference.
            prompt: text or chat messages, for rows without a `verigym` column.

        Raises:
            ValueError: the row cannot be used.
        """
        if (cell := row.get(COLUMN)) is not None:
            return self.sources.task(cell)
        if self._columns is None:
            raise UsageError(
                f"a row has no column {COLUMN!r}, which says what it is graded by: make the data set of `Sources.rows`; "
                f"the trainer passed: {', '.join(sorted(map(str, row))) or 'no columns'}"
            )
        if prompt is None:
            raise ValueError("the row has no prompt")
        fields = self._columns.row(row)
        try:
            return next(iter(self.sources.environments)), self._columns.task(prompt, fields)
        except ValueError as error:
            raise ValueError(f"{error}{self._columns.hint(str(error))}") from None

    def submit(self, task: tuple[str, Prompt], completion: CompletionLike) -> Future[Score]:
        """Queue `completion` of `task` for grading; return a future of its score at once."""
        label, prompt = task
        return self._graders[self._pool_of[label]].submit(prompt, completion)

    def score(self, task: tuple[str, Prompt], completion: CompletionLike) -> Score:
        """Grade `completion` of `task` and return its score."""
        return self.submit(task, completion).result()

    async def ascore(self, task: tuple[str, Prompt], completion: CompletionLike) -> Score:
        """Grade `completion` of `task` and return its score, without blocking the event loop."""
        return await asyncio.wrap_future(self.submit(task, completion))

    def reward(self, score: Score) -> float | None:
        """Record `score` in `health`, and return its reward. A score without a reward gives None, never 0.

        Raises:
            UsageError: `stop_after` consecutive completions have got no reward.
        """
        reward = self.health.reward(score)
        self.health.refuse_silence([])
        return reward

    def close(self) -> None:
        """End the worker processes."""
        for grader in self._graders:
            grader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


@dataclass(frozen=True)
class Told:
    """The reward that is reported for a completion to a trainer that needs a number for every completion."""

    reward: float
    score: Score
    """The verdict. If the environment's `judge` raises exceptions too often, the verdict's reward is not reported to the
    trainer."""
    stand_in: bool
    """Whether `reward` is only a substitute (the number `unscored`) for a reward that is missing or not reported."""


class Always:
    """Gives rewards to trainers that need a number for every completion: each call returns a number or raises an error.

    Args:
        scorer: grades the completions.
        unscored: what to do about a missing reward: `stop`, `retry` or a number to report. It has no default, because each
            choice has a drawback.

    Raises:
        UsageError: `unscored` is not `stop`, `retry` or a finite number.
    """

    def __init__(self, scorer: Scorer, unscored: Unscored) -> None:
        number = isinstance(unscored, int | float) and not isinstance(unscored, bool) and math.isfinite(unscored)
        if not number and unscored not in ("stop", "retry"):
            hint = did_you_mean(unscored, ("stop", "retry")) if isinstance(unscored, str) else ""
            raise UsageError(f"unscored={unscored!r}: expected 'stop', 'retry' or a number{hint}")
        self.scorer, self.unscored = scorer, unscored

    def reward(self, task: tuple[str, Prompt], completion: CompletionLike) -> Told:
        """Grade `completion` of `task`; return its score and the reward to report, which may be a substitute.

        Raises:
            UnscoredError: there is no reward, and `unscored` is `stop`, or `unscored` is `retry` and trying again did not help.
        """
        return self.after(self.scorer.score(task, completion), task, completion)

    def after(self, score: Score, task: tuple[str, Prompt], completion: CompletionLike) -> Told:
        """Do the same as `reward` for a completion that has already been graded once, with the result `score`."""
        for wait_s in self._waits(score, completion):
            time.sleep(wait_s)
            score = self.scorer.score(task, completion)
            if score.reward is not None:
                break
        return self._told(score)

    async def areward(self, task: tuple[str, Prompt], completion: CompletionLike) -> Told:
        """Do the same as `reward` without blocking the event loop."""
        score = await self.scorer.ascore(task, completion)
        for wait_s in self._waits(score, completion):
            await asyncio.sleep(wait_s)
            score = await self.scorer.ascore(task, completion)
            if score.reward is not None:
                break
        return self._told(score)

    def _waits(self, score: Score, completion: CompletionLike) -> Iterator[float]:
        """Yield the waits before further tries. An episode that our side broke off is no other by being graded again."""
        broken_off = isinstance(completion, Completion) and completion.failure is not None
        if self.unscored == "retry" and score.error is not None and score.error.retryable and not broken_off:
            yield from WAITS_S

    def _told(self, score: Score) -> Told:
        reward = self.scorer.reward(score)
        if reward is not None:
            return Told(reward, score, stand_in=False)
        if isinstance(self.unscored, str):
            why = score.error.message if score.error is not None else "its judge raises too often"
            raise UnscoredError(
                f"a completion has no reward ({why}), and this trainer cannot leave it out: mend the cause, or give "
                "unscored=NUMBER and know that it is trained on"
            )
        return Told(float(self.unscored), score, stand_in=True)


def completion_of(text: str, token_ids: Any = None, finish_reason: Any = None) -> Completion:
    """Return a completion with `text`, and with its tokens and finish reason if the trainer passes them."""
    ids = None if token_ids is None else tuple(int(one) for one in token_ids)
    return Completion(text=text, token_ids=ids, finish_reason=finish_reason)
