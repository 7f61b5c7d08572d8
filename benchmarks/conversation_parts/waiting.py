"""An environment that replies to every turn after a while, for `turns.py`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

from pydantic import Field

from verigym import BaseEnvironment, Completion, Message, Options, Prompt, Reference, Reply, Score, Turn

WORDS = [f"{first}{second}" for first in ("ba", "de", "fi", "go", "hu", "ka", "le", "mo") for second in ("n", "r", "st", "x")]


def words(count: int, *key: object) -> str:
    """Return so many words, drawn by the hash of a key."""
    seed = "/".join(map(str, key))
    drawn = (hashlib.sha256(f"{seed}/{number}".encode()).digest()[0] for number in range(count))
    return " ".join(WORDS[number % len(WORDS)] for number in drawn)


class WaitingOptions(Options):
    """Sizes and times."""

    prompt_words: int = Field(default=150, ge=1)
    """Words of a task."""
    reply_words: int = Field(default=50, ge=1)
    """Words of a reply."""
    turns: int = Field(default=6, ge=1)
    """Turns of an episode."""
    least_s: float = Field(default=0.0, ge=0)
    """Shortest time of a reply; how long it takes is drawn by hash."""
    most_s: float = Field(default=0.0, ge=0)
    """Longest time of a reply."""


class Nothing(Reference):
    """No fields."""


class WaitingSession:
    """Replies with words, whatever it is told."""

    tools = ()

    def __init__(self, options: WaitingOptions, seed: str) -> None:
        self.options, self.seed, self.said = options, seed, 0

    def read(self, text: str) -> Turn:
        """Return the turn as it is."""
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        """Reply after a while that depends on the episode and the turn alone."""
        self.said += 1
        options = self.options
        share = int(hashlib.sha256(f"{self.seed}/{self.said}".encode()).hexdigest()[:8], 16) / 2**32
        time.sleep(options.least_s + share * (options.most_s - options.least_s))
        if self.said == options.turns:
            return Reply(done=True)
        return Reply(messages=(Message(role="user", content=words(options.reply_words, self.seed, self.said)),))

    def close(self) -> Mapping[str, int]:
        """Return how often it replied."""
        return {"replies": self.said}


class WaitingEnvironment(BaseEnvironment[Nothing, WaitingOptions]):
    """Right where an episode came to its last turn."""

    name, version, reference_type, options_type = "waiting", "1", Nothing, WaitingOptions

    def open(self, prompt: Prompt, seed: str) -> WaitingSession:
        """Begin an episode."""
        return WaitingSession(self.options, seed)

    def judge(self, prompt: Prompt, reference: Nothing, completion: Completion) -> Score:
        """Count turns."""
        own = sum(turn.role == "assistant" for turn in completion.turns)
        return Score.correct() if own == self.options.turns else Score.incorrect()
