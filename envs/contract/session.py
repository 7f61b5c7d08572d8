"""Episodes of several turns: a `Session` replies to the model's turns, and an `Interactive` environment opens sessions.

The verdict is still `env.score(prompt, completion)`. It depends only on the prompt and the saved episode (`Completion.turns`
and `Completion.outcome`), so an episode can be graded again without its session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from verigym.envs.contract.schema import Message, Prompt, Turn


class ToolSpec(BaseModel):
    """A tool as the model is told of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    description: str = Field(min_length=1)
    parameters: Mapping[str, JsonValue]
    """JSON schema of the arguments, an object."""

    def for_template(self) -> dict[str, Any]:
        """Return the form that chat templates take in `tools=`."""
        return {"type": "function", "function": self.model_dump(mode="json")}


TOOLS = "tools"
"""Key in `Prompt.metadata` of the tools that the prompt's episodes offer, in the format of chat templates."""


def with_tools(prompt: Prompt, tools: Sequence[ToolSpec]) -> Prompt:
    """Return `prompt` with the `tools` of its episodes added, so that a chat template can describe them to the model.

    The tools are stored in the metadata; the verdict and the prompt's key do not depend on them.
    """
    metadata = {**prompt.metadata, TOOLS: [tool.for_template() for tool in tools]}
    return prompt.model_copy(update={"metadata": metadata})


class Reply(BaseModel):
    """What a session answers to a turn of the model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[Message, ...] = ()
    """What the model reads next: messages of the roles `tool` and `user`. Lone surrogates become U+FFFD, since no tokenizer
    accepts them. Without this, a model could make a tool repeat a lone surrogate, and the episode would end in an error."""
    done: bool = False
    """Whether the episode is over. If not, there is at least one message."""
    reward: float | None = Field(default=None, allow_inf_nan=False)
    """Reward of the turn, if the environment gives a reward for each turn; else None."""

    @field_validator("messages")
    @classmethod
    def _can_be_encoded(cls, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(map(_encodable, messages))


def _encodable(message: Message) -> Message:
    try:
        message.content.encode()
    except UnicodeEncodeError:
        text = message.content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return message.model_copy(update={"content": text})
    return message


class Session(Protocol):
    """The environment's side of one episode: it reads the model's turns and replies to them.

    A session is opened, used and closed once, so no state passes between episodes.
    """

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""

    def read(self, text: str) -> Turn:
        """Return the model's `text` as a turn, with the tool calls that the text contains. No text makes this method raise."""

    def respond(self, turn: Turn) -> Reply:
        """Return the reply to `turn`, a turn of the model.

        Raises:
            EnvironmentFailure: the environment cannot go on. The episode then gets no reward.
        """

    def close(self) -> Mapping[str, JsonValue]:
        """End the episode and return its outcome, which becomes `Completion.outcome`.

        Calling it again has no further effect.
        """


@runtime_checkable
class Interactive(Protocol):
    """An environment with episodes."""

    def open(self, prompt: Prompt, seed: str) -> Session:
        """Return the session of a new episode on `prompt`. The same prompt, seed and turns give the same replies.

        Raises:
            UsageError: the prompt was made by another environment.
            EnvironmentFailure: the environment cannot begin an episode.
        """


def opens_sessions(environment: object) -> bool:
    """Return whether `environment` has episodes.

    An environment with a method `open` has episodes, unless its attribute `opens_sessions` is false. Wrappers need that
    attribute: they always have `open`, but the environment inside may have no episodes.
    """
    return isinstance(environment, Interactive) and bool(getattr(environment, "opens_sessions", True))
