"""Makes the requests that a client sends, and parses the answers; shared by `Client` and `AsyncClient`."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from verigym.envs.contract.errors import UsageError, explain
from verigym.envs.contract.schema import Completion, CompletionLike, Message, Turn
from verigym.serve.reading import JSON, NDJSON
from verigym.serve.schemas import (
    KEY,
    BatchAnswer,
    BatchItem,
    ChatMessage,
    GeneratedTask,
    OpenedEpisode,
    OpenEpisode,
    ScoreRequest,
    TurnReply,
)
from verigym.serve.tokens import VARIABLE

M = TypeVar("M", bound=BaseModel)
CONNECT_S = 10.0
PART_BYTES = 8 * 2**20
"""Maximum size in bytes of the encoded items in one request of a batch: a quarter of the service's default limit."""
NDJSON_HEADERS = {"Content-Type": NDJSON}


def settings(url: str, token: str | None, timeout_s: float) -> dict[str, Any]:
    """Return keyword arguments for an httpx client.

    Raises:
        UsageError: `url` is not an HTTP address, or `token` holds characters that a header cannot carry.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"url {url!r}: expected an address such as http://127.0.0.1:8642")
    token = os.environ.get(VARIABLE) if token is None else token
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("the token holds spaces, line breaks or characters beyond ASCII, which a header cannot carry")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return {"base_url": url, "headers": headers, "timeout": httpx.Timeout(timeout_s, connect=CONNECT_S), "trust_env": False}


def key() -> str:
    """Return a new random idempotency key."""
    return uuid.uuid4().hex


def checked_key(given: str | None) -> str:
    """Return `given`, the user's idempotency key, or a new key if it is None.

    Raises:
        UsageError: `given` is not a valid key.
    """
    if given is not None and not re.fullmatch(KEY, given):
        raise UsageError(f"key {given[:50]!r}: expected 1 to 200 visible ASCII characters, without spaces")
    return key() if given is None else given


def headers_with(idempotency_key: str | None) -> dict[str, str]:
    """Return the headers of a JSON request, with `idempotency_key` if it is not None."""
    return {"Content-Type": JSON} | ({} if idempotency_key is None else {"Idempotency-Key": idempotency_key})


def encode(request: BaseModel) -> bytes:
    """Return `request` as a JSON body in ASCII, which can represent lone surrogates."""
    return json.dumps(request.model_dump(mode="json", exclude_none=True)).encode()


def decode(body: bytes | str, model: type[M]) -> M:
    """Return `body`, an answer of the service, parsed as `model`.

    Raises:
        ValidationError: `body` does not fit, because the service has another version.
    """
    try:
        return model.model_validate_json(body)
    except ValidationError:  # pydantic's own reader refuses half surrogates
        return model.model_validate(json.loads(body))


def request(
    environment: str,
    completion: CompletionLike,
    *,
    prompt: str | Sequence[Mapping[str, str]] | None = None,
    reference: Mapping[str, Any] | None = None,
    task: GeneratedTask | None = None,
) -> ScoreRequest:
    """Return the request to grade one completion; for the arguments see `AsyncClient.score`.

    Raises:
        UsageError: an argument is invalid.
    """
    fields = {"prompt": _messages(prompt), "reference": reference, "task": task}
    return _made(ScoreRequest, environment=environment, completion=_written(completion), **fields)


def item(
    environment: str,
    completion: CompletionLike,
    *,
    prompt: str | Sequence[Mapping[str, str]] | None = None,
    reference: Mapping[str, Any] | None = None,
    task: GeneratedTask | None = None,
    id: str | None = None,
    key: str | None = None,
) -> BatchItem:
    """Return an item for a batch; for the arguments see `AsyncClient.score`. The item's answer has the same `id`.

    Raises:
        UsageError: an argument is invalid.
    """
    fields = {"prompt": _messages(prompt), "reference": reference, "task": task, "id": id, "key": key}
    return _made(BatchItem, environment=environment, completion=_written(completion), **fields)


def opening(
    environment: str,
    *,
    prompt: str | Sequence[Mapping[str, str]] | None = None,
    reference: Mapping[str, Any] | None = None,
    task: GeneratedTask | None = None,
    seed: str = "0",
    max_turns: int | None = None,
    turns: Sequence[Turn] = (),
) -> OpenEpisode:
    """Return the request to open an episode; for the arguments see `AsyncClient.episode`.

    Raises:
        UsageError: an argument is invalid.
    """
    fields = {"prompt": _messages(prompt), "reference": reference, "task": task, "seed": seed, "max_turns": max_turns}
    played = [turn.model_dump(mode="json") for turn in turns] or None
    return _made(OpenEpisode, environment=environment, turns=played, **fields)


def _written(completion: CompletionLike) -> str | dict[str, Any] | list[dict[str, Any]]:
    if isinstance(completion, str | dict):
        return completion
    if isinstance(completion, list | tuple):
        return [dict(one) for one in completion]
    return Completion.of(completion).model_dump(mode="json")  # which refuses other types as `env.score` does


def _messages(prompt: str | Sequence[Mapping[str, str]] | None) -> str | list[ChatMessage] | None:
    if prompt is None or isinstance(prompt, str):
        return prompt
    return [_made(ChatMessage, **one) for one in prompt]


def _made(model: type[M], **fields: Any) -> M:
    try:
        return model(**{name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise UsageError(explain(error, model.model_fields)) from None


class BatchRun:
    """One request of a batch. It holds the items that have no answer yet; they are sent again until each has an answer.

    An item's answer is taken only once.

    Args:
        lines: the items, as encoded by `line`.
        first: position of the first item in the whole batch.
    """

    def __init__(self, lines: Sequence[bytes], first: int) -> None:
        self._left = dict(enumerate(lines, first))
        self._sent: list[int] = []
        self.postponed = False
        """Whether the last answer asks for some items again, because the service stopped before they were graded."""

    @property
    def done(self) -> bool:
        """True if all items are answered."""
        return not self._left

    def body(self) -> bytes:
        """Return the request body: the unanswered items, one per line."""
        self._sent, self.postponed = list(self._left), False
        return b"\n".join(self._left.values())

    def take(self, line: str) -> BatchAnswer | None:
        """Return the answer in `line`, with the item's position in the whole batch.

        Return None if the item already had an answer, or is to be sent again.

        Raises:
            ValidationError, IndexError: `line` is no valid answer, because the service has another version.
        """
        answer = decode(line, BatchAnswer)
        place = self._sent[answer.index]
        if answer.problem is not None and answer.problem.error == "unavailable":
            self.postponed = True
            return None
        if self._left.pop(place, None) is None:
            return None
        return answer.model_copy(update={"index": place})


def line(item: BatchItem) -> bytes:
    """Return `item` as a line of a batch, with a new idempotency key if it has none."""
    return encode(item if item.key is not None else item.model_copy(update={"key": key()}))


def runs(items: Iterable[BatchItem], size: int) -> Iterator[BatchRun]:
    """Divide `items` into requests of at most `size` items and `PART_BYTES` bytes each, and yield them as `BatchRun`s.

    An item that is longer than that gets a request of its own.

    Raises:
        UsageError: `size` is below 1.
    """
    if size < 1:
        raise UsageError(f"size is {size}; expected at least 1")
    first, part, held = 0, list[bytes](), 0
    for encoded in map(line, items):
        if part and (len(part) == size or held + len(encoded) > PART_BYTES):
            yield BatchRun(part, first)
            first, part, held = first + len(part), [], 0
        part.append(encoded)
        held += len(encoded) + 1
    if part:
        yield BatchRun(part, first)


class EpisodeLog:
    """The client's record of an episode, from which the episode can be reopened if the service has lost it.

    Args:
        request: the request that opened the episode.
        opened: the service's answer to that request.
    """

    def __init__(self, request: OpenEpisode, opened: OpenedEpisode) -> None:
        self.request, self.opened = request, opened
        self.id = opened.episode
        self.number = opened.turn
        """Of the next turn."""
        self.messages: list[Message] = list(opened.messages)
        """What the model has before its next turn."""
        self.turns: list[Turn] = [Turn.model_validate(turn) for turn in request.turns or ()]
        self.done = False

    def add(self, text: str, reply: TurnReply) -> None:
        """Record the model's turn `text` and the session's `reply`."""
        self.number += 1
        self.done = reply.done
        self.messages += [Message(role="assistant", content=text), *reply.messages]
        self.turns.append(Turn(role="assistant", text=text, calls=reply.calls, reward=reply.reward))
        self.turns += [Turn.model_validate({"role": one.role, "text": one.content, "name": one.name}) for one in reply.messages]

    def reopening(self) -> OpenEpisode:
        """Return a request that opens the episode again with all turns so far."""
        played = [turn.model_dump(mode="json") for turn in self.turns] or None
        return self.request.model_copy(update={"turns": played})

    def reopened(self, opened: OpenedEpisode) -> None:
        """Continue the episode under the id in `opened`."""
        self.id = opened.episode
