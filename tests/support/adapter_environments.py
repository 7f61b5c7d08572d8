"""Environments for the adapters' tests: one whose judge fails on every other text, and tools that fail on our side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from verigym.envs import BaseEnvironment, Completion, EnvironmentFailure, Options, Prompt, Reference, Score
from verigym.envs.contract.schema import sha256_hex
from verigym.tools import tool

MIXTURE: Mapping[str, Any] = {
    "sources": [
        {"environment": "arithmetic", "options": {"digits": 1}, "name": "sums"},
        {"environment": "units", "format": {"boxes": 1}},
        {"environment": "adapter_environments:Half", "name": "half"},
    ]
}
WITH_TOOLS: Mapping[str, Any] = {
    "sources": [
        {"environment": "arithmetic", "options": {"digits": 2}, "tools": {"calculator": {}}, "name": "tools"},
        {"environment": "arithmetic", "options": {"digits": 1}, "tools": {"adapter_environments:away": {}}, "name": "away"},
        {"environment": "arithmetic", "options": {"digits": 1}, "name": "plain"},
    ]
}


class Nothing(Reference):
    """There is nothing to know."""


class Half(BaseEnvironment[Nothing, Options]):
    """A number that depends on the text alone, or no verdict for half of all texts."""

    name, version, reference_type, options_type = "half", "1", Nothing, Options
    reward_range = (0.0, 1.0)

    def prompt_at(self, split: str, seed: int, index: int) -> Prompt:
        return self.prompt(f"Say anything ({index}).")

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        number = int(sha256_hex(completion.text)[:8], 16)
        if number % 2:
            raise EnvironmentFailure("backend", "half of all texts fail")
        return Score.partial(number / 2**32)

    def gold(self, prompt: Prompt) -> str | None:
        return next(text for text in map(str, range(100)) if int(sha256_hex(text)[:8], 16) % 2 == 0)


class Raises(BaseEnvironment[Nothing, Options]):
    """Its judge raises on one text, which is held against the text until it is too often."""

    name, version, reference_type, options_type = "raises", "1", Nothing, Options

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        if completion.text == "raise":
            raise ZeroDivisionError
        return Score.correct()


class Hangs(BaseEnvironment[Nothing, Options]):
    """Never ends on one text, and pays for every other."""

    name, version, reference_type, options_type = "hangs", "1", Nothing, Options

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        while completion.text == "hang":
            time.sleep(1)
        return Score.correct()

    def gold(self, prompt: Prompt) -> str | None:
        return "anything"


@tool
def away(number: int, unit: str = "m") -> str:
    """Ask a server that is away.

    Args:
        number: how many.
        unit: of what.
    """
    raise EnvironmentFailure("unavailable", "the server is away")
