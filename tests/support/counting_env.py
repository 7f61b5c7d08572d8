"""An environment that counts how often it judges, takes its time, and can end its worker; for tests of the service."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pydantic import field_validator

from verigym import BaseEnvironment, Completion, Options, Prompt, Reference, Score


class Judged(Reference):
    """What the judge does with any completion."""

    log: str = ""
    """A file that gets a line for each time a completion is judged."""
    seconds: float = 0.0
    dies_once: str = ""
    """A file: where it does not exist, it is made, and the worker ends."""
    confuses: bool = False
    """Whether the environment has a bug that shows as soon as the item is read."""

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
        if reference.dies_once and not Path(reference.dies_once).exists():
            Path(reference.dies_once).touch()
            os._exit(9)
        return Score.correct(answer=completion.text) if completion.text else Score.incorrect()
