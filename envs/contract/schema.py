"""The values of the contract: `Prompt` (the task), `Completion` (what the model wrote) and `Score` (the verdict).

All are frozen pydantic models. `Score` refuses inconsistent states at construction, so no caller needs to check for them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SerializeAsAny, model_validator

from verigym.envs.contract.chat import completion_fields, message_fields

KEY_HEX_DIGITS = 32

Fault = Literal["json", "unclosed", "unknown", "schema"]
FinishReason = Literal["stop", "length", "turns", "context", "limit", "abort"]
ErrorKind = Literal["gold_invalid", "unavailable", "backend", "timeout", "crashed", "protocol", "internal"]


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of `value`: sorted keys and no spaces. NaN is an error."""
    return _ENCODER.encode(value)


def sha256_hex(text: str) -> str:
    """Return the hex SHA-256 of the UTF-8 bytes of `text`.

    A lone surrogate is hashed as its escape instead of raising an error.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Message(_Frozen):
    """One turn of a chat."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The tool that answers; only in messages of the role `tool`."""

    @model_validator(mode="after")
    def _tools_are_named(self) -> Self:
        if (self.name is not None) is not (self.role == "tool"):
            raise ValueError("messages of the role 'tool' have a name, the tool's, and no others do")
        return self


class Reference(_Frozen):
    """Base class of the data that a completion is judged against. Subclass it and declare typed fields."""


class Prompt(_Frozen):
    """A task: the messages for the model, and the reference of each environment that judges the completion."""

    messages: tuple[Message, ...] = Field(min_length=1)
    environment: str
    references: Mapping[str, SerializeAsAny[Reference]]
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    """Information on the task (data set, split, row, canary...). It never affects the verdict, so it is not part of `key`."""
    key: str = ""
    """First 32 hex digits of the sha256 of messages, environment and references; computed if left empty."""

    @model_validator(mode="after")
    def _fill_key(self) -> Self:
        try:
            if self.metadata:
                canonical_json(dict(self.metadata))
        except ValueError:
            raise ValueError("metadata holds nan or inf, which JSON cannot carry") from None
        content = {
            "messages": [m.model_dump() for m in self.messages],
            "environment": self.environment,
            "references": {part: ref.model_dump(mode="json") for part, ref in self.references.items()},
        }
        key = sha256_hex(canonical_json(content))[:KEY_HEX_DIGITS]
        if self.key and self.key != key:
            raise ValueError(f"key {self.key!r} does not belong to this prompt, whose content hashes to {key!r}")
        object.__setattr__(self, "key", key)
        return self

    @property
    def text(self) -> str:
        """The contents of all messages, one after the other."""
        return "\n".join(message.content for message in self.messages)


