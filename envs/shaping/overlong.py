"""The `overlong` environment: DAPO's soft overlong punishment (2503.14476, equation 13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.shaping.measure import Unit, length


def soft_overlong(length: int, limit: int, cache: int) -> float:
    """Return the penalty of a long completion: 0 up to `limit - cache`, then falling to -1 at `limit` (DAPO, arXiv 2503.14476).

    Args:
        length: length of the completion, in the unit of `limit`.
        limit: length from which on the penalty is -1.
        cache: length of the interval below `limit` in which the penalty grows. With 0, only completions longer than the limit
            are penalised.

    Returns:
        The penalty from -1 to 0, to be added to the reward.

    Raises:
        ValueError: a number is negative, or `cache` is larger than `limit`.
    """
    if length < 0 or not 0 <= cache <= limit:
        raise ValueError(f"expected length >= 0 and 0 <= cache <= limit, got {length=}, {limit=} and {cache=}")
    if length > limit:
        return -1.0
    return min(0.0, (limit - cache - length) / cache) if cache else 0.0


class OverlongReference(Reference):
    """Nothing: the limit is in the options."""


class OverlongOptions(Options):
    """Where the punishment begins and where it is full."""

    limit: int = Field(20480, ge=1)
    """The length at which, and beyond which, the punishment is -1 (DAPO: 20,480 tokens)."""
    cache: int = Field(4096, ge=1)
    """Length of the interval just below `limit` in which the punishment grows from 0 to -1 (DAPO: 4,096 tokens)."""
    unit: Unit = "auto"
    """Unit of length. `auto`: tokens if the completion has token ids, else words."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.cache > self.limit:
            raise ValueError(f"cache is {self.cache}, more than the limit of {self.limit}; it is the last part of the limit")
        return self


class OverlongEnvironment(BaseEnvironment[OverlongReference, OverlongOptions]):
    """Punishes length, from -1 to 0."""

    name = "overlong"
    version = "2"
    reference_type = OverlongReference
    options_type = OverlongOptions
    reward_range = (-1.0, 0.0)
    # A punishment: whatever is short enough gets the maximum, nothing at all included.
    expected_verdicts = ExpectedVerdicts(empty="free", echo="free", garbage="free", hacks="free")

    def examples(self) -> Sequence[Prompt]:
        """Return a sample task. Only the length of its completion is judged."""
        return (self.prompt("What is 2 + 2?"),)

    def gold(self, prompt: Prompt) -> str | None:
        """Return a short text, or None if the penalty begins at the first word."""
        return "4" if self.options.limit - self.options.cache >= 1 else None

    def judge(self, prompt: Prompt, reference: OverlongReference, completion: Completion) -> Score:
        """Count, and punish."""
        counted, unit = length(completion, self.options.unit)
        reward = soft_overlong(counted, self.options.limit, self.options.cache)
        status = Status.CORRECT if reward == 0 else Status.PARTIAL if reward > -1 else Status.INCORRECT
        reason = f"{counted} {unit}, limit {self.options.limit}"
        return Score(reward=reward, status=status, components={"length": float(counted)}, reason=reason)
