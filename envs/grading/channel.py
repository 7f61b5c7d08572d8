"""Messages between a grader and its worker over a socket pair, with deadlines for sending and receiving.

A message is a frame as in the sandbox: a length, then a JSON object. JSON is used instead of pickle because the worker has
handled untrusted text: what it sends must not be able to create other objects in the trusted process.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from verigym.sandbox.inside.wire import frames

MAX_MESSAGE_BYTES = 64 * 2**20
_LENGTH_BYTES = 4
_CHUNK_BYTES = 1 << 16
SLICE_S = 0.5
"""The longest wait for a reply at a time."""
STILL_S = 1.0
"""A wait that ends this many seconds late means that this process was stopped, as by SIGSTOP."""


def encode(message: dict[str, Any]) -> bytes:
    """Return `message` as the bytes to pass to `Channel.send`.

    Raises:
        ValueError: `message` is not JSON, or is longer than `MAX_MESSAGE_BYTES`.
    """
    return frames.pack(message, MAX_MESSAGE_BYTES)


class Channel:
    """One end of a socket pair. A deadline is a `time.monotonic()` value; with None a call waits without limit."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._stood_s = 0.0
        """Seconds for which this process was stopped while it waited for the current message; they extend the deadline."""

    def send(self, frame: bytes, deadline: float | None = None) -> None:
        """Send `frame`, the bytes that `encode` returned.

        Raises:
            TimeoutError: the other side did not read all of it before `deadline`.
        """
        self._arm(deadline)
        self._socket.sendall(frame)

    def receive(self, deadline: float | None = None) -> dict[str, Any]:
        """Return the next message from the other side.

        Raises:
            EOFError: the other side closed the connection.
            ValueError: the other side sent no JSON object, or announced more than `MAX_MESSAGE_BYTES`.
            TimeoutError: no complete message came before `deadline`.
        """
        self._stood_s = 0.0
        size = int.from_bytes(self._read(_LENGTH_BYTES, deadline), "big")
        if size > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {size} bytes was announced; at most {MAX_MESSAGE_BYTES} are read")
        return frames.parse(self._read(size, deadline), MAX_MESSAGE_BYTES)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        while len(self._buffer) < size:
            self._arm(None if deadline is None else deadline + self._stood_s, SLICE_S)
            begun = time.monotonic()
            try:
                chunk = self._socket.recv(_CHUNK_BYTES)
            except TimeoutError:
                continue
            finally:
                late = time.monotonic() - begun - SLICE_S
                if late >= STILL_S:  # this process was stopped, as under SIGSTOP: the other side need not pay for that
                    self._stood_s += late
            if not chunk:
                raise EOFError("the other side closed the connection")
            self._buffer += chunk
        message = bytes(self._buffer[:size])
        del self._buffer[:size]
        return message

    def _arm(self, deadline: float | None, most_s: float | None = None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._socket.settimeout(left if most_s is None else min(left, most_s))
