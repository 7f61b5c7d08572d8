"""`AsyncClient`: the client for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from verigym.client import wire
from verigym.client.retrying import PASSING, RetryPolicy, ServiceError, Tries, refusal
from verigym.envs.contract.schema import CompletionLike, Message, Score, Turn
from verigym.envs.contract.session import ToolSpec
from verigym.serve.schemas import (
    BatchAnswer,
    BatchItem,
    EndedEpisode,
    EndEpisode,
    EnvironmentList,
    GeneratedTask,
    OpenedEpisode,
    OpenEpisode,
    PlayTurn,
    ServedEnvironment,
    TurnReply,
)


class AsyncClient:
    """A client of one service. It keeps connections open; call `close`, or use the client in a `with` block.

    Args:
        url: the service's address, such as `http://127.0.0.1:8642`.
        token: the service's token; by default that in the environment variable VERIGYM_TOKEN, if it is set.
        timeout_s: how long, in seconds, to wait for an answer or for the next line of a batch.
        retries: how long failed requests are tried again.

    Raises:
        UsageError: `url` is not an HTTP address, or `token` cannot be sent in a header.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout_s: float = 120.0, retries: RetryPolicy | None = None
    ) -> None:
        self._http = httpx.AsyncClient(**wire.settings(url, token, timeout_s))
        self._retries = retries or RetryPolicy()

    async def score(
        self,
        environment: str,
        completion: CompletionLike,
        *,
        prompt: str | Sequence[Mapping[str, str]] | None = None,
        reference: Mapping[str, Any] | None = None,
        task: GeneratedTask | None = None,
        key: str | None = None,
    ) -> Score:
        """Grade one completion and return its score.

        Args:
            environment: name of an environment that the service has.
            completion: what the model wrote.
            prompt: the model's prompt, as text or chat messages.
            reference: the reference that the environment grades against.
            task: a task that the environment generates, in place of `prompt` and `reference`.
            key: idempotency key; by default a new one.

        Raises:
            UsageError: an argument is invalid.
            ServiceError: the service refuses the item.
            ServiceUnreachable: the service could not be reached in time.
        """
        request = wire.request(environment, completion, prompt=prompt, reference=reference, task=task)
        response = await self._ask("POST", "/score", wire.encode(request), wire.checked_key(key))
        return wire.decode(response.content, Score)

    item = staticmethod(wire.item)

    async def score_batch(self, items: Iterable[BatchItem], *, size: int = 1000) -> AsyncIterator[BatchAnswer]:
        """Grade many items in several requests; yield each answer as it arrives, with the position of its item in `index`.

        Args:
            items: the items, made by `item`.
            size: maximum number of items per request; a request with long items holds fewer.

        Raises:
            ServiceError: the service refuses a request.
            ServiceUnreachable: the service could not be reached in time.
        """
        parts = wire.runs(items, size)
        run, following = next(parts, None), None
        while run is not None:
            tries = Tries(self._retries)
            while not run.done:
                failure: httpx.TransportError | httpx.Response
                try:
                    request = self._http.build_request("POST", "/score/batch", content=run.body(), headers=wire.NDJSON_HEADERS)
                    response = await self._http.send(request, stream=True)
                    try:
                        if response.is_success:
                            following = following or next(parts, None)  # made while the service grades
                            async for line in response.aiter_lines():
                                if (answer := run.take(line)) is not None:
                                    tries.progress()
                                    yield answer
                            if run.done:
                                continue
                            if not run.postponed:
                                raise ServiceError(response.status_code, "incomplete", "the answer has no line for some items")
                            failure = httpx.Response(503)  # as if the service had stopped before
                        else:
                            await response.aread()
                            failure = response
                    finally:
                        await response.aclose()
                    if failure.status_code not in PASSING:
                        raise refusal(failure)
                except httpx.TransportError as error:
                    failure = error
                await asyncio.sleep(tries.pause_s(failure))
            run, following = following or next(parts, None), None

    async def environments(self) -> list[ServedEnvironment]:
        """Return the environments that the service has.

        Raises:
            ServiceError, ServiceUnreachable: as for `score`.
        """
        response = await self._ask("GET", "/environments")
        return list(wire.decode(response.content, EnvironmentList).environments)

    async def ready(self) -> bool:
        """Return True if the service accepts work now. One request is sent, without retries."""
        try:
            response = await self._http.get("/readyz")
        except httpx.TransportError:
            return False
        return response.is_success

    async def episode(
        self,
        environment: str,
        *,
        prompt: str | Sequence[Mapping[str, str]] | None = None,
        reference: Mapping[str, Any] | None = None,
        task: GeneratedTask | None = None,
        seed: str = "0",
        max_turns: int | None = None,
        turns: Sequence[Turn] = (),
    ) -> AsyncRemoteEpisode:
        """Begin an episode and return it.

        Args:
            environment: name of an environment that the service has and that has episodes.
            prompt: the task, as text or chat messages.
            reference: the reference that the environment grades against.
            task: a task that the environment generates, in place of `prompt` and `reference`.
            seed: identifies the episode; all randomness of its session is derived from it.
            max_turns: maximum number of model turns; None for the service's own limit.
            turns: the turns of a saved, unfinished episode that is to be continued.

        Raises:
            UsageError, ServiceError, ServiceUnreachable: as for `score`.
        """
        request = wire.opening(
            environment, prompt=prompt, reference=reference, task=task, seed=seed, max_turns=max_turns, turns=turns
        )
        return AsyncRemoteEpisode(self, wire.EpisodeLog(request, await self._opened(request)))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self, request: OpenEpisode) -> OpenedEpisode:
        response = await self._ask("POST", "/episodes", wire.encode(request), wire.key())
        return wire.decode(response.content, OpenedEpisode)

    async def _ask(self, method: str, path: str, body: bytes | None = None, key: str | None = None) -> httpx.Response:
        tries = Tries(self._retries)
        while True:
            failure: httpx.TransportError | httpx.Response
            try:
                headers = None if body is None else wire.headers_with(key)
                response = await self._http.request(method, path, content=body, headers=headers)
                if response.is_success:
                    return response
                if response.status_code not in PASSING:
                    raise refusal(response)
                failure = response
            except httpx.TransportError as error:
                failure = error
            await asyncio.sleep(tries.pause_s(failure))


