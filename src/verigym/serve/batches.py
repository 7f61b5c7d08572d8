"""Runs a batch: passes a limited number of items at a time to the grader, and streams the verdicts to the client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from verigym.envs.contract.schema import Score
from verigym.serve.desk import Answer, Desk
from verigym.serve.reading import NDJSON
from verigym.serve.schemas import BatchItem

WINDOW = 256
"""Maximum number of items of one batch that are in the grader at the same time. This is enough to keep all workers busy, and
other requests still get their turn."""
_CHUNK = 64
_PAUSE_S = 0.02
"""Verdicts that come so close together go out together: fewer wake-ups here, and fewer pieces for the client."""


class BatchResponse(Response):
    """Response to a batch: it streams one JSON line per item, in the order of the verdicts.

    The items must have been admitted with `Desk.admit` before.

    If the client disconnects, items with an idempotency key are still graded and their answers stored, so that the client can
    ask again; items without a key are dropped.

    Args:
        desk: grades the items.
        items: the items of the request.
        keys: the idempotency key of each item, or None.
    """

    media_type = NDJSON

    def __init__(self, desk: Desk, items: Sequence[BatchItem], keys: Sequence[str | None]) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._desk, self._items, self._keys = desk, items, keys
        self._lines: deque[bytes] = deque()
        self._arrived, self._all = asyncio.Event(), asyncio.Event()
        self._answered = 0
        self._loop = asyncio.get_running_loop()
        self._told = False
        self._submitted = 0
        self._open: dict[int, Future[Score]] = {}
        """Verdicts to come that nobody could ask for again."""
        self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        leaving = asyncio.create_task(self._watch(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._stream(send)
        finally:
            leaving.cancel()
            self._leave()
            if rest := len(self._items) - self._submitted:  # the process is about to end
                self._desk.release(rest)

    async def _stream(self, send: Send) -> None:
        while self._answered < len(self._items):
            while self._submitted < len(self._items) and self._submitted - self._answered <= WINDOW - _CHUNK:
                await self._feed()
            await self._arrived.wait()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all.wait(), _PAUSE_S)
            self._arrived.clear()
            self._told = False
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            self._answered += len(lines)
            await self._send(send, b"".join(lines))
        await self._send(send, b"", more=False)

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        if not self._gone:
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def _leave(self) -> None:
        """Give up what only this client could have got."""
        self._gone = True
        for future in list(self._open.values()):
            future.cancel()

    async def _feed(self) -> None:
        upto = min(self._submitted + _CHUNK, len(self._items))
        await asyncio.to_thread(self._submit, self._submitted, upto)

    def _submit(self, start: int, end: int) -> None:
        for index in range(start, end):
            if self._gone and self._keys[index] is None:
                self._desk.release()
                self._take(b"")
                self._submitted += 1
                continue
            future = self._desk.submit(self._items[index], self._keys[index], _Line(self, index))
            self._submitted += 1
            if future is not None and not future.done():
                self._open[index] = future
                future.add_done_callback(lambda done, index=index: self._closed(index, done))  # type: ignore[misc]

    def _closed(self, index: int, future: Future[Score]) -> None:
        self._open.pop(index, None)
        if future.cancelled():
            self._take(b"")

    def line(self, index: int, answer: Answer) -> None:
        """Queue the `answer` to item number `index` for sending; may be called in any thread."""
        head = f'{{"index":{index},"id":{json.dumps(self._items[index].id)},'
        tail = b'"score":%b}\n' % answer.score if answer.problem is None else b'"problem":%b}\n' % answer.problem.body
        self._take(head.encode() + tail)

    def _take(self, line: bytes) -> None:
        self._lines.append(line)
        if not self._told:
            self._told = True
            self._loop.call_soon_threadsafe(self._arrived.set)
        if self._answered + len(self._lines) >= len(self._items):
            self._loop.call_soon_threadsafe(self._all.set)


class _Line:
    def __init__(self, batch: BatchResponse, index: int) -> None:
        self._batch, self._index = batch, index

    def __call__(self, answer: Answer) -> None:
        self._batch.line(self._index, answer)


def item_keys(items: Sequence[BatchItem], of_request: str | None) -> list[Any]:
    """Return the idempotency key of each item, in order.

    This is the item's own key if it has one, else a key made from the request's key and the item's position, else None.
    """
    return [item.key or (None if of_request is None else f"{of_request}#{place}") for place, item in enumerate(items)]
