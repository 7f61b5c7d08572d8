"""Episodes over HTTP: each episode has an id that cannot be guessed, numbered turns, and a verdict at its end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue, ValidationError

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import EnvironmentFailure, UsageError, explain
from verigym.envs.contract.schema import FinishReason, Prompt, ScoreError, Turn
from verigym.envs.contract.session import TOOLS, ToolSpec
from verigym.envs.contract.transcript import Transcript
from verigym.envs.sessions import Episode, SessionLimit, Sessions
from verigym.serve.catalog import Catalog
from verigym.serve.desk import Desk
from verigym.serve.metrics import Metrics
from verigym.serve.problems import Problem
from verigym.serve.schemas import EndedEpisode, EpisodeState, OpenedEpisode, OpenEpisode, PlayTurn, TurnReply, turns_of
from verigym.serve.settings import ServiceLimits

logger = logging.getLogger("verigym.serve")

RETRY_S = 5


@dataclass(eq=False)
class _Open:
    """An episode that somebody plays. Only the event loop touches it."""

    id: str
    session: Episode
    transcript: Transcript
    tools: tuple[ToolSpec, ...]
    first: int
    """The number of the first turn that is played here; earlier ones were given when it was opened."""
    max_turns: int
    bytes_left: int
    replies: list[tuple[str, asyncio.Task[TurnReply]]] = field(default_factory=list)
    """Text and reply of each turn that was played here; the last one may be on its way."""
    reason: FinishReason | None = None
    """Why there are no more turns; None while there are."""
    outcome: Mapping[str, JsonValue] | None = None
    failure: ScoreError | None = None
    ending: tuple[FinishReason, asyncio.Task[EndedEpisode]] | None = None
    ended: bool = False
    """Whether it has its verdict, and is kept only for who asks again."""
    used: float = field(default_factory=time.monotonic)

    @property
    def next(self) -> int:
        """The number of the next turn."""
        return self.first + len(self.replies)

    @property
    def busy(self) -> bool:
        """Whether something is being done for it."""
        tasks: list[asyncio.Task[Any]] = [task for _, task in self.replies[-1:]]
        return any(not task.done() for task in tasks) or (self.ending is not None and not self.ending[1].done())


class Episodes:
    """The open episodes of the service.

    Args:
        sessions: runs the sessions of episodes.
        catalog: makes the prompts.
        desk: grades ended episodes.
        limits: limits on the number, length and idle time of episodes.
        metrics: counts episodes and turns.
    """

    def __init__(self, sessions: Sessions, catalog: Catalog, desk: Desk, limits: ServiceLimits, metrics: Metrics) -> None:
        self._sessions, self._catalog, self._desk, self._limits, self._metrics = sessions, catalog, desk, limits, metrics
        self._open: dict[str, _Open] = {}
        self._opening = 0
        """Places of episodes whose task is being made."""
        self._by_key: dict[str, tuple[OpenEpisode, asyncio.Task[OpenedEpisode]]] = {}

    def __len__(self) -> int:
        """Return the number of open episodes; episodes that already have a verdict do not count."""
        return len(self._open) - self.kept

    @property
    def kept(self) -> int:
        """Number of ended episodes that are still stored with their verdict."""
        return sum(one.ended for one in self._open.values())

    async def open(self, request: OpenEpisode, key: str | None) -> OpenedEpisode:
        """Begin an episode and return its description; the same `key` returns the same episode as long as it is open.

        Raises:
            Problem: the task does not fit the environment, too many episodes are open, or `key` belongs to another request.
        """
        self._desk.refuse_if_draining()
        if key is None:
            return await self._begin(request)
        if key not in self._by_key:
            task = asyncio.create_task(self._begin(request))
            self._by_key[key] = (request, task)
            task.add_done_callback(lambda done: self._forget_failed(key, done))
        known, task = self._by_key[key]
        if known != request:
            raise Problem("conflict", f"the idempotency key {key!r} was used for another episode; a key stands for one episode")
        opened = await asyncio.shield(task)
        if opened.episode not in self._open:
            raise Problem("conflict", f"the episode of the idempotency key {key!r} is over; use a new key")
        return opened

    def _forget_failed(self, key: str, task: asyncio.Task[OpenedEpisode]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._by_key.pop(key, None)

    async def _begin(self, request: OpenEpisode) -> OpenedEpisode:
        name = self._catalog.name(request.environment)
        if name in self._catalog.environments and name not in self._catalog.interactive:
            known = ", ".join(sorted(self._catalog.interactive))
            raise Problem("invalid", f"environment {request.environment!r} has no episodes; those with episodes: {known}")
        if len(self) + self._opening >= self._limits.episodes:
            raise Problem(
                "overloaded", f"{self._limits.episodes:,} episodes are open, and no more may be", retry_after_s=RETRY_S
            )
        self._opening += 1  # before anything is waited for, or others would take the same place
        try:
            prompt = await asyncio.to_thread(self._catalog.prompt, request)
            return self._opened(request, prompt)
        except EnvironmentFailure as failure:
            if failure.retryable:
                raise Problem("unavailable", str(failure), retry_after_s=RETRY_S) from None
            raise Problem("internal", str(failure)) from None
        finally:
            self._opening -= 1

    def _opened(self, request: OpenEpisode, prompt: Prompt) -> OpenedEpisode:
        turns = _turns(request)
        try:
            session = self._sessions.open(prompt, request.seed, turns=turns)
        except UsageError as error:
            raise Problem("invalid", str(error)) from None
        transcript = Transcript(prompt)
        transcript.turns += turns
        transcript.written = sum(turn.role == "assistant" for turn in turns)
        most = min(request.max_turns or self._limits.episode_turns, self._limits.episode_turns)
        one = _Open(
            secrets.token_urlsafe(24), session, transcript, _tools(prompt), transcript.written, most, self._limits.body_bytes
        )
        opened = OpenedEpisode(
            episode=one.id,
            environment=prompt.environment,
            messages=tuple(transcript.messages),
            tools=one.tools,
            turn=one.next,
            max_turns=most,
        )
        self._open[one.id] = one
        return opened

    def _find(self, id: str) -> _Open:
        one = self._open.get(id)
        if one is None:
            raise Problem("not_found", "no such episode is open; it may have been ended, or given up for want of use")
        one.used = time.monotonic()
        return one

    def state(self, id: str) -> EpisodeState:
        """Return the present state of the episode `id`.

        Raises:
            Problem: there is no such episode.
        """
        one = self._find(id)
        prompt = one.transcript.prompt
        messages = tuple(one.transcript.messages)
        done = one.reason is not None
        return EpisodeState(episode=id, environment=prompt.environment, messages=messages, turn=one.next, done=done)

    async def turn(self, id: str, request: PlayTurn) -> TurnReply:
        """Play a turn and return the session's reply; a turn that was already played gets the same reply again.

        Raises:
            Problem: there is no such episode, the episode is over, or the total text of its turns is too long;
                `request.turn` is not the number of the next turn, or this turn was already played with another text.
        """
        one = self._find(id)
        place = request.turn - one.first
        if 0 <= place < len(one.replies):
            text, task = one.replies[place]
            if text != request.text:
                raise Problem("conflict", f"turn {request.turn} was played with another text; the next turn is {one.next}")
            return await asyncio.shield(task)
        if one.reason is not None or one.ending is not None:
            raise Problem("conflict", "the episode is over: end it, and open a new one")
        if place != len(one.replies) or one.busy:
            raise Problem("conflict", f"turn {request.turn} is not the next one, which is {one.next} once the last is answered")
        if one.next >= one.max_turns:
            raise Problem("conflict", f"the episode has had its {one.max_turns} turns: end it")
        self._desk.refuse_if_draining()
        size = len(request.text)
        if size > one.bytes_left:
            raise Problem("too_large", f"the turns of an episode may have {self._limits.body_bytes:,} characters together")
        one.bytes_left -= size
        task = asyncio.create_task(self._play(one, request))
        one.replies.append((request.text, task))
        return await asyncio.shield(task)

    async def _play(self, one: _Open, request: PlayTurn) -> TurnReply:
        try:
            return await self._played(one, request)
        except SessionLimit as blamed:
            one.reason, one.outcome = "limit", {"limit": blamed.why}
            return TurnReply(turn=request.turn, done=True, limit=blamed.why)
        except EnvironmentFailure as error:
            failure = error
        except Exception as error:  # no text of the model's causes it, so the episode must not be graded as it stands
            logger.warning("%s: a turn could not be answered", one.transcript.prompt.environment, exc_info=True)
            failure = EnvironmentFailure("internal", f"the turn could not be answered: {describe(error)}")
        finally:
            one.used = time.monotonic()
            self._metrics.turn(one.transcript.prompt.environment)
        one.reason, one.outcome, one.failure = "abort", None, failure.score().error
        return TurnReply(turn=request.turn, done=True, failure=one.failure)

    async def _played(self, one: _Open, request: PlayTurn) -> TurnReply:
        one.transcript.add(Turn(role="assistant", text=request.text))
        try:
            answer = await asyncio.wrap_future(one.session.turn(request.text))
        except UsageError as error:  # no worker can be started
            raise EnvironmentFailure("unavailable", str(error)) from None
        one.transcript.replace_last(answer.turn)
        one.transcript.answer(answer.reply)
        if answer.reply.done:
            one.reason, one.outcome = "stop", answer.outcome
        return TurnReply(
            turn=request.turn,
            calls=answer.turn.calls,
            messages=answer.reply.messages,
            done=answer.reply.done,
            reward=answer.reply.reward,
        )

    async def end(self, id: str, reason: FinishReason) -> EndedEpisode:
        """End an episode, grade it and return it with its score; a repeated call returns the same result.

        An ended episode stays stored with its score until it is dropped: by `drop`, after too long without a request, or when
        too many other episodes have ended since.

        Raises:
            Problem: there is no such episode, a turn is still being played, the episode was ended for another `reason`, or
                there is no room to grade it.
        """
        one = self._find(id)
        if one.ending is None:
            if one.busy:
                raise Problem("conflict", f"turn {one.next - 1} is being played; end the episode when it is answered")
            self._desk.refuse_if_draining()
            one.ending = (reason, asyncio.create_task(self._finish(one, reason)))
        given, task = one.ending
        if given != reason:
            raise Problem("conflict", f"the episode was ended with finish_reason {given!r}")
        try:
            return await asyncio.shield(task)
        except Problem:  # no room to grade it now; the next try may find some
            one.ending = None
            raise

    async def _finish(self, one: _Open, reason: FinishReason) -> EndedEpisode:
        if one.reason is None:
            try:
                one.outcome = await asyncio.wrap_future(one.session.end())
                one.reason = reason
            except SessionLimit as blamed:
                one.reason, one.outcome = "limit", {"limit": blamed.why}
            except (EnvironmentFailure, UsageError) as error:
                failure = error if isinstance(error, EnvironmentFailure) else EnvironmentFailure("unavailable", str(error))
                one.reason, one.failure = "abort", failure.score().error
        completion = one.transcript.completion(one.reason, one.outcome, one.failure)
        score = await self._desk.judge(one.transcript.prompt, completion)
        self._metrics.episode_ended(one.reason)
        one.used = time.monotonic()
        ended = EndedEpisode(completion=completion, score=score)
        one.ended = True
        while self.kept > self._limits.episodes:
            self.drop(min((kept for kept in self._open.values() if kept.ended), key=lambda kept: kept.used).id)
        return ended

    def drop(self, id: str) -> None:
        """Forget the episode `id`, and close its session if it is open. An unknown id is no error."""
        one = self._open.pop(id, None)
        if one is not None and one.ending is None:
            self._metrics.episode_ended("given_up")
        self._by_key = {key: known for key, known in self._by_key.items() if not _gone(known[1], self._open)}

    def drop_idle(self) -> None:
        """Drop the episodes for which no request has come for too long."""
        before = time.monotonic() - self._limits.episode_idle_s
        for one in list(self._open.values()):
            if one.used < before and not one.busy:
                self.drop(one.id)


def _gone(task: asyncio.Task[OpenedEpisode], still: Mapping[str, _Open]) -> bool:
    """Return whether a task has opened an episode that is not there any more."""
    return task.done() and not task.cancelled() and task.exception() is None and task.result().episode not in still


def _turns(request: OpenEpisode) -> list[Turn]:
    try:
        return turns_of(request.turns or [])
    except ValidationError as error:
        raise Problem("invalid", f"turns: {explain(error, Turn.model_fields)}") from None


def _tools(prompt: Prompt) -> tuple[ToolSpec, ...]:
    listed: Any = prompt.metadata.get(TOOLS) or ()
    return tuple(ToolSpec(**one["function"]) for one in listed)
