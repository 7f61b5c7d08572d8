"""Frames over one byte stream to the supervisor, with buffers that can be wiped and credit-based flow control.

A frame is type (1 byte), length (4 bytes), body. Neither side ever blocks because a program does not read: a sender may send
only as many bytes as it has credit for, and the receiver returns the credit when it has processed the bytes. There is one
credit for all data to the supervisor, and one for each channel to the program. So a KILL frame always arrives.

Supervisor -> cell: RUN (length of the header), PAYLOAD (the header in JSON, then standard input and the content of each file),
CHANNEL (index of the channel, data), SHUT (index of a channel that ends), CREDITED (number of bytes of returned credit), KILL.
Cell -> supervisor: READY (JSON), STDOUT (data), STDERR (data), CHANNEL and SHUT as above, CREDITED (index of the channel,
number of bytes), FILE (index of the file, data), DONE (JSON).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

HEADER = struct.Struct(">BI")
ACK = struct.Struct(">I")
BODY = 1 << 16
"""Maximum length of a frame's body."""
CREDIT = 1 << 18
"""Bytes that may be in flight to the supervisor."""
CHANNEL_CREDIT = 1 << 16
"""Bytes that may be in flight to the program on each channel."""

RUN, PAYLOAD, CHANNEL, SHUT, CREDITED, KILL, READY, STDOUT, STDERR, FILE, DONE = b"RPCSAKYOEFD"
_FRAME = HEADER.size + BODY
ON_CREDIT = (STDOUT, STDERR, CHANNEL, FILE)
"""Frames towards the supervisor whose bodies use credit."""


class Relay:
    """Sends and receives frames through buffers that can be overwritten with zeros."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.credit = CREDIT
        self._sink = sink
        self._in = memoryview(bytearray(BODY))
        self._out = memoryview(bytearray(2 * _FRAME))
        self._held = 0  # bytes of frames in `_out` that have not been sent
        self._zeros = bytes(2 * _FRAME)

    @property
    def body(self) -> memoryview:
        """The buffer for the body of the next outgoing frame."""
        return self._out[self._held + HEADER.size :][:BODY]

    def receive(self) -> tuple[int, memoryview]:
        """Return the kind and the body of the next frame; the body is valid until the next call."""
        head = bytearray(HEADER.size)
        self._fill(memoryview(head))
        kind, length = HEADER.unpack(head)
        body = self._in[:length]
        self._fill(body)
        return kind, body

    def receive_payload(self, size: int) -> bytes:
        """Return the next `size` bytes of payload. Use this method for headers only: its copy of the bytes cannot be wiped."""
        data = bytearray()
        while len(data) < size:
            kind, body = self.receive()
            if kind == PAYLOAD:
                data += body
        return bytes(data)

    def _fill(self, view: memoryview) -> None:
        while view:
            count = os.readv(self.source, [view])
            if not count:
                os._exit(0)  # the supervisor is gone; as pid 1 this takes the container along
            view = view[count:]

    def send(self, kind: int, length: int, *, hold: bool = False) -> None:
        """Send a frame of `kind` with the first `length` bytes of `body`.

        With `hold`, the frame is sent together with the next frame, since every write wakes the container daemon.
        """
        HEADER.pack_into(self._out, self._held, kind, length)
        self._held += HEADER.size + length
        if kind in ON_CREDIT:
            self.credit -= length
        if not hold or self._held > _FRAME:
            self.flush()

    def flush(self) -> None:
        """Send the frames that `send` held back."""
        rest, self._held = self._out[: self._held], 0
        try:
            while rest:
                rest = rest[os.write(self._sink, rest) :]
        except OSError:
            os._exit(0)

    def send_json(self, kind: int, value: Mapping[str, Any]) -> None:
        """Send a frame of `kind` that contains `value` as JSON."""
        data = json.dumps(value).encode()[:BODY]
        self.body[: len(data)] = data
        self.send(kind, len(data))

    def wipe(self) -> None:
        """Overwrite the buffers with zeros before the next run."""
        self._in[:] = self._zeros[:BODY]
        self._out[:] = self._zeros
        self.credit = CREDIT


class Channel:
    """The container's end of one channel between the supervisor and the program."""

    def __init__(self, index: int, sock: socket.socket, relay: Relay) -> None:
        self.index, self.sock, self._relay = index, sock, relay
        self.open = True  # towards the supervisor
        self.pending = 0
        self._buffer = memoryview(bytearray(CHANNEL_CREDIT))
        self._shut = False

    def write(self, data: memoryview) -> None:
        """Pass `data` to the program.

        Bytes that the program does not read yet are buffered, and never exceed the channel's credit.
        """
        self._buffer[self.pending : self.pending + len(data)] = data
        self.pending += len(data)
        self.flush()

    def flush(self) -> None:
        """Pass as much of the buffer to the program as its socket accepts."""
        sent = 0
        try:
            sent = self.sock.send(self._buffer[: self.pending])
        except BlockingIOError:
            return
        except OSError:  # the program has closed its end
            sent = self.pending
        self._buffer[: self.pending - sent] = self._buffer[sent : self.pending]
        self.pending -= sent
        if sent:
            self._relay.body[0] = self.index
            ACK.pack_into(self._relay.body, 1, sent)
            self._relay.send(CREDITED, 1 + ACK.size)
        if self._shut and not self.pending:
            self.shut()

    def shut(self) -> None:
        """Close the direction to the program as soon as the buffer is empty."""
        self._shut = True
        if not self.pending:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket and overwrite the buffer with zeros."""
        self.sock.close()
        self._buffer[:] = bytes(CHANNEL_CREDIT)