def as_messages(text: str | Sequence[Message | Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return `text` as messages: a string becomes one user message; dictionaries with `role` and `content` are converted.

    Raises:
        TypeError: `text` is neither a string nor a list of messages.
        ValueError: a message has no text, calls a tool, or has an unknown role.
    """
    if isinstance(text, str):
        return (Message(role="user", content=text),)
    if not isinstance(text, list | tuple):
        raise TypeError(f"a prompt is made of a text or a list of messages, not of {type(text).__name__}: {text!r:.80}")
    if not text:
        raise ValueError("a prompt is made of an empty list of messages; expected at least one")
    return tuple(
        message if isinstance(message, Message) else Message(**message_fields(message, f"message {place} of the prompt"))
        for place, message in enumerate(text)
    )


class ToolCall(_Frozen):
    """A call of a tool, as the model wrote it."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: str = ""
    arguments: Mapping[str, JsonValue] = Field(default_factory=dict)
    raw: str
    """The text of the call, without the tags around it."""
    fault: Fault | None = None
    """Why the call was not run: it is no JSON object with a name and arguments (json), has no closing tag (unclosed), names no
    tool of this episode (unknown), or its arguments violate the tool's schema (schema). None if the call is valid."""


class Turn(_Frozen):
    """One turn of an episode after the prompt: a text that the model wrote, or a reply that the model read."""

    model_config = ConfigDict(allow_inf_nan=False)

    role: Literal["assistant", "tool", "user"]
    text: str
    name: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The tool that replies; only in turns of the role `tool`."""
    calls: tuple[ToolCall, ...] = Field(default=(), exclude_if=lambda calls: not calls)
    """The tools that an assistant's turn calls, in order."""
    reward: float | None = Field(default=None, allow_inf_nan=False, exclude_if=lambda reward: reward is None)
    """Reward of an assistant's turn, if the session gives a reward for each turn; else None."""

    @model_validator(mode="after")
    def _parts_fit_the_role(self) -> Self:
        if (self.name is not None) is not (self.role == "tool"):
            raise ValueError("turns of the role 'tool' have a name, the tool's, and no others do")
        if self.role != "assistant" and (self.calls or self.reward is not None):
            raise ValueError(f"a turn of the role {self.role!r} has calls or a reward; only the assistant's turns have")
        return self

    @property
    def message(self) -> Message:
        """The turn as a message of a chat."""
        return Message(role=self.role, content=self.text, name=self.name)


class ScoreError(_Frozen):
    """The reason why a completion has no score. `retryable` says whether another try may succeed."""

    kind: ErrorKind
    message: str
    retryable: bool = False

    @classmethod
    def of(cls, kind: object, message: object, retryable: object) -> ScoreError:
        """Return the error that environments of users report.

        A kind that is unknown becomes `backend`, and the message names it: a failure that is reported wrongly is no reward.
        """
        kinds: tuple[ErrorKind, ...] = get_args(ErrorKind)
        known = next((one for one in kinds if one == kind), None)
        said = ": ".join(filter(None, ("" if known else str(kind), str(message))))
        note = "" if known else f" (kind {str(kind)!r:.80} is unknown; the kinds are {', '.join(kinds)})"
        return cls(kind=known or "backend", message=said + note, retryable=bool(retryable))


class Completion(_Frozen):
    """The text that the model wrote. Functions that take a Completion also accept a string or the messages of a chat.

    After an episode of several turns, `text` is the text of the assistant's last turn. Text that the model read, such as the
    results of tools, is in `turns` only, so an environment that judges `text` never rewards it.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    text: str
    token_ids: tuple[int, ...] | None = None
    finish_reason: FinishReason | None = None
    """What ended the completion. stop: the model. length: the token limit. abort: generation or the environment failed, or the
    run stopped it. Three more values occur only in episodes. turns: the limit of turns. context: the model's context was full.
    limit: a turn of the model crashed the session; `outcome` says why."""
    turns: tuple[Turn, ...] = Field(default=(), exclude_if=lambda turns: not turns)
    """All turns of an episode after the prompt; empty if the completion is a single answer."""
    outcome: Mapping[str, JsonValue] | None = Field(default=None, exclude_if=lambda outcome: outcome is None)
    """What the session recorded when it was closed, such as the state of a game."""
    failure: ScoreError | None = Field(default=None, exclude_if=lambda failure: failure is None)
    """Why the environment could not go on with the episode, or None. If set, every environment scores it as ERROR."""

    @model_validator(mode="after")
    def _text_is_the_last_turn(self) -> Self:
        if self.turns:
            last = next((turn.text for turn in reversed(self.turns) if turn.role == "assistant"), "")
            if last != self.text:
                raise ValueError(
                    f"text is {self.text!r:.60}, and the assistant's last turn {last!r:.60}; expected the same text"
                )
        return self

    @property
    def cut_off(self) -> bool:
        """Whether a limit ended it, and not the model."""
        return self.finish_reason in ("length", "turns", "context")

    @classmethod
    def of(cls, value: CompletionLike) -> Completion:
        """Return `value` as a Completion. `value` is a Completion, a text, or chat messages that end with the assistant's.

        Raises:
            TypeError: `value` has another type. This is a mistake of the caller, never of the model.
            ValueError: the messages do not hold exactly one text of the assistant.
        """
        if isinstance(value, Completion):
            return value
        if isinstance(value, str):
            return cls(text=value)
        if isinstance(value, list | tuple):
            return cls(**completion_fields([one.model_dump() if isinstance(one, Message) else one for one in value]))
        raise TypeError(f"a completion is a str, a Completion or a list of messages, not {type(value).__name__}: {value!r:.80}")

    @property
    def digest(self) -> str:
        """sha256, in hex, of everything that a verdict may depend on."""
        content: list[Any] = [self.text, self.token_ids, self.finish_reason]
        if self.turns or self.outcome is not None or self.failure is not None:
            episode = self.model_dump(mode="json", include={"turns", "outcome", "failure"})
            content.append(episode)
        return sha256_hex(canonical_json(content))


CompletionLike = Completion | str | Sequence[Mapping[str, Any]]
"""Anything that `Completion.of` accepts."""


class Status(StrEnum):
    """The kind of verdict. ERROR means that grading failed and there is no reward; every other status has a reward."""

    CORRECT = "correct"
    PARTIAL = "partial"
    INCORRECT = "incorrect"
    NO_ANSWER = "no_answer"
    TRUNCATED = "truncated"
    LIMIT = "limit"
    ERROR = "error"


class StepScore(_Frozen):
    """The reward of one reasoning step, the characters [start, end) of `completion.text`."""

    start: int = Field(ge=0)
    end: int = Field(ge=0)
    reward: float = Field(allow_inf_nan=False)
    reason: str = ""
    part: str = ""
    """In a composition's score, the name in `components` of the part that judged the step; otherwise empty."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.end < self.start:
            raise ValueError(f"a step ends at {self.end}, before its start {self.start}")
        return self


class Raised(_Frozen):
    """An exception that `judge` raised, or the way it ended its process.

    It shows a bug in the environment, even if the completion is blamed for it.
    """

    error: str
    """Type and message."""
    place: str
    """Where: `file.py:12 in judge`; `judge of NAME` where the process ended."""
    traceback: str = ""

    @property
    def cause(self) -> str:
        """Return the error's type and code location. All completions with the same type of error on the same line share it."""
        return f"{self.error.partition(':')[0]} at {self.place}"


Components = Mapping[str, float | None]
"""Numbers of a score by name."""


class Score(_Frozen):
    """A verdict. `reward` is None if and only if `status` is ERROR, and then `error` is set.

    Build a score with the named constructors, such as `Score.correct`. The base class of environments sets `grader` and
    `seconds`.
    """

    reward: float | None
    status: Status
    components: Components = Field(default_factory=dict)
    """Numbers by name, such as the terms of the reward; None for a number that could not be computed. All are logged, and the
    `reward_weights` of the algorithm gdpo name some of them. The reward is not computed from these numbers. In a composition's
    score, the reward of the part `math` has the name `math`, and the part's component `x` has the name `math/x`."""
    answer: str | None = None
    reason: str = ""
    steps: tuple[StepScore, ...] | None = None
    error: ScoreError | None = None
    raised: Raised | None = Field(default=None, exclude_if=lambda raised: raised is None)
    """The exception that `judge` raised, or how it ended its process; None if neither, or if the environment is `hardened`.
    The status says who is to blame: the completion if it is LIMIT, the environment if it is ERROR."""
    grader: str = ""
    seconds: float = 0.0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.require_consistent()
        return self

    def require_consistent(self) -> None:
        """Check what the class promises, also of a score that was made without validation (`model_copy`, `model_construct`).

        Raises:
            ValueError: reward, status and error do not go together, or a number is not finite.
            TypeError: reward or status is of another type.
        """
        if not isinstance(self.status, Status) or not isinstance(self.reward, float | int | None):
            raise TypeError(
                f"a score's status is a Status and its reward a number or None; got {self.status!r}, {self.reward!r}"
            )
        failed = self.status is Status.ERROR
        if (self.reward is None) is not failed or (self.error is not None) is not failed:
            raise ValueError(
                f"reward=None, status=error and error=... go together; got reward={self.reward}, "
                f"status={self.status.value}, error={self.error!r}"
            )
        for name, value in {"reward": self.reward, **self.components, "seconds": self.seconds}.items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; a score holds finite numbers only")
        parts = {step.part for step in self.steps or ()}
        if "" in parts and len(parts) > 1:
            raise ValueError(f"some steps name a part and others none: {sorted(parts)}; name the part of each step, or of none")
        for part in parts - {""}:
            if self.components.get(part) is None:
                raise ValueError(f"steps of the part {part!r}, whose reward is not in components ({sorted(self.components)})")

    @property
    def scored(self) -> bool:
        """Return whether this score has a reward, that is, its status is not ERROR."""
        return self.status is not Status.ERROR

    @classmethod
    def correct(
        cls, *, reward: float = 1.0, answer: str | None = None, reason: str = "", components: Components | None = None
    ) -> Score:
        """Full marks."""
        return cls(reward=reward, status=Status.CORRECT, answer=answer, reason=reason, components=components or {})

    @classmethod
    def partial(
        cls, reward: float, *, answer: str | None = None, reason: str = "", components: Components | None = None
    ) -> Score:
        """A reward between the floor and full marks."""
        return cls(reward=reward, status=Status.PARTIAL, answer=answer, reason=reason, components=components or {})

    @classmethod
    def incorrect(
        cls, *, reward: float = 0.0, answer: str | None = None, reason: str = "", components: Components | None = None
    ) -> Score:
        """An answer that is wrong."""
        return cls(reward=reward, status=Status.INCORRECT, answer=answer, reason=reason, components=components or {})

    @classmethod
    def no_answer(cls, *, reward: float = 0.0, reason: str = "", components: Components | None = None) -> Score:
        """No answer that could be judged."""
        return cls(reward=reward, status=Status.NO_ANSWER, reason=reason, components=components or {})

    @classmethod
    def truncated(cls, *, reward: float = 0.0, reason: str = "", components: Components | None = None) -> Score:
        """Cut off by the token limit before there was an answer."""
        return cls(reward=reward, status=Status.TRUNCATED, reason=reason, components=components or {})

    @classmethod
    def limit(
        cls, *, reward: float = 0.0, answer: str | None = None, reason: str = "", components: Components | None = None
    ) -> Score:
        """The submission ran past a limit or brought the grader down."""
        return cls(reward=reward, status=Status.LIMIT, answer=answer, reason=reason, components=components or {})

    @classmethod
    def failed(cls, kind: ErrorKind, message: str, *, retryable: bool = False) -> Score:
        """Return the score of a failure on our side, without a reward. `ScoreError.of` says what becomes of an unknown kind."""
        return cls.of_failure(ScoreError.of(kind, message, retryable))

    @classmethod
    def of_failure(cls, error: ScoreError) -> Score:
        """Return a score without a reward for `error`, a failure of the grading."""
        return cls(reward=None, status=Status.ERROR, reason=error.message, error=error)

    @classmethod
    def of_episode(cls, completion: Completion, floor: float, *, hardened: bool) -> Score | None:
        """Return the score of an episode that cannot be judged, or None if `completion` can be judged.

        If the environment failed during the episode, the score is an ERROR. If a turn of the model crashed its session, the
        reward is `floor`, and `raised` is set unless the environment is `hardened`.
        """
        if completion.failure is not None:
            return cls.of_failure(completion.failure)
        if completion.finish_reason == "limit":
            why = str((completion.outcome or {}).get("limit", "a turn ended its session"))
            raised = None if hardened else Raised(error=f"SessionLimit: {why}", place="a turn of the episode")
            return cls.limit(reward=floor, reason=why).model_copy(update={"raised": raised})
        return None