class AsyncRemoteEpisode:
    """An episode that runs on the service: `turn` plays it, `end` grades it.

    Leaving a `with` block drops the episode if `end` has not been called. If the service has lost the episode, for example by a
    restart, it is opened again and its turns are replayed.

    Args:
        client: the client that opened the episode.
        log: the request, the turns and the replies so far.
    """

    def __init__(self, client: AsyncClient, log: wire.EpisodeLog) -> None:
        self._client, self._log = client, log

    @property
    def messages(self) -> Sequence[Message]:
        """The messages that the model reads before its next turn."""
        return self._log.messages

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The tools that the model may call."""
        return self._log.opened.tools

    @property
    def done(self) -> bool:
        """True once no further turn is accepted."""
        return self._log.done

    async def turn(self, text: str) -> TurnReply:
        """Play `text` as the model's next turn and return the session's reply.

        Raises:
            ServiceError: the episode is over, or `max_turns` is reached.
            ServiceUnreachable: the service could not be reached in time.
        """
        request = PlayTurn(turn=self._log.number, text=text)
        response = await self._ask("/turns", wire.encode(request), again=not self._log.done)
        reply = wire.decode(response.content, TurnReply)
        self._log.add(text, reply)
        return reply

    async def end(self, finish_reason: Literal["length", "turns", "context"] = "turns") -> EndedEpisode:
        """End the episode; return it with its score.

        Args:
            finish_reason: why the model stopped, if the episode is not over by itself.

        Raises:
            ServiceError: the episode was over and the service has lost it.
            ServiceUnreachable: the service could not be reached in time.
        """
        request = EndEpisode(finish_reason=finish_reason)
        response = await self._ask("/end", wire.encode(request), again=not self._log.done)
        ended = wire.decode(response.content, EndedEpisode)
        self._log.done = True
        await self._give_up()
        return ended

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._give_up()

    async def _give_up(self) -> None:
        """Let the service forget it; where that fails, the service does so in time."""
        try:
            await self._client._http.delete(f"/episodes/{self._log.id}")
        except httpx.TransportError:
            return

    async def _ask(self, what: str, body: bytes, *, again: bool) -> httpx.Response:
        try:
            return await self._client._ask("POST", f"/episodes/{self._log.id}{what}", body)
        except ServiceError as error:
            if error.code != "not_found" or not again:
                raise
        self._log.reopened(await self._client._opened(self._log.reopening()))
        return await self._client._ask("POST", f"/episodes/{self._log.id}{what}", body)
