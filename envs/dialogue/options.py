"""Options of the `dialogue` environment, and the fields with which its tasks describe the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from verigym.envs.contract.schema import Reference
from verigym.envs.judge.options import EndpointOptions

Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class UserReference(Reference):
    """What the user wants and knows. The policy sees none of it."""

    wants: Text
    """The user's goal, in a sentence or two that speak of "the user"."""
    knows: tuple[Text, ...] = ()
    """Facts that the user tells when asked for them."""
    manner: str = ""
    """How the user writes: short, impatient, in French."""


class DialogueOptions(EndpointOptions):
    """Options for the model that plays the user, the length of a conversation, and the judging."""

    asks: ClassVar[str] = "user simulator"

    verdict: str = "match"
    """The environment that judges, by name."""
    verdict_options: Mapping[str, JsonValue] = {}
    """Options of that environment."""
    judged: Literal["last", "conversation"] = "last"
    """What the judging environment reads: the assistant's last turn, or the whole conversation, which only `judge` can read."""
    most_messages: int = Field(8, ge=1)
    """Most messages that the user writes after the task's first message. The assistant's turn after them ends the episode."""
    max_chars: int = Field(8000, ge=100)
    """Most characters of a message to or from the user. A longer message is cut in the middle."""
    max_tokens: int = Field(512, ge=1)
    """Most tokens of a reply of the user's."""
    total_s: float = Field(25.0, gt=0)
    """Seconds of wall time for one user message, with all its requests and waits. Keep it below the limit of a turn, 30 s."""
    cache: str = ""
    """Path of a file that stores the user's replies, so that an episode can be replayed. If empty, a temporary file is used,
    which is removed with this environment."""
