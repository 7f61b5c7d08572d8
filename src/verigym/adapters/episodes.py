"""Episodes for other trainers: the trainer passes in each text of the model, and gets the messages that the model reads next.

The session of an episode is the environment's side, which runs the tools and replies to the model. Sessions run in worker
processes, as in our own trainer: a tool that hangs or dies costs only its own episode. A task of a single-turn environment is
an episode that ends with the model's first text, so an adapter needs only one loop.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from verigym.adapters.scoring import Scorer
from verigym.envs.contract.base import Environment
from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.contract.schema import Completion, FinishReason, Message, Prompt, ScoreError, Turn
from verigym.envs.contract.session import TOOLS, opens_sessions
from verigym.envs.contract.transcript import Transcript
from verigym.envs.grading.placement import pools
from verigym.envs.sessions import Answer, Episode, SessionLimit, Sessions
from verigym.envs.tools.call_formats import DEFAULT, CallFormat


class Episodes:
    """Opens episodes of a scorer's tasks, for adapters of trainers that can play several turns.

    The worker processes start when the first episode needs them.

    Args:
        scorer: provides the tasks and grades them.
        max_turns: maximum number of model turns in an episode; None if the trainer ends episodes itself.
        turn_timeout_s: wall time in seconds that a session may take to open or to answer one turn.

    Raises:
        UsageError: an argument is invalid.
    """

    def __init__(self, scorer: Scorer, *, max_turns: int | None = 8, turn_timeout_s: float = 30.0) -> None:
        if max_turns is not None and (isinstance(max_turns, bool) or not isinstance(max_turns, int) or max_turns < 1):
            raise UsageError(f"max_turns={max_turns!r}: expected a whole number of at least 1")
        self.scorer, self.max_turns = scorer, max_turns
        self._opened: Counter[str] = Counter()
        playing = {label: one for label, one in scorer.sources.environments.items() if opens_sessions(one)}
        shared, self._pool_of = pools(playing)
        limits: dict[str, Any] = {name: scorer.limits[name] for name in ("workers", "memory_bytes") if name in scorer.limits}
        self._sessions = [Sessions(pool, timeout_s=turn_timeout_s, **limits) for pool in shared]

    @property
    def playing(self) -> Mapping[str, Environment]:
        """The environments that have episodes of several turns, by label."""
        return {label: self.scorer.sources.environments[label] for label in self._pool_of}

    def open(self, task: tuple[str, Prompt], seed: str) -> PlayedEpisode:
        """Return a new episode of `task`.

        Args:
            task: the source's label and the prompt, as `Scorer.task` returns them.
            seed: identifies the episode; all randomness of its session is derived from it.

        Raises:
            UsageError: the worker processes cannot start, and trying again would not help.
        """
        label, prompt = task
        number = self._pool_of.get(label)
        live = None if number is None else self._sessions[number].open(prompt, seed)
        return PlayedEpisode(task, live, self.max_turns)

    def next_seed(self, prompt: Prompt) -> str:
        """Return the seed for the next episode of `prompt`; it differs for every episode and every process of the trainer."""
        self._opened[prompt.key] += 1
        return f"{prompt.key}/{os.environ.get('RANK', '0')}/{self._opened[prompt.key]}"

    def close(self) -> None:
        """End the worker processes of sessions."""
        for sessions in self._sessions:
            sessions.close()


class PlayedEpisode:
    """One episode, made by `Episodes.open`: call `turn` until `over` is true, then read `completion`."""

    def __init__(self, task: tuple[str, Prompt], live: Episode | None, max_turns: int | None) -> None:
        self.task = task
        self._live, self._max_turns = live, max_turns
        self._transcript = Transcript(task[1])
        self._reason: FinishReason | None = None
        self._outcome: Mapping[str, Any] | None = None
        self._failure: ScoreError | None = None

    @property
    def over(self) -> bool:
        """True once the episode has ended and no further turn is accepted."""
        return self._reason is not None

    @property
    def turns(self) -> int:
        """Number of turns that the model has taken so far."""
        return self._transcript.written

    def turn(self, text: str) -> Sequence[Message]:
        """Play `text` as the model's next turn. Return the messages that the model reads next; empty if the episode is over.

        Raises:
            UsageError: the episode was already over.
        """
        future = self._asked(text)
        ending = None if future is None else self._taken(future)
        if ending is None:
            return self._read
        self._ended(ending)
        return ()

    async def aturn(self, text: str) -> Sequence[Message]:
        """Do the same as `turn` without blocking the event loop."""
        future = self._asked(text)
        await _settled(future)
        ending = None if future is None else self._taken(future)
        if ending is None:
            return self._read
        await _settled(ending)
        self._ended(ending)
        return ()

    def end(self, reason: FinishReason, text: str | None = None) -> None:
        """End the episode at the trainer's request.

        Args:
            reason: why it ends; `length`, for example, if the last turn was cut off and gets no reply.
            text: the text of a last turn to which the session must not reply; None if there is no such turn.

        Raises:
            UsageError: the episode was already over.
        """
        if (ending := self._closing(reason, text)) is not None:
            self._ended(ending)

    async def aend(self, reason: FinishReason, text: str | None = None) -> None:
        """Do the same as `end` without blocking the event loop."""
        ending = self._closing(reason, text)
        await _settled(ending)
        if ending is not None:
            self._ended(ending)

    def completion(self, token_ids: Sequence[int] | None = None) -> Completion:
        """Return the finished episode as the completion that is graded.

        Args:
            token_ids: the tokens that the model wrote, if the trainer knows them.

        Raises:
            UsageError: the episode is not over yet.
        """
        if self._reason is None:
            raise UsageError("the episode goes on: give turns until it is over, or end it")
        if self._live is None:  # one text, judged as such
            ids = None if token_ids is None else tuple(token_ids)
            text = self._transcript.turns[-1].text if self._transcript.turns else ""
            return Completion(text=text, token_ids=ids, finish_reason=self._reason)
        return self._transcript.completion(self._reason, self._outcome, self._failure, token_ids)

    @property
    def _read(self) -> Sequence[Message]:
        """The replies to the last turn."""
        replies: list[Message] = []
        for turn in reversed(self._transcript.turns):
            if turn.role == "assistant":
                break
            replies.append(turn.message)
        return () if self.over else replies[::-1]

    def _refuse_over(self) -> None:
        if self.over:
            raise UsageError("the episode is over: open another one")

    def _closing(self, reason: FinishReason, text: str | None) -> Future[Mapping[str, Any]] | None:
        self._refuse_over()
        if text is not None:
            self._transcript.add(Turn(role="assistant", text=text))
        self._reason = reason
        return None if self._live is None else self._live.end()

    def _asked(self, text: str) -> Future[Answer] | None:
        self._refuse_over()
        self._transcript.add(Turn(role="assistant", text=text))
        if self._live is None:
            self._reason = "stop"
            return None
        return self._live.turn(text)

    def _taken(self, future: Future[Answer]) -> Future[Mapping[str, Any]] | None:
        """Take what the session said; return the future of its end where the last turn was reached."""
        try:
            answer = future.result()
        except EnvironmentFailure as error:
            self._reason, self._failure = "abort", error.score().error
            return None
        except SessionLimit as blamed:
            self._reason, self._outcome = "limit", {"limit": blamed.why}
            return None
        self._transcript.replace_last(answer.turn)
        self._transcript.answer(answer.reply)
        if answer.reply.done:
            self._reason, self._outcome = "stop", answer.outcome
        elif self._max_turns is not None and self.turns >= self._max_turns:
            self._reason = "turns"
            assert self._live is not None
            return self._live.end()
        return None

    def _ended(self, future: Future[Mapping[str, Any]]) -> None:
        try:
            self._outcome = future.result()
        except EnvironmentFailure as error:
            self._reason, self._failure = "abort", error.score().error
        except SessionLimit as blamed:
            self._reason, self._outcome = "limit", {"limit": blamed.why}


async def _settled(future: Future[Any] | None) -> None:
    """Wait until a future is done, whatever it holds."""
    if future is not None:
        waiting = asyncio.wrap_future(future)
        await asyncio.wait([waiting])
        waiting.exception()  # or asyncio reports one that nobody has looked at


def written_calls(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return tool calls as text in the format that our sessions parse; for trainers that parse the model's calls themselves.

    Any other text of the same turn is left out, because an unclosed tag in it would hide the calls. This does not affect the
    grading, which considers only the episode's last turn: the final answer.

    Args:
        calls: the parsed calls, as pairs of tool name and arguments.
    """
    written = (json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls)
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in written)


