"""Episodes for hooks that bring a text of the model at a time: live sessions in workers, and what the model reads next.

A task whose environment has no episodes is over after the first text, so a mixture of both is played alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from verigym.adapters.sources import Sources
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Message, Prompt, ScoreError, Turn
from verigym.envs.contract.session import TOOLS, opens_sessions
from verigym.envs.contract.transcript import Transcript
from verigym.envs.grading.pools import pools
from verigym.envs.sessions import Answer, Episode, SessionLimit, Sessions
from verigym.envs.tools.call_formats import CallFormat

MAX_TURNS = 8
"""The assistant's turns of an episode, by default, as `run_episode` has it."""
_CUT: Mapping[str, FinishReason] = {"length": "length", "context": "context"}


class Plays:
    """Begins episodes of tasks of any of the sources. Its workers start with the first.

    Args:
        sources: what is played.
        max_turns: the assistant's turns of an episode; one that is not over by then has the finish reason `turns`.
        settings: of `Sessions`, such as `workers` and `timeout_s`.

    Raises:
        UsageError: a setting does not fit.
    """

    def __init__(self, sources: Sources, *, max_turns: int = MAX_TURNS, **settings: Any) -> None:
        if max_turns < 1:
            raise UsageError(f"max_turns={max_turns}: expected at least 1")
        self.sources, self.max_turns = sources, max_turns
        played = {label: one for label, one in sources.environments.items() if opens_sessions(one)}
        shared, self._pool_of = pools(played)
        self._sessions = [Sessions(pool, **settings) for pool in shared]

    def played(self, label: str) -> bool:
        """Whether a source's tasks are episodes."""
        return label in self._pool_of

    @property
    def any_played(self) -> bool:
        """Whether some source's tasks are episodes."""
        return bool(self._pool_of)

    def begin(self, task: tuple[str, Prompt], seed: str) -> Play:
        """Begin an episode and return at once.

        Args:
            task: label and task, as `Scorer.task` returns them.
            seed: names the episode; randomness of the session is keyed by it.

        Raises:
            UsageError: the sessions are closed or can never start.
        """
        label, prompt = task
        episode = self._sessions[self._pool_of[label]].open(prompt, seed) if self.played(label) else None
        return Play(prompt, episode, self.sources.environments[label], self.max_turns)

    def close(self) -> None:
        """End the workers."""
        for one in self._sessions:
            one.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Play:
    """One episode, made by `Plays.begin`. Whoever drops it gives it up: its session is closed."""

    def __init__(self, prompt: Prompt, episode: Episode | None, environment: Environment, max_turns: int) -> None:
        self.prompt, self.max_turns = prompt, max_turns
        self._episode, self._environment = episode, environment
        self._played = episode is not None
        self._transcript = Transcript(prompt)
        self._reason: FinishReason | None = None
        self._outcome: Mapping[str, Any] | None = None
        self._failure: ScoreError | None = None
        self._token_ids: Sequence[int] | None = None

    @property
    def messages(self) -> list[Message]:
        """What the model reads first. Tools are explained in a system message, for peers that pass the model texts alone."""
        tools: Any = self.prompt.metadata.get(TOOLS) or ()
        if not tools or not self._played:
            return list(self.prompt.messages)
        told = tool_text(tools, call_example(self._environment))
        first, *rest = self.prompt.messages
        if first.role == "system":
            return [Message(role="system", content=f"{first.content}\n\n{told}"), *rest]
        return [Message(role="system", content=told), first, *rest]

    @property
    def over(self) -> bool:
        """Whether the model has no further turn."""
        return self._reason is not None

    @property
    def turn_reward(self) -> float | None:
        """What the last turn earned, where the environment gives rewards by turn."""
        return next((turn.reward for turn in reversed(self._transcript.turns) if turn.role == "assistant"), None)

    def turn(
        self, text: str, *, finish_reason: FinishReason | None = None, token_ids: Sequence[int] | None = None
    ) -> list[Message]:
        """Take the model's next text, and return what it reads next; nothing where the episode is over.

        Args:
            text: what the model wrote.
            finish_reason: what ended it, where that is known: a text that was cut off ends the episode and is not answered.
            token_ids: of the text, where they are known.

        Raises:
            UsageError: the episode is over.
        """
        waiting = self._take(text, finish_reason, token_ids)
        return [] if waiting is None else self._settle(waiting)

    async def aturn(
        self, text: str, *, finish_reason: FinishReason | None = None, token_ids: Sequence[int] | None = None
    ) -> list[Message]:
        """As `turn`, without blocking the event loop."""
        waiting = self._take(text, finish_reason, token_ids)
        if waiting is None:
            return []
        await _done(waiting)
        return self._settle(waiting)

    def completion(self) -> Completion:
        """End the episode where it is not over, and return what is judged."""
        ending = self._end()
        return self._completed(ending)

    async def acompletion(self) -> Completion:
        """As `completion`, without blocking the event loop."""
        ending = self._end()
        if ending is not None:
            await _done(ending)
        return self._completed(ending)

    def abandon(self) -> None:
        """Give the episode up: its session is closed, and nothing is waited for."""
        self._episode = None
        self._reason = self._reason or "abort"

    def _take(self, text: str, finish_reason: FinishReason | None, token_ids: Sequence[int] | None) -> Future[Answer] | None:
        if self._reason is not None:
            raise UsageError("the episode is over: begin the next one")
        self._transcript.add(Turn(role="assistant", text=text))
        if self._episode is None:  # a task of one turn
            self._token_ids = token_ids
            self._reason = finish_reason or "stop"
            return None
        if finish_reason in _CUT:  # half a turn is not answered
            self._reason = _CUT[finish_reason]
            return None
        return self._episode.turn(text)

    def _settle(self, waiting: Future[Answer]) -> list[Message]:
        """Take what the session said. The future may have to be waited for."""
        try:
            answer = waiting.result()
        except EnvironmentFailure as error:
            self._reason, self._failure = "abort", error.score().error
            return []
        except SessionLimit as blamed:
            self._reason, self._outcome = "limit", {"limit": blamed.why}
            return []
        self._transcript.replace_last(answer.turn)
        self._transcript.answer(answer.reply)
        if answer.reply.done:
            self._reason, self._outcome = "stop", answer.outcome
            return []
        if self._transcript.written >= self.max_turns:
            self._reason = "turns"
            return []
        return list(answer.reply.messages)

    def _end(self) -> Future[Mapping[str, Any]] | None:
        if self._reason is None:
            self._reason = "turns"
        ended_here = self._reason in ("turns", "length", "context")
        return self._episode.end() if ended_here and self._episode is not None and self._outcome is None else None

    def _completed(self, ending: Future[Mapping[str, Any]] | None) -> Completion:
        if ending is not None:
            try:
                self._outcome = ending.result()
            except EnvironmentFailure as error:
                self._reason, self._failure = "abort", error.score().error
            except SessionLimit as blamed:
                self._reason, self._outcome = "limit", {"limit": blamed.why}
        assert self._reason is not None
        if not self._played:
            text = "".join(turn.text for turn in self._transcript.turns)
            ids = None if self._token_ids is None else tuple(self._token_ids)
            return Completion(text=text, token_ids=ids, finish_reason=self._reason)
        return self._transcript.completion(self._reason, self._outcome, self._failure)


