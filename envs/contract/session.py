"""Episodes of several turns: `Session` answers what the model writes, and an `Interactive` environment opens sessions.

The verdict stays `env.score(prompt, completion)`, a pure function of the prompt and of the saved episode (`Completion.turns`
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
"""In `Prompt.metadata`: the tools of the prompt's episodes, as chat templates take them."""


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
    """What the model reads next: messages of the roles `tool` and `user`. Half surrogates become U+FFFD: no tokenizer takes
    them, so a model that has a tool repeat one would end its episode on our side."""
    done: bool = False
    """Whether the episode is over. If not, there is at least one message."""
    reward: float | None = Field(default=None, allow_inf_nan=False)
    """What the turn earned, where the environment gives rewards by turn."""

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
        """Return `text`, which the model wrote, as a turn that holds the tool calls in it. No text makes this method raise."""

    def respond(self, turn: Turn) -> Reply:
        """Return the reply to `turn`, a turn of the model.

        Raises:
            EnvironmentFailure: our side cannot go on. The episode then gets no reward.
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
            EnvironmentFailure: our side cannot begin.
        """


def opens_sessions(environment: object) -> bool:
    """Return whether `environment` has episodes.

    A wrapper, which can only open the sessions of the environments that it wraps, declares it itself.
    """
    return isinstance(environment, Interactive) and bool(getattr(environment, "opens_sessions", True))