def refuse_other_formats(label: str, environment: Environment, who: str) -> None:
    """Raise an error if `environment` does not parse tool calls in the format of `written_calls`.

    Args:
        label: the source's label, for the message.
        environment: the environment to check.
        who: the trainer that parses the calls itself, for the message.

    Raises:
        UsageError: the environment's option `calls` names another format.
    """
    for calls in call_formats(environment):
        if calls.identity != DEFAULT:
            raise UsageError(f"source {label!r}: {who} reads the calls itself; leave out calls={calls.identity!r}")


def call_formats(environment: object) -> Iterator[CallFormat]:
    """Yield the format in which `environment` parses tool calls; for a composed environment, the formats of all its parts."""
    calls = getattr(environment, "calls", None)
    if isinstance(calls, CallFormat):
        yield calls
    parts = getattr(environment, "parts", None)
    for part in parts.values() if isinstance(parts, Mapping) else [getattr(environment, "inner", None)]:
        if part is not None and not isinstance(part, str):
            yield from call_formats(part)


def with_tools_told(prompt: Prompt, environment: Environment, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `messages` with a description of the task's tools in the system message.

    This is for trainers that do not pass the tools to the chat template.

    Args:
        prompt: the task, which names its tools.
        environment: the environment that the task belongs to.
        messages: the task's messages in the form that the trainer uses.
    """
    tools = prompt.metadata.get(TOOLS)
    told = [dict(message) for message in messages]
    form = next(call_formats(environment), None)
    if not tools or form is None:
        return told
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)  # type: ignore[union-attr]
    text = f"You may call these tools before you answer:\n{listed}\nWrite a call as {form.example}"
    if told and told[0].get("role") == "system":
        return [{**told[0], "content": f"{told[0]['content']}\n\n{text}"}, *told[1:]]
    return [{"role": "system", "content": text}, *told]
