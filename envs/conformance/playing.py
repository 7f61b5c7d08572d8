"""Plays episodes in the process that runs the checked environment, and records how its sessions behave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, JsonValue

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Completion, Prompt, Turn
from verigym.envs.contract.session import Reply, Session
from verigym.envs.contract.transcript import Transcript

T = TypeVar("T")

LATE = "The session is closed."
"""What a closed session is asked."""


class Play(BaseModel):
    """The model's part in an episode."""

    prompt: dict[str, Any]
    """JSON form of the task."""
    texts: tuple[str, ...]
    """Texts of the model's turns, in order. Turns after the end of the episode are not played."""
    seed: str = "check"


class Played(BaseModel):
    """What came of it."""

    completion: dict[str, Any] | None = None
    """JSON form of the episode, as far as it went."""
    tools: tuple[str, ...] = ()
    """The session's tools."""
    problem: str = ""
    """The session's first violation of the contract, or empty: which call raised an exception or returned an invalid value."""
    altered: str = ""
    """The first turn that `read` gave another role or text."""
    closed_again: str = ""
    """What the second call of `close` did, such as raise an exception; empty if it returned the same as the first call."""
    after_close: str = ""
    """What a turn after closing got, where that is no UsageError."""
    score: dict[str, Any] | None = None
    """The verdict, made in the process that played the episode, in the form that `client.outcome_of` reads; None without an
    episode."""


class _Broken(Exception):
    """The session did something that it must not."""


class _Player:
    """One of the episodes that are played at the same time."""

    def __init__(self, environment: Any, prompt: Prompt, play: Play) -> None:
        self._transcript, self._left = Transcript(prompt), list(reversed(play.texts))
        self.played = Played()
        self._session: Session | None = None
        self._ended = False
        try:
            self._session = _call("open()", lambda: environment.open(prompt, play.seed))
            self.played.tools = tuple(_call("tools", lambda: [tool.name for tool in self.session.tools]))
        except _Broken as broken:
            self._stop(broken)

    @property
    def session(self) -> Session:
        """The session, which is open."""
        assert self._session is not None
        return self._session

    @property
    def over(self) -> bool:
        """Whether the session ended the episode, broke its contract, or there is nothing left to say."""
        return self._ended or bool(self.played.problem) or not self._left

    def turn(self) -> None:
        """Play one turn."""
        text = self._left.pop()
        try:
            turn = _call("read()", lambda: self.session.read(text))
            if not isinstance(turn, Turn):
                raise _Broken(f"read() returned {type(turn).__name__} instead of a Turn")
            if (turn.role, turn.text) != ("assistant", text) and not self.played.altered:
                self.played.altered = f"read() made a turn of the role {turn.role!r} with the text {turn.text[:80]!r}"
            self._transcript.add(turn)
            reply = _call("respond()", lambda: self.session.respond(turn))
            if not isinstance(reply, Reply):
                raise _Broken(f"respond() returned {type(reply).__name__} instead of a Reply")
            if not reply.done and not reply.messages:
                raise _Broken("respond() returned a Reply that neither ends the episode nor has a message")
            _call("respond()", lambda: self._transcript.answer(reply))
            self._ended = reply.done
        except _Broken as broken:
            self._stop(broken)

    def finish(self) -> Completion | None:
        """Close the session twice, ask it once more, and return the episode."""
        if self._session is None:
            return None
        try:
            outcome = _call("close()", self.session.close)
            episode = _call(
                "the outcome of close()",
                lambda: self._transcript.completion("stop" if self._ended else "turns", _mapping(outcome)),
            )
        except _Broken as broken:
            self._stop(broken)
            return None
        self.played.completion = episode.model_dump(mode="json")
        try:
            again = _call("close()", self.session.close)
            self.played.closed_again = (
                "" if again == outcome else f"the second outcome is {again!r:.80}, the first {outcome!r:.80}"
            )
        except _Broken as broken:
            self.played.closed_again = str(broken)
        self.played.after_close = self._asked_late()
        return episode

    def _asked_late(self) -> str:
        try:
            reply = self.session.respond(Turn(role="assistant", text=LATE))
        except UsageError:
            return ""
        except BaseException as error:
            return f"raised {describe(error)}"
        return f"got a {type(reply).__name__}"

    def _stop(self, broken: _Broken) -> None:
        self.played.problem = self.played.problem or str(broken)


def _call(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except BaseException as error:  # as when judging: sys.exit() in a session is a finding like any other
        raise _Broken(f"{what} raised {describe(error)}") from None


def _mapping(outcome: object) -> Mapping[str, JsonValue]:
    if not isinstance(outcome, Mapping):
        raise TypeError(f"{type(outcome).__name__} is no mapping")
    return dict(outcome)


def play_all(environment: Any, plays: Sequence[Play], score: Callable[[Prompt, Completion], dict[str, Any]]) -> list[Played]:
    """Play the episodes `plays` at the same time, judge them, and return them with their scores.

    First one turn of each episode is played, then the next turn of each, and so on.

    Args:
        environment: the environment that opens the sessions.
        plays: the episodes to play.
        score: function that judges an episode. It returns the JSON form of the score, or of the exception that judging raised.
    """
    prompts = [environment.load_prompt(play.prompt) for play in plays]
    players = [_Player(environment, prompt, play) for prompt, play in zip(prompts, plays, strict=True)]
    while any(not player.over for player in players):
        for player in players:
            if not player.over:
                player.turn()
    for prompt, player in zip(prompts, players, strict=True):
        episode = player.finish()
        if episode is not None:
            player.played.score = score(prompt, episode)
    return [player.played for player in players]
