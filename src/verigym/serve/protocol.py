"""HTTP connections with time limits for incomplete requests, so that slow clients cannot block the service.

uvicorn only has a timeout between requests. Here the head and the body of a request each have a timeout, too. The number of
connections with an incomplete request is limited: above the limit, the connection that has waited longest is closed, so that
many slow clients cannot keep others out.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from verigym.serve.metrics import Metrics
from verigym.serve.problems import Problem
from verigym.serve.settings import ServiceLimits

BODY_GRACE_S = 5.0
"""Seconds that a connection with a late body stays open beyond the time limit `body_s`, so that `Guard` can answer first."""


class Waiting:
    """The connections of a service that are still sending their request, in the order in which the requests began."""

    def __init__(self, limits: ServiceLimits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self._connections: OrderedDict[GuardedProtocol, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: GuardedProtocol) -> None:
        """Add a waiting connection. If there are now too many, close the connection that has waited longest."""
        self._connections[connection] = None
        if len(self._connections) > self.limits.waiting_connections:
            oldest, _ = self._connections.popitem(last=False)
            oldest.give_up("crowded_out")

    def remove(self, connection: GuardedProtocol) -> None:
        """Remove a connection because its request is complete or the connection is closed."""
        self._connections.pop(connection, None)


class GuardedProtocol(H11Protocol):
    """One HTTP connection, with limits on how long a request may take to arrive. `guarded_protocol` makes the class to use."""

    waiting: ClassVar[Waiting]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._timed: str = ""
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request on a new connection, or refuse the connection if too many are open."""
        super().connection_made(transport)
        limits = self.waiting.limits
        if len(self.connections) > limits.connections:
            self.waiting.metrics.refused("connections")
            self._refuse(Problem("unavailable", f"{limits.connections:,} connections are open already", retry_after_s=1))
            return
        self._wait("head", limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        self._settle()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process `data` and set the timer for the part of the request that is still missing."""
        super().data_received(data)
        self._look(began=bool(data))

    def on_response_complete(self) -> None:
        """Go on to the next request, part of which may already have arrived."""
        super().on_response_complete()
        self._look(began=bool(self.conn.trailing_data[0]))

    def give_up(self, why: str) -> None:
        """Close a connection with an incomplete request; `why` is the reason under which the metrics count this."""
        self._settle()
        if self.transport.is_closing():
            return
        self.waiting.metrics.refused(why)
        unanswered = self.conn.our_state is h11.IDLE and self.conn.their_state is h11.IDLE
        if unanswered and why == "slow_head":
            self._refuse(Problem("timeout", f"no whole request came in {self.waiting.limits.head_s:g} s"))
        else:
            self.transport.abort()

    def _look(self, began: bool) -> None:
        state = self.conn.their_state
        if self.transport.is_closing():
            self._settle()
        elif state is h11.SEND_BODY:
            self._wait("body", self.waiting.limits.body_s + BODY_GRACE_S)
        elif state is h11.IDLE and began:
            self._wait("head", self.waiting.limits.head_s)
        elif state is not h11.IDLE:
            self._settle()

    def _wait(self, what: str, seconds: float) -> None:
        if self._timed == what:
            return
        if self._timer is not None:
            self._timer.cancel()
        first, self._timed = not self._timed, what
        self._timer = self.loop.call_later(seconds, self.give_up, f"slow_{what}")
        if first:
            self.waiting.add(self)

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timed = None, ""
        self.waiting.remove(self)

    def _refuse(self, problem: Problem) -> None:
        headers = {**problem.headers, "Content-Type": "application/json", "Connection": "close"}
        lines = [f"HTTP/1.1 {problem.status} {problem.code.title()}", *(f"{name}: {value}" for name, value in headers.items())]
        head = "\r\n".join([*lines, f"Content-Length: {len(problem.body)}", "", ""])
        self.transport.write(head.encode() + problem.body)
        self.transport.close()

    def pause_writing(self) -> None:
        """Stop writing until the client has read what was sent, and start a timer that cuts off a client that is too slow."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.waiting.limits.write_s, self._unread_for_long)

    def resume_writing(self) -> None:
        """Resume writing after the client has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _unread_for_long(self) -> None:
        self.waiting.metrics.refused("slow_reader")
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer input that is not HTTP with status 400."""
        self.waiting.metrics.refused("malformed")
        if self.cycle is not None and not self.cycle.response_complete:  # in the middle of a body: nobody else may answer
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()


def guarded_protocol(limits: ServiceLimits, metrics: Metrics) -> type[GuardedProtocol]:
    """Return the connection class for one service; its instances share one collection of waiting connections."""
    return type("ServiceProtocol", (GuardedProtocol,), {"waiting": Waiting(limits, metrics)})
