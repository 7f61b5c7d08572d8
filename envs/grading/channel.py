"""Length-prefixed messages over a socket pair, with a deadline on both directions.

Only bytes cross, read as JSON: the trusted process never rebuilds objects from what a process that handled untrusted
text has sent.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

MAX_MESSAGE_BYTES = 64 * 2**20
_HEADER = struct.Struct(">I")
_CHUNK_BYTES = 1 << 16


def encode(message: dict[str, Any]) -> bytes:
    """Return JSON in ASCII, in which a lone surrogate is an escape and not an error."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")


class Channel:
    """One end of a socket pair. A deadline is a `time.monotonic()` value; None waits for ever."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()

    def send(self, payload: bytes, deadline: float | None = None) -> None:
        """Send one message.

        Raises:
            ValueError: the message is longer than `MAX_MESSAGE_BYTES`.
            TimeoutError: the other side did not read it in time.
        """
        if len(payload) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(payload)} bytes; at most {MAX_MESSAGE_BYTES} are sent")
        self._arm(deadline)
        self._socket.sendall(_HEADER.pack(len(payload)) + payload)

    def receive(self, deadline: float | None = None) -> bytes:
        """Return the next message.

        Raises:
            EOFError: the other side is gone.
            ValueError: it announced more than `MAX_MESSAGE_BYTES`.
            TimeoutError: no whole message came in time.
        """
        (size,) = _HEADER.unpack(self._read(_HEADER.size, deadline))
        if size > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {size} bytes was announced; at most {MAX_MESSAGE_BYTES} are read")
        return self._read(size, deadline)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _read(self, size: int, deadline: float | None) -> bytes:
        while len(self._buffer) < size:
            self._arm(deadline)
            chunk = self._socket.recv(_CHUNK_BYTES)
            if not chunk:
                raise EOFError("the other side closed the connection")
            self._buffer += chunk
        message = bytes(self._buffer[:size])
        del self._buffer[:size]
        return message

    def _arm(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        self._socket.settimeout(left)
