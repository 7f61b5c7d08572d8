"""Answers of a worker to requests. They are validated, because the worker handles untrusted text and is not trusted."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from verigym.envs.contract.blame import OURS, describe, raised_by
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import ErrorKind, Raised, Turn
from verigym.envs.contract.session import Reply


class Failure(BaseModel):
    """An exception of a session, as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ErrorKind
    message: str
    retryable: bool = False
    raised: Raised | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return `error`, which a session raised, as a Failure.

        An EnvironmentFailure keeps its kind, an exception in `OURS` becomes a back-end failure, and any other exception a bug.
        """
        if isinstance(error, EnvironmentFailure):
            return cls(kind=error.kind, message=error.message, retryable=error.retryable, raised=error.raised)
        ours = isinstance(error, OURS)
        message = describe(error) if ours else f"the session raised {describe(error)}"
        return cls(kind="backend" if ours else "internal", message=message, retryable=ours, raised=raised_by(error))

    def error(self) -> EnvironmentFailure:
        """Return it as the exception that it was."""
        return EnvironmentFailure(self.kind, self.message, retryable=self.retryable, raised=self.raised)


class Said(BaseModel):
    """The answer of a worker to one request. Which fields are set depends on the request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: int
    turn: Turn | None = None
    reply: Reply | None = None
    outcome: dict[str, JsonValue] | None = None
    """What the session recorded, if this request has closed it."""
    failure: Failure | None = None
    """Why the request was not answered. The session is closed."""
    problem: str = ""
    """What went wrong and changes nothing for the episode."""
    down: str = ""
    """Why the worker process cannot go on, for example for lack of memory: it is then replaced. Empty if it can go on."""
    retire: bool = False
    """Whether the process is short of memory and should be replaced before the next turn."""

    def answers(self, op: str) -> bool:
        """Return whether it holds what such a request asks for."""
        if op == "close":
            return self.outcome is not None
        return op != "turn" or (
            self.turn is not None and self.reply is not None and (self.outcome is not None) is self.reply.done
        )
