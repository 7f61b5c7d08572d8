"""Results of a turn in a worker: `Answer`, or the exception `SessionLimit` if the model's turn brought its session down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from verigym.envs.contract.schema import Turn
from verigym.envs.contract.session import Reply


@dataclass(frozen=True)
class Answer:
    """What a session made of one text of the model."""

    turn: Turn
    """The text as the session read it."""
    reply: Reply
    outcome: Mapping[str, JsonValue] | None = None
    """What the session recorded, if the reply is the last one (the session is then closed at once); otherwise None."""


class SessionLimit(Exception):
    """A turn of the model crashed its session twice, while a control session without that turn survived.

    The episode ends with the finish reason `limit` and the outcome `{"limit": MESSAGE}`, and scores the floor.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
