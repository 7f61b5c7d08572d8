"""An environment that sleeps as long as its reference says."""

from __future__ import annotations

import time

from verigym import BaseEnvironment, Completion, Options, Prompt, Reference, Score


class Nap(Reference):
    """How long the judge sleeps."""

    seconds: float


class Sleeper(BaseEnvironment[Nap, Options]):
    """Right for every text, after a while."""

    name, version, reference_type = "sleeper", "1", Nap

    def judge(self, prompt: Prompt, reference: Nap, completion: Completion) -> Score:
        """Sleep."""
        time.sleep(reference.seconds)
        return Score.correct()

    def gold(self, prompt: Prompt) -> str:
        """Return any text."""
        return "text"