async def _done(future: Future[Any]) -> None:
    """Wait for a future, whatever it ends with."""
    with contextlib.suppress(Exception):
        await asyncio.wrap_future(future)


def call_example(environment: Environment) -> str:
    """Return how a call of an environment's tools is written, of the part that has them."""
    parts = getattr(environment, "parts", None)
    inside = [environment, getattr(environment, "inner", None), *(parts.values() if isinstance(parts, Mapping) else ())]
    formats = [one.calls for one in inside if isinstance(getattr(one, "calls", None), CallFormat)]
    if not formats:
        raise UsageError(f"{environment.name!r} does not say how its tools are called (`calls`)")
    return formats[0].example


def tool_text(tools: Sequence[Mapping[str, Any]], example: str) -> str:
    """Return what a model is told of its tools, where no chat template tells it.

    Args:
        tools: as chat templates take them.
        example: how a call is written.
    """
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        "You may call tools before you answer. These are the tools, with the JSON schemas of their arguments:\n"
        f"{listed}\n\nWrite a call as {example}. Each result is given to you in <tool_response> tags. A message without a call "
        "is your answer."
    )


def as_user_text(messages: Sequence[Message]) -> str:
    """Return what the model reads next as one text of the user's, results of tools in the tags of Hermes and Qwen."""
    return "\n".join(
        f"<tool_response>\n{one.content}\n</tool_response>" if one.role == "tool" else one.content for one in messages
    )
