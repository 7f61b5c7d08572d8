"""The `effort` environment: rewards thinking that stays within the budget of the effort asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.extraction.methods import strip_thinking
from verigym.envs.shaping.measure import Unit, count_words, length

Effort = Literal["low", "medium", "high"]


class EffortReference(Reference):
    """The effort that the prompt asks for."""

    effort: Effort
    """Which budget holds."""


class EffortOptions(Options):
    """The budgets, in `unit`."""

    low: int = Field(512, ge=1)
    """Most thinking at low effort."""
    medium: int = Field(2048, ge=1)
    """Most thinking at medium effort."""
    high: int = Field(8192, ge=1)
    """Most thinking at high effort."""
    at_least: float = Field(0.0, ge=0, lt=1, allow_inf_nan=False)
    """Minimum length of the thinking, as a fraction of the budget. Below it the reward falls linearly, to 0 at no thinking."""
    slack: float = Field(1.0, gt=0, allow_inf_nan=False)
    """Beyond the budget the reward falls linearly, to 0 at (1 + slack) times the budget."""
    unit: Unit = "auto"
    """Unit of length. `auto`: tokens if the completion has token ids, else words."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.medium < self.high:
            raise ValueError(f"budgets are low={self.low}, medium={self.medium}, high={self.high}; each must exceed the last")
        return self


class EffortEnvironment(BaseEnvironment[EffortReference, EffortOptions]):
    """Rewards thinking within its budget."""

    name = "effort"
    version = "2"
    reference_type = EffortReference
    options_type = EffortOptions
    # What was cut off has a length too; only nothing at all is no answer.
    expected_verdicts = ExpectedVerdicts(empty="free", echo="free", garbage="free", hacks="free")

    def examples(self) -> Sequence[Prompt]:
        """Return a task for each effort."""
        return tuple(
            self.prompt(f"Reasoning effort: {name}. What is 2 + 2?", effort=name) for name in ("low", "medium", "high")
        )

    def gold(self, prompt: Prompt) -> str:
        """Return a completion whose thinking fills the budget, counted in words or characters."""
        budget = self._budget(self.reference(prompt))
        return f"<think>{'a' * budget if self.options.unit == 'characters' else ' '.join(['so'] * budget)}</think>4"

    def judge(self, prompt: Prompt, reference: EffortReference, completion: Completion) -> Score:
        """Return the score of the thinking's length, measured against the budget.

        The thinking is all text before the last closing think tag. In tokens, its length is estimated from its share of the
        completion's characters, because only the tokenizer knows which tokens belong to it.
        """
        text = completion.text
        if not text.strip():
            return Score.no_answer(reason="the completion is empty")
        answer = strip_thinking(text)
        if answer is None and completion.cut_off:
            return Score.truncated(reason="cut off by the token limit while thinking")
        thinking = text[: len(text) - len(answer)] if answer is not None else text
        counted, unit = length(completion, self.options.unit)
        if unit == "words":
            counted = count_words(thinking)
        elif unit == "characters":
            counted = len(_inside(thinking))
        else:
            counted = round(counted * len(thinking) / len(text))
        budget = self._budget(reference)
        reward = self._reward(counted, budget)
        status = Status.CORRECT if reward == 1 else Status.PARTIAL if reward > 0 else Status.INCORRECT
        reason = f"{counted} {unit} of thinking, budget {budget} for {reference.effort} effort"
        return Score(reward=reward, status=status, components={"thinking": float(counted)}, reason=reason)

    def _budget(self, reference: EffortReference) -> int:
        return {"low": self.options.low, "medium": self.options.medium, "high": self.options.high}[reference.effort]

    def _reward(self, counted: int, budget: int) -> float:
        least = self.options.at_least * budget
        if counted < least:
            return counted / least
        return 1.0 if counted <= budget else max(0.0, 1 - (counted - budget) / (self.options.slack * budget))


def _inside(thinking: str) -> str:
    return thinking.strip().removeprefix("<think>").removesuffix("</think>")
