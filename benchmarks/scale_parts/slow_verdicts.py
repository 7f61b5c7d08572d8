"""An environment whose verdicts take a while, without using a core: a judge on another machine. For `scale.py`."""

from __future__ import annotations

import hashlib
import random
import time

from pydantic import Field

from verigym import Completion, GeneratedTasks, Made, Options, Prompt, Reference, Score


class SlowOptions(Options):
    """Times."""

    least_s: float = Field(default=0.004, ge=0)
    """Shortest time of a verdict; how long one takes is drawn by the hash of the completion."""
    most_s: float = Field(default=0.04, ge=0)
    """Longest time of a verdict."""


class Nothing(Reference):
    """No fields."""


class SlowVerdicts(GeneratedTasks[Nothing, SlowOptions]):
    """Right or wrong by the hash of the text, after a while."""

    name, version, reference_type, options_type = "slow_verdicts", "1", Nothing, SlowOptions

    def make(self, rng: random.Random) -> Made:
        """Return a task of a few words."""
        return Made(" ".join(rng.choice(("ban", "der", "fist", "gox")) for _ in range(24)))

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        """Wait, then decide."""
        drawn = hashlib.sha256(completion.text.encode("utf-8", "replace")).digest()
        time.sleep(
            self.options.least_s + int.from_bytes(drawn[:4], "big") / 2**32 * (self.options.most_s - self.options.least_s)
        )
        return Score.correct() if drawn[4] % 2 else Score.incorrect()

    def gold(self, prompt: Prompt) -> None:
        """Return nothing: no text is known to be right."""
