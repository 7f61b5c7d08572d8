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
    """What it judges: the assistant's last turn, or the whole conversation, which is for `judge` alone."""
    most_messages: int = Field(8, ge=1)
    """Messages that the user writes after the first, which is the task's. The assistant's next turn is the last."""
    max_chars: int = Field(8000, ge=100)
    """A longer text is cut in the middle when it is shown to the user or comes from the user."""
    max_tokens: int = Field(512, ge=1)
    """Most tokens of a reply of the user's."""
    total_s: float = Field(25.0, gt=0)
    """Wall time of one message of the user's with all its requests and waits. Keep it below the time limit of a turn, 30."""
    cache: str = ""
    """A file that keeps the user's replies by all that they depend on, so that an episode can be replayed; empty for one that
    lives as long as this environment."""
