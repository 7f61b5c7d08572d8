"""The reward of both sides. Grading processes import this file, so it imports no torch."""

from __future__ import annotations

import time

from verigym import BaseEnvironment, Completion, Options, Prompt, Reference, Score


class Nothing(Reference):
    """No fields: the reward looks at the text alone."""


class Parity(BaseEnvironment[Nothing, Options]):
    """Right if the characters add up to an even number: about half of all random texts, at next to no cost."""

    name, version, reference_type = "parity", "1", Nothing
    wait_s = 0.0

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        """Wait, where asked, then look."""
        if self.wait_s:
            time.sleep(self.wait_s)
        return Score.correct() if parity(completion.text) else Score.incorrect()


class Waiting(Parity):
    """Takes 50 ms a completion without using a core, as a verifier does that asks a sandbox or a server."""

    name = "waiting"
    wait_s = 0.05


def parity(text: str) -> bool:
    """The reward of both sides."""
    return sum(map(ord, text)) % 2 == 0
