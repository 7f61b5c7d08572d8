"""Running sums in the studies of process rewards: their steps, whether a completion derives its sum, and steps paid alone."""

from __future__ import annotations

import re
from typing import cast

from pydantic import Field

from verigym.envs.contract.schema import Prompt
from verigym.envs.generated.running_sums import RunningSumsEnvironment as RunningSums
from verigym.envs.generated.running_sums import worked
from verigym.envs.process.environment import ProcessEnvironment, ProcessOptions
from verigym.envs.process.steps import Ends, Splitting

__all__ = ["STEPS", "RunningSums", "SumSteps", "derived", "worked"]

STEPS = (",", "</think>")
"""Texts after which a step ends."""


def derived(prompt: Prompt, text: str) -> bool:
    """Whether a completion's thoughts are the whole derivation, every step of it right, and nothing besides."""
    numbers = [int(digits) for digits in re.findall(r"\d+", prompt.text.partition("=")[0])]
    return text.startswith(f"<think>{worked(numbers)}</think>")


class SumStepsOptions(ProcessOptions):
    """How steps are judged, and of which tasks."""

    split: Splitting | Ends = STEPS
    """As in `process`, for the notation of these tasks."""
    largest: int = Field(default=30, ge=1, le=999)
    """As in `running_sums`."""
    modulus: int = Field(default=0, ge=0, le=99)
    """As in `running_sums`."""


class SumSteps(ProcessEnvironment):
    """The tasks of running sums, paid for their steps alone: the answer is not looked at."""

    name = "sum_steps"
    options_type = SumStepsOptions

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        """Return the running sum of that number."""
        options = cast(SumStepsOptions, self.options)
        sums = RunningSums(largest=options.largest, modulus=options.modulus)
        return self.prompt(sums.prompt_at(split, seed, index).messages)
