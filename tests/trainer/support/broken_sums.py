"""Running sums whose verifier is down."""

from __future__ import annotations

from typing import Any

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.generated.running_sums import RunningSumsEnvironment


class BrokenSums(RunningSumsEnvironment):
    """Never gives a verdict."""

    name = "broken_sums"

    def judge(self, prompt: Prompt, reference: Any, completion: Completion) -> Score:
        """Fail."""
        raise EnvironmentFailure("backend", "down")
