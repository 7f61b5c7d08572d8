"""`EpisodeRecord`: what the parent process keeps of an episode, enough to reopen its session in another worker process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Message, Prompt, Turn
from verigym.envs.contract.session import Reply

NOWHERE = -1
"""The life of a worker in which no session is open."""


@dataclass(frozen=True)
class Played:
    """A turn that was answered, and did not end the episode."""

    text: str
    turn: Turn
    reply: Reply


@dataclass(eq=False)
class EpisodeRecord:
    """An episode. Its worker's thread alone writes to it."""

    number: int
    prompt: Prompt
    seed: str
    played: list[Played] = field(default_factory=list)
    life: int = NOWHERE
    """The life of the worker in which its session is open."""
    opened: bool = False
    """Whether the session was opened before, so that opening it again counts as a replay."""
    used: float = 0.0
    """When its session was last used, by `time.monotonic`."""
    over: bool = False
    """Whether there are no more turns, by `outcome` or `failure`."""
    outcome: Mapping[str, JsonValue] | None = None
    failure: Exception | None = None

    def control(self, number: int) -> EpisodeRecord:
        """Return an episode of the same prompt, seed and turns."""
        return EpisodeRecord(number, self.prompt, self.seed, self.played, opened=True)


def played_before(turns: Sequence[Turn]) -> list[Played]:
    """Return `turns`, from a saved episode that has not ended, as `Played` turns: each turn of the model with its reply.

    Raises:
        UsageError: `turns` does not begin with a turn of the assistant, or ends with one.
    """
    found: list[Played] = []
    for place, turn in enumerate(turns):
        if turn.role == "assistant":
            bare = turn.model_copy(update={"reward": None})
            found.append(Played(turn.text, bare, Reply(reward=turn.reward)))
        elif not found:
            raise UsageError(
                f"turns: the first is of the role {turn.role!r}; expected the assistant's, which the others answer"
            )
        else:
            last = found[-1]
            message = Message(role=turn.role, content=turn.text, name=turn.name)
            reply = last.reply.model_copy(update={"messages": (*last.reply.messages, message)})
            found[-1] = Played(last.text, last.turn, reply)
        if turn.role == "assistant" and (place + 1 == len(turns) or turns[place + 1].role == "assistant"):
            raise UsageError(f"turns: turn {place}, the assistant's, has no reply; an episode goes on after a reply")
    return found
