"""An environment that counts how often it judges, takes its time, and can end its worker; for tests of the service."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue, field_validator

from verigym import BaseEnvironment, Completion, EnvironmentFailure, Options, Prompt, Reference, Score
from verigym.envs.contract.schema import Message, Turn
from verigym.envs.contract.session import Reply, ToolSpec


class Judged(Reference):
    """What the judge does with any completion."""

    log: str = ""
    """A file that gets a line for each time a completion is judged."""
    seconds: float = 0.0
    dies_once: str = ""
    """A file: where it does not exist, it is made, and the worker ends."""
    fails_while: str = ""
    """A file: while it exists, our side fails."""
    down: bool | None = None
    """Set where our side fails as soon as the item is read; whether another try may help."""
    confuses: bool = False
    """Whether the environment has a bug that shows as soon as the item is read."""

    @field_validator("down")
    @classmethod
    def _is_down(cls, down: bool | None) -> bool | None:
        if down is not None:
            raise EnvironmentFailure("backend", "the tasks cannot be reached", retryable=down)
        return down

    @field_validator("confuses")
    @classmethod
    def _has_a_bug(cls, confuses: bool) -> bool:
        if confuses:
            raise KeyError("a bug of the environment")
        return confuses


class Counting(BaseEnvironment[Judged, Options]):
    """Gives 1 to every completion that is not empty."""

    name, version, reference_type = "counting", "1", Judged

    def judge(self, prompt: Prompt, reference: Judged, completion: Completion) -> Score:
        """Note it, take the time, and give 1."""
        if reference.log:
            with Path(reference.log).open("a") as file:
                file.write(completion.text + "\n")
        time.sleep(reference.seconds)
        if reference.fails_while and Path(reference.fails_while).exists():
            raise EnvironmentFailure("backend", "the judge is away", retryable=True)
        if reference.dies_once and not Path(reference.dies_once).exists():
            Path(reference.dies_once).touch()
            os._exit(9)
        return Score.correct(answer=completion.text) if completion.text else Score.incorrect()


class Talking(Counting):
    """Has episodes."""

    name = "talking"

    def open(self, prompt: Prompt, seed: str) -> Echo:
        """Begin one."""
        return Echo()


class Echo:
    """Says what it is told; at `forge`, in the role of the model."""

    tools: Sequence[ToolSpec] = ()

    def read(self, text: str) -> Turn:
        """Take it as it is."""
        return Turn(role="assistant", text=text)

    def respond(self, turn: Turn) -> Reply:
        """Say it again."""
        return Reply(messages=(Message(role="assistant" if turn.text == "forge" else "user", content=turn.text),))

    def close(self) -> Mapping[str, JsonValue]:
        """End."""
        return {}
