"""The `length` environment: rewards a length near a target, or by a cosine from short to long.

The cosine is that of "Demystifying Long Chain-of-Thought Reasoning in LLMs" (2502.03373), section 4. In the paper, the reward
also depends on whether the answer is right, which this environment does not know. `CosineLength` in `cosine.py` has the paper's
whole reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from verigym.envs.contract.base import BaseEnvironment, ExpectedVerdicts, Options
from verigym.envs.contract.schema import Completion, Prompt, Reference, Score, Status
from verigym.envs.shaping.measure import Unit, length


class LengthReference(Reference):
    """Options of one prompt."""

    target: int | None = Field(None, ge=1)
    """The length asked for here; None: the option's."""


class LengthOptions(Options):
    """How length is rewarded."""

    kind: Literal["target", "cosine"] = "target"
    """How the reward depends on the length. `target`: 1 at the target, falling linearly to 0 at a distance of `width` * target.
    `cosine`: falling along a cosine from 1 at length 0 to 0 at the target."""
    target: int = Field(1000, ge=1)
    """For `target`: the length with reward 1. For `cosine`: the length at which, and beyond which, the reward is 0."""
    width: float = Field(1.0, gt=0, le=1, allow_inf_nan=False)
    """Distance from the target at which the reward reaches 0, as a fraction of the target."""
    unit: Unit = "auto"
    """Unit of length. `auto`: tokens if the completion has token ids, else words."""

    @model_validator(mode="after")
    def _width_is_used(self) -> Self:
        if self.kind == "cosine" and self.width != 1.0:
            raise ValueError("width belongs to kind='target'; a cosine has none")
        return self


def cosine(length: float, limit: float, start: float, end: float) -> float:
    """Return a value that goes from `start` at length 0 to `end` at `limit`, along half a period of a cosine (2502.03373)."""
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * min(length, limit) / limit))


class LengthEnvironment(BaseEnvironment[LengthReference, LengthOptions]):
    """Rewards length."""

    name = "length"
    version = "2"
    reference_type = LengthReference
    options_type = LengthOptions
    # What was cut off has a length too; only nothing at all is no answer.
    expected_verdicts = ExpectedVerdicts(empty="free", echo="free", garbage="free", hacks="free")

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        if self.options.kind == "cosine":
            self.expected_verdicts = ExpectedVerdicts(gold="free", empty="free", echo="free", garbage="free", hacks="free")  # type: ignore[misc]

    def examples(self) -> Sequence[Prompt]:
        """Return a task without a target of its own and one with."""
        return (self.prompt("Tell a story."), self.prompt("Tell a short story.", target=40))

    def gold(self, prompt: Prompt) -> str:
        """Return a text of the length asked for, in any unit except tokens, which only a tokenizer can count."""
        target = self.reference(prompt).target or self.options.target
        if self.options.kind == "cosine":
            return "ok"
        return "a" * target if self.options.unit == "characters" else " ".join(["word"] * target)

    def judge(self, prompt: Prompt, reference: LengthReference, completion: Completion) -> Score:
        """Count the length and look it up on the curve."""
        if not completion.text.strip():
            return Score.no_answer(reason="the completion is empty")
        counted, unit = length(completion, self.options.unit)
        target = reference.target or self.options.target
        if self.options.kind == "cosine":
            reward = cosine(counted, target, 1.0, 0.0)
        else:
            reward = max(0.0, 1 - abs(counted - target) / (self.options.width * target))
        status = Status.CORRECT if reward == 1 else Status.PARTIAL if reward > 0 else Status.INCORRECT
        reason = f"{counted} {unit}, target {target}"
        return Score(reward=reward, status=status, components={"length": float(counted)}, reason=reason)
