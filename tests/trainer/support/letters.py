"""Environments for trainer tests: a reward that an untrained model earns half of the time, and ways of being broken."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pydantic import Field

from verigym.envs import BaseEnvironment, Completion, Options, Prompt, Reference, Score


class Nothing(Reference):
    """No fields: the reward looks at the text alone."""


class LettersEnvironment(BaseEnvironment[Nothing, Options]):
    """Right if the completion's characters add up to an even number: about half of all random texts."""

    name = "letters"
    version = "1"
    reference_type = Nothing

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.prompt(f"{split} {seed} {index}")

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        even = sum(map(ord, completion.text)) % 2 == 0
        return Score.correct() if even else Score.incorrect()


class BrokenOptions(Options):
    how: str = Field(default="raises", pattern="raises|hangs|nan|memory|kills|returns")


class BrokenEnvironment(LettersEnvironment):
    """Fails every time, in the way that `how` says."""

    name = "broken"
    options_type = BrokenOptions

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        how = self.options.how  # type: ignore[attr-defined]
        if how == "raises":
            raise RuntimeError("broken on purpose")
        if how == "hangs":
            time.sleep(3600)
        if how == "nan":
            return Score.partial(float("nan"))
        if how == "memory":
            return Score.correct(reason=str(len(bytearray(10 * 2**30))))
        if how == "kills":
            os.kill(os.getpid(), signal.SIGKILL)
        return None  # type: ignore[return-value]


class HeldEnvironment(LettersEnvironment):
    """Notes in the folder that the prompt names that it has begun to judge, and judges for longer than anybody waits."""

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        Path(prompt.text, "begun").touch()
        time.sleep(3600)
        return Score.correct()


class BuggyEnvironment(LettersEnvironment):
    """The first bug that everybody writes: its `judge` cannot read most texts, and its own gold it can."""

    name = "buggy"

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        return Score.correct() if int(completion.text) % 2 == 0 else Score.incorrect()

    def gold(self, prompt: Prompt) -> str:
        return "4"


class HardenedEnvironment(BuggyEnvironment):
    """The same, whose author says that only texts can make it raise."""

    name = "hardened"
    hardened = True
