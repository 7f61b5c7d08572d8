"""The supervisor's end of a channel (a socket) to a run: sends and receives frames, and blocks only in the event loop."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

from verigym.sandbox.event_loop import Run, poll_runs
from verigym.sandbox.inside.wire import frames

_CHUNK = 1 << 16
_FEW_MARKS = 10_000


class Channel:
    """Exchanges frames over a socket while the event loop serves the runs.

    Args:
        sock: our end of the socket; made non-blocking, closed by `close`.
        largest: maximum size in bytes of a received frame.
    """

    def __init__(self, sock: socket.socket, largest: int) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._largest = largest
        self._buffer = bytearray()
        self.ended = False
        """Whether the other side has closed the channel."""
        self.broken = ""
        """The reason why the received bytes are not a frame; empty if they are valid so far."""
        self.too_large = False
        """Whether the reason is that a frame was larger than allowed."""

    def send(self, message: dict[str, Any], runs: Sequence[Run]) -> None:
        """Send `message` as a frame, serving `runs` meanwhile.

        If the other side is gone, the frame is dropped without an error, so that frames sent earlier by that side can be
        received.
        """
        rest = memoryview(frames.pack(message))

        def more() -> None:
            nonlocal rest
            try:
                rest = rest[self._sock.send(rest) :]
            except BlockingIOError:
                pass
            except OSError:
                rest = rest[len(rest) :]

        more()
        poll_runs(runs, write={self._sock.fileno(): more}, until=lambda: not rest)

    def receive(
        self, runs: Sequence[Run], given_up: Callable[[], bool] = lambda: False, *, not_before: float = 0.0
    ) -> dict[str, Any] | None:
        """Return the next frame. Return None if no frame will come, or if `given_up()` returned True.

        No frame will come if all runs are done, if the other side closed the channel (`ended`), or if it sent data that is not
        a frame (`broken`).

        Args:
            runs: the runs to serve meanwhile.
            given_up: returns True to stop waiting.
            not_before: monotonic time before which the channel is not polled, except when a run ends.
        """
        received: list[dict[str, Any]] = []

        def settled() -> bool:
            message = self._next()
            if message is not None:
                received.append(message)
            return bool(received) or bool(self.broken) or self.ended or given_up()

        poll_runs(runs, watch={self._sock.fileno(): self._on_readable}, until=settled, watch_from=not_before)
        while not received and not self.broken and self._read():  # what was written before the end
            settled()
        return received[0] if received else None

    def _on_readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        try:
            data = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self.ended = not data
        self._buffer += data
        return bool(data)

    def _next(self) -> dict[str, Any] | None:
        if len(self._buffer) < 4 or self.broken:
            return None
        size = int.from_bytes(self._buffer[:4], "big")
        if size > self._largest:
            self.broken = f"an answer of {size} bytes, above the limit of {self._largest}"
            self.too_large = True
            return None
        if len(self._buffer) < 4 + size:
            return None
        payload = bytes(self._buffer[4 : 4 + size])
        del self._buffer[: 4 + size]
        try:
            # A list of nothing but brackets takes twenty times its text in memory.
            return frames.parse(payload, max(self._largest // 4, _FEW_MARKS))
        except frames.FrameError as error:
            self.broken = str(error)
            return None

    def close(self) -> None:
        """Close our end of the channel's socket."""
        self._sock.close()
