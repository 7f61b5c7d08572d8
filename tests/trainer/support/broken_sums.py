"""Running sums whose verifier is down."""

from __future__ import annotations

from typing import Any

from verigym.envs.errors import EnvironmentFailure
from verigym.envs.running_sums import RunningSumsEnvironment
from verigym.envs.schema import Completion, Prompt, Score


class BrokenSums(RunningSumsEnvironment):
    """Never gives a verdict."""

    name = "broken_sums"

    def judge(self, prompt: Prompt, reference: Any, completion: Completion) -> Score:
        """Fail."""
        raise EnvironmentFailure("backend", "down")
