"""The `repetition` environment: penalises repeated n-grams, after 2502.03373, section 4.4.

The punishment is the share of n-grams that repeat an earlier one, `1 - distinct / all`, times `worst`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.shaping.measure import words


class RepetitionReference(Reference):
    """Nothing: what repetition is worth is in the options."""


class RepetitionOptions(Options):
    """What is compared."""

    n: int = Field(4, ge=1, le=1000)
    """Number of words or tokens in an n-gram. Ordinary text often repeats pairs of words, but seldom four words in a row."""
    worst: float = Field(-1.0, lt=0, allow_inf_nan=False)
    """The punishment that nothing but repetition nears."""
    unit: Literal["words", "tokens"] = "words"
    """What an n-gram consists of: words (each character of Chinese, Japanese, Thai... is one) or the completion's token ids."""


class RepetitionEnvironment(BaseEnvironment[RepetitionReference, RepetitionOptions]):
    """Punishes repetition, from `worst` to 0."""

    name = "repetition"
    version = "2"
    reference_type = RepetitionReference
    options_type = RepetitionOptions
    # A punishment: what repeats nothing gets the maximum, nothing at all included.
    expected_verdicts = ExpectedVerdicts(empty="free", echo="free", garbage="free", hacks="free")

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.reward_range = (self.options.worst, 0.0)  # type: ignore[misc]

    def examples(self) -> Sequence[Prompt]:
        """Return a sample task. Only the repetition in its completion is judged."""
        return (self.prompt("Count to five."),)

    def gold(self, prompt: Prompt) -> str:
        """Return a text that repeats nothing."""
        return "one two three four five"

    def judge(self, prompt: Prompt, reference: RepetitionReference, completion: Completion) -> Score:
        """Count the n-grams and the distinct ones."""
        units: Sequence[object]
        if self.options.unit == "words":
            units = words(completion.text)
        elif completion.token_ids is not None:
            units = completion.token_ids
        else:
            raise EnvironmentFailure(
                "unavailable", "unit='tokens', but the completion carries no token_ids; give them, or use unit='words'"
            )
        n = self.options.n
        total = len(units) - n + 1
        if total < 1:
            return Score(
                reward=0.0, status=Status.CORRECT, components={"repeated": 0.0}, reason=f"fewer than {n} {self.options.unit}"
            )
        distinct = len(set(zip(*(units[start:] for start in range(n)), strict=False)))
        repeated = 1 - distinct / total
        reward = self.options.worst * repeated
        status = Status.CORRECT if distinct == total else Status.PARTIAL
        reason = f"{total - distinct} of {total} {n}-grams repeat an earlier one"
        return Score(reward=reward or 0.0, status=status, components={"repeated": repeated}, reason=reason)
