"""The stream to the process that serves runs in a container: the daemon's attach socket, demultiplexed and non-blocking."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Iterable, Iterator
from typing import Any

from verigym.sandbox.inside.cell.relay import HEADER

_CHUNK = 1 << 16
_SMALL = 1 << 12
_MOST_COMPLAINTS = 4000
_STDERR = 2
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class StreamGone(Exception):
    """The stream has ended: the container or the daemon is gone."""


class AttachStream:
    """Sends and receives frames over the socket that is attached to a container's standard streams.

    Args:
        attached: the result of docker's `attach_socket`.
    """

    def __init__(self, attached: Any) -> None:
        self.sock = _own(attached)
        self.sock.setblocking(False)
        self._waiting: list[memoryview] = []
        self._raw = bytearray()
        self._frames = bytearray()
        self.complaints = b""
        """What the Python interpreter in the container wrote to standard error, for instance why it could not start."""

    def fileno(self) -> int:
        """Return the descriptor of the attached socket."""
        return self.sock.fileno()

    @property
    def events(self) -> int:
        """The epoll events to wait for: readable, and writable while data waits to be sent."""
        return select.EPOLLIN | (select.EPOLLOUT if self._waiting else 0)

    def send(self, kind: int, body: bytes | memoryview = b"") -> None:
        """Send a frame of type `kind`. What the socket does not accept at once waits for `flush`.

        Raises:
            StreamGone: the stream has ended.
        """
        self.send_all([(kind, memoryview(body))])

    def send_all(self, frames: Iterable[tuple[int, memoryview]]) -> None:
        """Send `frames`, pairs of kind and body. Small frames are joined, because the daemon forwards each piece separately.

        Raises:
            StreamGone: the stream has ended.
        """
        pieces: list[bytes | memoryview] = []
        small = bytearray()
        for kind, body in frames:
            small += HEADER.pack(kind, len(body))
            if len(body) < _SMALL:
                small += body
            else:
                pieces += [bytes(small), body]
                small.clear()
        self.send_raw(*pieces, bytes(small))

    def send_raw(self, *pieces: bytes | memoryview) -> None:
        """Send `pieces`, which are bytes outside of any frame. What the socket does not accept at once waits for `flush`.

        Raises:
            StreamGone: the stream has ended.
        """
        self._waiting += [memoryview(piece) for piece in pieces if piece]
        self.flush()

    def flush(self) -> None:
        """Send as much of the waiting data as the socket accepts.

        Raises:
            StreamGone: the stream has ended.
        """
        while self._waiting:
            try:
                sent = self.sock.send(self._waiting[0])
            except _WOULD_BLOCK:
                return
            except OSError as error:
                raise StreamGone(error.strerror or str(error)) from None
            rest = self._waiting[0][sent:]
            if rest:
                self._waiting[0] = rest
            else:
                self._waiting.pop(0)

    def receive(self) -> Iterator[tuple[int, memoryview]]:
        """Read the available data and yield each complete frame as `(kind, body)`. A body is valid until the next frame.

        Raises:
            StreamGone: the stream has ended. All frames received before are yielded first.
        """
        gone: str | None = None
        while True:
            try:
                data = self.sock.recv(_CHUNK)
            except _WOULD_BLOCK:
                break
            except OSError as error:
                gone = error.strerror or str(error)
                break
            if not data:
                gone = "it ended"
                break
            self._raw += data
            self._unwrap()
            if len(data) < _CHUNK and not isinstance(self.sock, ssl.SSLSocket):
                break
        yield from self._complete()
        if gone is not None:
            raise StreamGone(gone)

    def _unwrap(self) -> None:
        # The daemon puts 8 bytes before each piece: which stream, three zeros, the length.
        position = 0
        while len(self._raw) - position >= 8:
            length = int.from_bytes(self._raw[position + 4 : position + 8], "big")
            if len(self._raw) - position - 8 < length:
                break
            piece = self._raw[position + 8 : position + 8 + length]
            if self._raw[position] == _STDERR:
                self.complaints = (self.complaints + bytes(piece))[-_MOST_COMPLAINTS:]
            else:
                self._frames += piece
            position += 8 + length
        del self._raw[:position]

    def _complete(self) -> Iterator[tuple[int, memoryview]]:
        data = bytes(self._frames)
        view, position = memoryview(data), 0
        while len(data) - position >= HEADER.size:
            kind, length = HEADER.unpack_from(data, position)
            end = position + HEADER.size + length
            if len(data) < end:
                break
            del self._frames[: end - position]
            body = view[position + HEADER.size : end]
            position = end
            yield kind, body

    def close(self) -> None:
        """Close the stream; the process that serves runs in the container then ends."""
        self.sock.close()


def _own(attached: Any) -> socket.socket:
    """Detach the connection from the HTTP client, which would otherwise decide when to close it."""
    sock: socket.socket = getattr(attached, "_sock", attached)
    if isinstance(sock, ssl.SSLSocket):
        return sock
    own = socket.socket(fileno=os.dup(sock.fileno()))
    response = getattr(attached, "_response", None)
    if response is not None:
        response.close()
    attached.close()
    sock.close()
    return own
