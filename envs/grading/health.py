"""`Health`: whether a reward function gives rewards at all, and whether its judge is broken."""

from __future__ import annotations

import warnings
from collections import deque

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score

LAST = 200
"""Completions by which the share of exceptions is measured."""
BROKEN_SHARE = 0.2
"""Where a judge raises on more than this share, its exceptions are its own and not the texts'."""
LEAST = 20
"""Completions before the share is looked at."""


class Health:
    """Counts of one reward function.

    Args:
        name: of the function.
        stop_after: see `reward_function`.
    """

    def __init__(self, name: str, stop_after: int | None) -> None:
        self.name, self.stop_after = name, stop_after
        self.rewarded = 0
        """Completions with a reward."""
        self.unscored = 0
        """Completions without one because our side failed."""
        self.unusable = 0
        """Rows that could not be used."""
        self._why = ""
        self._raised: deque[bool] = deque(maxlen=LAST)
        self._said = False

    def reward(self, score: Score | None) -> float | None:
        """Count a completion, and return its reward; a score of None is that of a row that cannot be used.

        An exception of the judge is held against the text where it is rare, and against the judge where it is not.
        """
        if score is None:
            self.unusable += 1
            return None
        self._raised.append(score.raised is not None)
        reward = score.reward
        if score.raised is not None and len(self._raised) >= LEAST and sum(self._raised) > BROKEN_SHARE * len(self._raised):
            reward = None
            self._why = f"{score.raised.error} in {score.raised.place}"
            if not self._said:
                self._said = True
                warnings.warn(
                    f"{self.name}: its judge raises on {sum(self._raised)} of the last {len(self._raised)} completions, which "
                    f"get no reward from here on: {self._why}",
                    stacklevel=3,
                )
        if reward is None:
            self.unscored += 1
            self._why = self._why if score.error is None else score.error.message
        else:
            self.rewarded += 1
        return reward

    def refuse_silence(self, problems: list[str]) -> None:
        """End a run that trains on nothing.

        Args:
            problems: of rows in this call that could not be used.

        Raises:
            UsageError: none of the first `stop_after` completions has got a reward.
        """
        silent = self.unscored + self.unusable
        if self.stop_after is not None and not self.rewarded and silent >= self.stop_after:
            raise UsageError(
                f"{self.name}: none of {silent} completions has got a reward: {self._why or (problems or ['no reason'])[0]}. "
                "Training on would learn nothing; mend this, or set stop_after=None"
            )
