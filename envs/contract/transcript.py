"""`Transcript`: an episode while it is being played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Message, Prompt, ScoreError, Turn
from verigym.envs.contract.session import Reply


class Transcript:
    """The turns of one episode so far, from which the episode's completion is made."""

    def __init__(self, prompt: Prompt) -> None:
        self.prompt = prompt
        self.turns: list[Turn] = []
        self.written = 0
        """The assistant's turns."""

    @property
    def messages(self) -> Sequence[Message]:
        """What the model has before its next turn."""
        return [*self.prompt.messages, *(turn.message for turn in self.turns)]

    def add(self, turn: Turn) -> None:
        """Add a turn of the model."""
        self.turns.append(turn)
        self.written += 1

    def replace_last(self, turn: Turn) -> None:
        """Replace the last turn by `turn`: the same text, but parsed by the session, which has added the tool calls."""
        self.turns[-1] = turn

    def answer(self, reply: Reply) -> None:
        """Append `reply`, the session's answer to the last turn.

        Raises:
            UsageError: a message of the reply has a role that the model does not read.
        """
        self.turns[-1] = self.turns[-1].model_copy(update={"reward": reply.reward})
        self.turns += [Turn(role=_reader(one), text=one.content, name=one.name) for one in reply.messages]

    def completion(
        self,
        reason: FinishReason,
        outcome: Mapping[str, JsonValue] | None,
        failure: ScoreError | None = None,
        token_ids: Sequence[int] | None = None,
    ) -> Completion:
        """Return the episode as a completion with the given finish `reason`, `outcome` and `failure`.

        `token_ids` are the tokens that the model wrote.
        """
        return Completion(
            text=next((turn.text for turn in reversed(self.turns) if turn.role == "assistant"), ""),
            token_ids=None if token_ids is None else tuple(token_ids),
            finish_reason=reason,
            turns=tuple(self.turns),
            outcome=outcome,
            failure=failure,
        )


def _reader(message: Message) -> Literal["tool", "user"]:
    if message.role == "tool":
        return "tool"
    if message.role == "user":
        return "user"
    raise UsageError(f"a session replied with a message of the role {message.role!r}; expected tool or user")
