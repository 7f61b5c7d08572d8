"""Asks a model behind an OpenAI-compatible server for completions: one request a turn, repeated while the server fails.

The server applies the chat template, so messages are sent and a text comes back. What the server parses out of the model's
text is put back in the form in which environments read it: thinking in `<think>` tags, calls of tools in `<tool_call>` tags.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.contract.schema import Completion, FinishReason, Message, Prompt, Turn
from verigym.envs.contract.session import TOOLS
from verigym.envs.contract.transcript import Transcript
from verigym.envs.judge.client import backoff_s
from verigym.envs.judge.endpoint import RefusedRequest, Spent, Trouble, chat
from verigym.envs.sessions import SessionLimit, Sessions
from verigym.envs.tools import hermes
from verigym.trainer.evaluation.config import EndpointModel
from verigym.trainer.rng import keyed_int
from verigym.trainer.rollout.episodes import EpisodeLimits

HARMLESS = ({"role": "user", "content": "Say OK."},)
"""The messages of a control request: if it is answered, the server works, and another request failed by what it asks."""
LONGEST_PAUSE_S = 60.0
ENDED = ("stop", "tool_calls", "function_call")
"""Finish reasons of turns that the model ended itself."""


class ServerFailed(Exception):
    """The server answers no request, not even the control, so the evaluation cannot go on now."""


class RefusedSettings(Exception):
    """The server refuses the settings, such as the key or the model's name, so another try would not help."""


class Stopped(Exception):
    """Raised in the threads that ask, to end them when the evaluation stops."""


@dataclass(frozen=True)
class Reply:
    """One turn of the model."""

    text: str
    """As environments read it."""
    message: Mapping[str, Any]
    """As the server wrote it, without the thinking: what the next request of an episode repeats."""
    finish_reason: Literal["stop", "length"]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Answered:
    """A completion, and the tokens of all its requests together."""

    completion: Completion
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Asker:
    """Asks one model for turns. Its methods may be called from several threads."""

    def __init__(self, model: EndpointModel, temperature: float) -> None:
        """Prepare to ask; nothing is sent yet.

        Args:
            model: the model and its server.
            temperature: 0 asks for greedy decoding.
        """
        # The caller's threads bound what is under way; places that all processes share would outlast a stop.
        self.model, self.temperature = model.model_copy(update={"concurrency": None}), temperature
        self.stopping = threading.Event()
        """Set to end all pauses and send no more requests."""
        self.failed = 0
        """Requests so far that the server did not answer."""
        self.last_failure = ""
        self._name = f"model {model.model!r} at {model.base_url}"

    def complete(self, prompt: Prompt, key: Sequence[object], max_new_tokens: int) -> Answered:
        """Return the completion of one turn. If the server refuses this request alone, the completion has a `failure`.

        Args:
            prompt: the task.
            key: key of the randomness, from which the seed is made.
            max_new_tokens: most tokens of the completion.

        Raises:
            ServerFailed, RefusedSettings, Stopped: as the classes say.
        """
        try:
            reply = self.ask(list(map(_sent, prompt.messages)), (), max_new_tokens, key)
        except EnvironmentFailure as error:
            return Answered(Completion(text="", finish_reason="abort", failure=error.score().error))
        completion = Completion(text=reply.text, finish_reason=reply.finish_reason)
        return Answered(completion, reply.prompt_tokens, reply.completion_tokens)

    def play(self, sessions: Sessions, prompt: Prompt, key: Sequence[object], limits: EpisodeLimits) -> Answered:
        """Return the completion of an episode, in which `sessions` answer the model's turns.

        If our side fails, or the server refuses a request of this episode alone, the completion has a `failure`.

        Args:
            sessions: of the prompt's source.
            prompt: the task.
            key: key of the randomness.
            limits: `positions` bounds prompt and completion of a request, as the server counts their tokens.

        Raises:
            ServerFailed, RefusedSettings, Stopped: as the classes say.
        """
        tools: Any = prompt.metadata.get(TOOLS) or ()
        transcript, episode = Transcript(prompt), sessions.open(prompt, "/".join(map(str, key)))
        messages = list(map(_sent, prompt.messages))
        read = written = context = 0
        reason: FinishReason | None = None
        outcome = failure = None
        try:
            while reason is None:
                room = [limits.max_new_tokens - written, limits.max_turn_tokens, (limits.positions or math.inf) - context]
                most = int(min(one for one in room if one is not None))
                turn_key = (*key, "turn", transcript.written) if transcript.written else key
                reply = self.ask(messages, tools, most, turn_key)
                read, written = read + reply.prompt_tokens, written + reply.completion_tokens
                context = reply.prompt_tokens + reply.completion_tokens
                full = limits.positions is not None and context >= limits.positions
                transcript.add(Turn(role="assistant", text=reply.text))
                if reply.finish_reason == "length":  # half a turn is not answered
                    reason = "context" if full else "length"
                    outcome = episode.end().result()
                    break
                answer = episode.turn(reply.text).result()
                transcript.replace_last(answer.turn)
                transcript.answer(answer.reply)
                if answer.reply.done:
                    reason, outcome = "stop", answer.outcome
                    break
                messages += _replied(reply.message, answer.reply.messages)
                if transcript.written >= limits.max_turns:
                    reason = "turns"
                elif written >= limits.max_new_tokens or full:
                    reason = "context" if full else "length"
                if reason is not None:
                    outcome = episode.end().result()
        except SessionLimit as blamed:
            reason, outcome = "limit", {"limit": blamed.why}
        except EnvironmentFailure as error:
            reason, failure = "abort", error.score().error
            episode.end()
        return Answered(transcript.completion(reason, outcome, failure), read, written)

    def ask(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any], most: int, key: Sequence[object]) -> Reply:
        """Return the model's next turn.

        Args:
            messages: as the server takes them.
            tools: as the server takes them.
            most: most tokens of the turn.
            key: key of the turn's seed.

        Raises:
            EnvironmentFailure: the server fails or refuses this request, and answers a harmless one.
            ServerFailed, RefusedSettings, Stopped: as the classes say.
        """
        body = self._body(messages, tools, most, key)
        trouble: Trouble | None = None
        for attempt in range(self.model.tries):
            if trouble is not None:
                self._pause(trouble, backoff_s(self.model, "/".join(map(str, key)), attempt))
            if self.stopping.is_set():
                raise Stopped
            try:
                reply = self._chat(body)
            except RefusedRequest as error:
                self._control(body)
                raise EnvironmentFailure("backend", f"{self._name} refuses this request: {error}") from None
            if isinstance(reply, Reply):
                return reply
            trouble = reply
            self.failed, self.last_failure = self.failed + 1, trouble.why
        self._control(body)
        assert trouble is not None
        raise EnvironmentFailure(
            trouble.kind, f"{self._name} answers other requests, and this one not ({self.model.tries} tries): {trouble.why}"
        )

    def _body(self, messages: Sequence[Any], tools: Sequence[Any], most: int, key: Sequence[object]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model.model, "messages": list(messages), "max_tokens": most}
        body["temperature"] = self.temperature
        if self.temperature > 0:
            # Of the whole distribution, whatever the server's defaults; 31 bits, which every server takes.
            body |= {"top_p": 1.0, "seed": keyed_int(*key) >> 32}
        if tools:
            body["tools"] = list(tools)
        return {name: value for name, value in {**body, **self.model.extra_body}.items() if value is not None}

    def _chat(self, body: Mapping[str, Any]) -> Reply | Trouble:
        try:
            found = chat(self.model, body, math.inf)
        except EnvironmentFailure as error:
            raise RefusedSettings(error.message) from None
        return found if isinstance(found, Trouble) else _read(*found)

    def _pause(self, trouble: Trouble, backoff: float) -> None:
        if trouble.wait_s > self.model.timeout_s:
            raise ServerFailed(
                f"{self._name}: {trouble.why}; it asks to wait {trouble.wait_s:.0f} s (Retry-After), more than timeout_s "
                f"({self.model.timeout_s:g})"
            )
        self.stopping.wait(max(trouble.wait_s, min(backoff, LONGEST_PAUSE_S)))

    def _control(self, body: Mapping[str, Any]) -> None:
        """Check that the server answers a harmless request with the same settings.

        Raises:
            ServerFailed: it does not answer.
            RefusedSettings: it refuses this request too.
        """
        try:
            found = self._chat({**body, "messages": list(HARMLESS)})
        except RefusedRequest as error:
            raise RefusedSettings(f"{self._name} refuses every request: {error}") from None
        if isinstance(found, Trouble):
            raise ServerFailed(f"{self._name}: {found.why}")


