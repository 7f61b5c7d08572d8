"""`Guard`: the outermost ASGI middleware, which checks access tokens, host names and body sizes before any route runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from verigym.serve.metrics import Metrics
from verigym.serve.problems import Problem
from verigym.serve.settings import ServiceLimits
from verigym.serve.tokens import Tokens, is_local_name

logger = logging.getLogger("verigym.serve")

Scope = MutableMapping[str, Any]
MessageIn = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MessageIn]]
Send = Callable[[MessageIn], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FREE = ("/healthz", "/readyz")
"""Paths that need no token, because they are for health checks by a process supervisor."""
OTHER = "other"
LINGER_S = 2.0
"""Maximum time in seconds for which the rest of a refused body is still read, so that the client can receive the refusal."""


class Guard:
    """ASGI middleware that protects the service, and counts all requests.

    It refuses a request that has no valid token, that is for another host, or whose body is too large or arrives too slowly.

    Args:
        app: the application to protect.
        tokens: the accepted tokens; empty if the service listens on loopback only. Without tokens, the Host header must name
            this machine, so that a web page cannot reach the service under a host name that the page's owner controls.
        limits: limits on bodies.
        metrics: counts requests.
    """

    def __init__(self, app: App, tokens: Tokens, limits: ServiceLimits, metrics: Metrics) -> None:
        self._app, self._tokens, self._limits, self._metrics = app, tokens, limits, metrics
        self.held_bytes = 0
        """Bodies that are held now."""
        self.active = 0
        """Number of requests that have been read and are not completely answered yet, without those to the paths `FREE`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        counted = scope["path"] not in FREE

        async def noting(message: MessageIn) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        held = [0]
        try:
            try:
                self._admit(scope)
                if scope["path"] in FREE:
                    _refuse_body(scope)
                else:
                    receive = _replay(await self._body(scope, receive, held), receive)
            except Problem as problem:
                self._metrics.refused(problem.code)
                await _answer(noting, problem, receive if _sends_on(scope, problem) else None)
                return
            except ConnectionError:
                return
            self.active += counted
            try:
                await self._app(scope, receive, noting)
            finally:
                self.active -= counted
        finally:
            self.held_bytes -= held[0]
            route = getattr(scope.get("route"), "path", OTHER)
            self._metrics.request(scope["method"], route, status, time.perf_counter() - started)

    def _admit(self, scope: Scope) -> None:
        if scope["path"] in FREE:
            return
        headers = dict(scope["headers"])
        if self._tokens:
            if not self._tokens.accept(headers.get(b"authorization")):
                raise Problem("unauthorized", "this service demands a token: send the header Authorization: Bearer TOKEN")
        elif not is_local_name(headers.get(b"host")):
            raise Problem("forbidden", "without a token this service answers requests to localhost or 127.0.0.1 only")

    async def _body(self, scope: Scope, receive: Receive, held: list[int]) -> bytes:
        """Return the whole body; `held[0]` is what it takes of the bytes that are held.

        Raises:
            Problem: it is too large, too late, or more than can be held at present.
            ConnectionError: the client went away.
        """
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        most = self._limits.body_bytes
        if len(announced) > 18 or int(announced) > most:
            raise Problem("too_large", f"the body has {announced.decode()[:18]} bytes; at most {most:,} are taken")
        chunks: list[bytes] = []
        try:
            async with asyncio.timeout(self._limits.body_s):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionResetError
                    chunk = message.get("body", b"")
                    more = message.get("more_body", False)
                    chunks.append(chunk)
                    held[0] += len(chunk)
                    self.held_bytes += len(chunk)
                    if held[0] > most:
                        raise Problem("too_large", f"the body has more than the {most:,} bytes that are taken")
                    if self.held_bytes > self._limits.bodies_bytes:
                        raise Problem("overloaded", "too many requests are being read; send this one later", retry_after_s=1)
        except TimeoutError:
            raise Problem("timeout", f"the body was not there after {self._limits.body_s:g} s") from None
        return b"".join(chunks)


def _refuse_body(scope: Scope) -> None:
    """Refuse a body where no token is asked for: whoever sends it could take the room of those who have one.

    Raises:
        Problem: one is announced.
    """
    for name, value in scope["headers"]:
        if name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0")):
            raise Problem("too_large", f"{scope['path']!r} takes no body; leave it out", headers={"Connection": "close"})


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read, and then what comes."""
    left: list[MessageIn] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> MessageIn:
        return left.pop() if left else await receive()

    return again


def _sends_on(scope: Scope, problem: Problem) -> bool:
    """Return whether a body may still come on a connection that the server closes after the answer.

    A client that announces `Expect: 100-continue` sends no body before it is told to.
    """
    headers = dict(scope["headers"])
    closes = b"close" in headers.get(b"connection", b"").lower() or "Connection" in problem.headers
    return closes and b"expect" not in headers and problem.code != "timeout"


async def _answer(send: Send, problem: Problem, receive: Receive | None = None) -> None:
    """Send the answer of a refused request.

    With `receive`, the rest of its body is read and dropped afterwards, for `LINGER_S` at most: a connection that is closed
    while bytes are there that nobody read may take with it an answer that the client has not read (RFC 9112, section 9.6).
    """
    headers = {"Content-Type": "application/json", "Content-Length": str(len(problem.body)), **problem.headers}
    if problem.code == "timeout":  # what is left of one that is too large is dropped: its sender must see the answer
        headers["Connection"] = "close"
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    if receive is not None:
        await send({"type": "http.response.body", "body": problem.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while (await receive()).get("more_body", False):
                    pass
    await send({"type": "http.response.body", "body": b"" if receive is not None else problem.body, "more_body": False})
