"""`Health`: watches whether a reward function gives any rewards, and whether its judge is broken."""

from __future__ import annotations

import warnings
from collections import deque

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Score, Status

LAST = 200
"""Completions by which the share of exceptions is measured."""
BROKEN_SHARE = 0.2
"""If a judge raises on more than this share of the last `LAST` completions, its exceptions are blamed on the judge, not the
texts."""
LEAST = 20
"""Completions before the share is looked at."""
UNREAD = 64
"""If this many rewarded completions, counted from the start, all have the status NO_ANSWER, a warning is given."""


class Health:
    """Counts the completions and failures of one reward function.

    Args:
        name: name of the reward function.
        stop_after: see `reward_function`.

    Raises:
        UsageError: `stop_after` is not a whole number above 0.
    """

    def __init__(self, name: str, stop_after: int | None) -> None:
        whole = isinstance(stop_after, int) and not isinstance(stop_after, bool)
        if stop_after is not None and not (whole and stop_after > 0):
            raise UsageError(f"{name}: stop_after={stop_after!r}: expected a whole number above 0, or None for never")
        self.name, self.stop_after = name, stop_after
        self.rewarded = 0
        """Completions with a reward."""
        self.unscored = 0
        """Completions without one because our side failed."""
        self.unusable = 0
        """Rows that could not be used."""
        self._silent = 0
        """Completions without a reward since the last that got one."""
        self._why = ""
        self.judge_exceptions = 0
        """Completions on which the judge raised, with a reward or without."""
        self._raised: deque[bool] = deque(maxlen=LAST)
        self._unread: int | None = 0
        """Number of rewarded completions, as long as all have the status NO_ANSWER; None after the first with an answer."""
        self._said = False

    def __repr__(self) -> str:
        raised = f", judge raised on {self.judge_exceptions}" if self.judge_exceptions else ""
        return f"<{self.name}: {self.rewarded} rewarded, {self.unscored} unscored, {self.unusable} unusable{raised}>"

    def reward(self, score: Score | None) -> float | None:
        """Count a completion and return its reward, or None if it has none. A `score` of None means an unusable row.

        If the judge raised on the completion, its score counts as long as such exceptions are rare. If the share of completions
        with an exception exceeds `BROKEN_SHARE`, the judge is to blame, and this completion gets no reward.
        """
        self._silent += 1
        if score is None:
            self.unusable += 1
            return None
        self.judge_exceptions += score.raised is not None
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
            return None
        self.rewarded += 1
        self._silent = 0
        if self._unread is not None:
            self._unread = self._unread + 1 if score.status is Status.NO_ANSWER else None
            if self._unread == UNREAD:
                warnings.warn(
                    f"{self.name}: none of the first {UNREAD} completions holds an answer that can be read ({score.reason}): "
                    "ask for its form in the prompt, or set the environment's options to the form that the model uses",
                    stacklevel=3,
                )
        return reward

    def refuse_silence(self, problems: list[str]) -> None:
        """Raise an error, and so stop the run, if no completion gets a reward any more.

        Args:
            problems: for each unusable row of this call, why it cannot be used.

        Raises:
            UsageError: `stop_after` completions in a row have got no reward.
        """
        if self.stop_after is not None and self._silent >= self.stop_after:
            raise UsageError(
                f"{self.name}: the last {self._silent} completions have got no reward: "
                f"{self._why or (problems or ['no reason'])[0]}. Training on would learn nothing; mend this, or set "
                "stop_after=None"
            )