def _read(choice: Mapping[str, Any], spent: Spent) -> Reply | Trouble:
    """Return a server's answer as a turn of the model, or the `Trouble` that it is no whole turn."""
    message, ended = choice["message"], choice.get("finish_reason")
    if spent.tokens_in is None or spent.tokens_out is None:
        return Trouble("protocol", "the answer has no usage with prompt_tokens and completion_tokens, which the report sums")
    if ended == "content_filter":
        raise RefusedRequest("the server's content filter cut the completion off")
    if ended != "length" and ended not in ENDED:
        return Trouble("protocol", f"finish_reason is {ended!r}; expected one of length, {', '.join(ENDED)}")
    thinking = message.get("reasoning_content") or message.get("reasoning")
    content = message.get("content") if isinstance(message.get("content"), str) else ""
    calls = [call["function"] for call in _calls(message)]
    parts = [content, *(_written(call) for call in calls)]
    text = "\n".join(part for part in parts if part)
    if isinstance(thinking, str) and thinking.strip():
        cut = ended == "length" and not text
        text = f"{hermes.THINK_OPEN}\n{thinking.strip()}" + ("" if cut else f"\n{hermes.THINK_CLOSE}\n\n{text}")
    said = {"role": "assistant", "content": content} | ({"tool_calls": _calls(message)} if calls else {})
    return Reply(text, said, "length" if ended == "length" else "stop", spent.tokens_in, spent.tokens_out)


def _calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of tools that the server found in the model's turn."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call.get("function"), dict)] if isinstance(calls, list) else []


def _written(call: Mapping[str, Any]) -> str:
    """Return a call as the model writes it in its text. Arguments that are no JSON stay as they are."""
    arguments = call.get("arguments")
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    name = json.dumps(call.get("name"), ensure_ascii=False)
    return f'{hermes.OPEN}\n{{"name": {name}, "arguments": {arguments or "{}"}}}\n{hermes.CLOSE}'


def _sent(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": message.content}


def _replied(turn: Mapping[str, Any], replies: Sequence[Message]) -> list[dict[str, Any]]:
    """Return a turn of the model and the replies to it as the next request repeats them.

    Servers want an answer to each call, so calls that the session did not run are left out.
    """
    answers = [reply for reply in replies if reply.role == "tool"]
    calls = [{"id": f"call_{n}", **call} for n, call in enumerate(turn.get("tool_calls", ()))][: len(answers)]
    ids = iter([call["id"] for call in calls])
    said = {**turn, "tool_calls": calls} if calls else {"role": "assistant", "content": turn["content"]}
    sent = []
    for reply in replies:
        extra = {"name": reply.name, "tool_call_id": next(ids, "call")} if reply.role == "tool" else {}
        sent.append(_sent(reply) | extra)
    return [said, *sent]
