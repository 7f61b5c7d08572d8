"""The supervisor's end of a channel: frames out and in, without ever waiting outside the event loop."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

from verigym.sandbox.event_loop import Run, poll_runs
from verigym.sandbox.inside.wire import frames

_CHUNK = 1 << 16
_FEW_MARKS = 10_000


class Channel:
    """Frames over a socket, while the runs are being served.

    Args:
        sock: our end; becomes non-blocking and is closed by `close`.
        largest: bytes that a frame from the other side may have.
    """

    def __init__(self, sock: socket.socket, largest: int) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._largest = largest
        self._buffer = bytearray()
        self.ended = False
        """The other side has closed it."""
        self.broken = ""
        """Why what came is no frame."""
        self.too_large = False
        """Whether it is that: more bytes than allowed."""

    def send(self, message: dict[str, Any], runs: Sequence[Run]) -> None:
        """Send a frame. One that nobody reads any more is dropped: what the other side said before it went still counts."""
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
        """Return the next frame; None where there will be none: see `broken` and `ended`, or all runs are done.

        Args:
            runs: to be served meanwhile.
            given_up: asked whether to go on waiting.
            not_before: monotonic time until which it is not looked for, unless a run ends.
        """
        found: list[dict[str, Any]] = []

        def settled() -> bool:
            message = self._next()
            if message is not None:
                found.append(message)
            return bool(found) or bool(self.broken) or self.ended or given_up()

        poll_runs(runs, watch={self._sock.fileno(): self._on_readable}, until=settled, watch_from=not_before)
        while not found and not self.broken and self._read():  # what was written before the end
            settled()
        return found[0] if found else None

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
            # A list of nothing but brackets unfolds to twenty times its text.
            return frames.parse(payload, max(self._largest // 4, _FEW_MARKS))
        except frames.FrameError as error:
            self.broken = str(error)
            return None

    def close(self) -> None:
        """Close our end."""
        self._sock.close()
