"""Models of the requests and responses. Requests are validated strictly: no type coercion, no unknown fields."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema, model_validator

from verigym.envs.contract.schema import Completion, Message, Score, ScoreError, ToolCall, Turn
from verigym.envs.contract.session import ToolSpec
from verigym.serve.problems import ProblemBody

KEY = r"^[!-~]{1,200}$"
"""An idempotency key: visible ASCII."""
MAX_INDEX = 2**53 - 1
"""The largest whole number that every JSON reader keeps."""


def _whole(value: object) -> object:
    """Return 3.0, which JSON does not tell from 3, as a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False)


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ChatMessage(_Request):
    """A message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class GeneratedTask(_Request):
    """A task that the environment generates."""

    split: Literal["train", "test"] = "train"
    seed: Whole = Field(default=0, ge=0, le=MAX_INDEX)
    index: Whole = Field(ge=0, le=MAX_INDEX)


class _Task(_Request):
    environment: str
    """Which of the served ones; `GET /environments` lists them."""
    prompt: str | Annotated[list[ChatMessage], Field(json_schema_extra={"minItems": 1})] | None = None
    """What the model was asked: a text, or messages."""
    reference: dict[str, JsonValue] | None = None
    """What the environment judges by; its fields are listed by `GET /environments`."""
    task: GeneratedTask | None = None
    """In place of prompt and reference: a task that the environment generates."""

    @model_validator(mode="after")
    def _one_task(self) -> _Task:
        for name in sorted(self.model_fields_set & {"prompt", "reference", "task"}):
            if getattr(self, name) is None:
                raise ValueError(f"{name}: null; leave it out where there is none")
        if self.prompt == []:
            raise ValueError("prompt: an empty list; expected a text, or at least one message")
        if (self.prompt is None) is (self.task is None):
            given = "neither" if self.prompt is None else "both"
            raise ValueError(f"either prompt, with reference, or task names what is to be done; got {given}")
        if self.task is not None and self.reference is not None:
            raise ValueError("reference belongs to prompt; a generated task has its own")
        return self


_COMPLETION_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "object"}, "description": "Messages of a chat, the last the assistant's."},
        {"type": "object", "description": "A completion or an episode, as `Completion.model_dump` writes it."},
    ]
}
CompletionField = Annotated[
    str | list[dict[str, JsonValue]] | dict[str, JsonValue], WithJsonSchema(_COMPLETION_SCHEMA, mode="validation")
]


class ScoreRequest(_Task):
    """One item to be graded."""

    completion: CompletionField
    """What the model wrote: a text, messages, or a completion as JSON, such as a saved episode."""


class BatchItem(ScoreRequest):
    """One item of a batch."""

    id: str | None = Field(default=None, max_length=200)
    """Comes back with the answer."""
    key: str | None = Field(default=None, pattern=KEY)
    """Idempotency key of the item."""


class OpenEpisode(_Task):
    """An episode to be begun."""

    seed: str = Field(default="0", max_length=200)
    """Randomness of the session is keyed by it."""
    max_turns: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    """Maximum number of the model's turns; by default, and at most, the limit of the service."""
    turns: list[dict[str, JsonValue]] | None = None
    """Turns of a saved episode that has not ended, as in `Completion.turns`; the new episode continues after them."""


class PlayTurn(_Request):
    """The model's next text."""

    turn: Whole = Field(ge=0, le=MAX_INDEX)
    """Number of the turn, from 0. A turn that was already answered gets the same answer again and is not played twice."""
    text: str


class EndEpisode(_Request):
    """How the model's side ended an episode that was not over."""

    finish_reason: Literal["length", "turns", "context"] = "turns"
    """Why the model stopped, if the episode is not over by itself. A repeated request must give the same value."""


class BatchAnswer(_Response):
    """One line of a batch's answer."""

    index: int
    """Position of the item in the request, from 0."""
    id: str | None = None
    """The item's id, where it has one."""
    score: Score | None = None
    """The verdict; its reward is null where our side failed."""
    problem: ProblemBody | None = None
    """Why there is none: the item does not fit its environment, or, with the error `unavailable`, the service stopped before it
    was graded, and it should be sent again."""


class OpenedEpisode(_Response):
    """A new episode."""

    episode: str
    """Its id. Whoever knows it may play it."""
    environment: str
    messages: tuple[Message, ...]
    """What the model reads first, with the turns that were given."""
    tools: tuple[ToolSpec, ...]
    turn: int
    """The number of the next turn."""
    max_turns: int


class EpisodeState(_Response):
    """An episode as it stands."""

    episode: str
    environment: str
    messages: tuple[Message, ...]
    """All so far."""
    turn: int
    done: bool
    """Whether there are no more turns."""


class TurnReply(_Response):
    """What the session answered to a turn."""

    turn: int
    calls: tuple[ToolCall, ...] = ()
    """The tools that the turn called."""
    messages: tuple[Message, ...] = ()
    """What the model reads next."""
    done: bool
    """Whether there are no more turns."""
    reward: float | None = None
    """Reward of this turn, if the environment gives rewards by turn; else null."""
    limit: str | None = None
    """Why the model's turn made the session fail, for example by a timeout; null if it did not. Such an episode gets the lowest
    reward."""
    failure: ScoreError | None = None
    """Set where our side cannot go on. The episode gets no reward."""


class EndedEpisode(_Response):
    """An episode that is over, and its verdict."""

    completion: Completion
    score: Score


class ServedEnvironment(_Response):
    """An environment that is served."""

    name: str
    grader: str
    """Name, version and hash of the options, as on every score."""
    description: str
    interactive: bool
    """Whether it has episodes."""
    generates_tasks: bool
    """Whether `task` may name one of its own."""
    reward_range: tuple[float, float]
    reference: dict[str, Any]
    """JSON schema of `reference`."""


class EnvironmentList(_Response):
    """What is served."""

    environments: tuple[ServedEnvironment, ...]


class Health(_Response):
    """Whether the process answers, or takes work."""

    status: Literal["ok", "ready", "starting", "draining"]


def turns_of(given: list[dict[str, JsonValue]]) -> list[Turn]:
    """Return the turns of a saved episode. A pydantic ValidationError is passed on to the caller."""
    return [Turn.model_validate(one) for one in given]
