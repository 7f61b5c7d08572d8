"""Frames on a channel: four bytes of length (big endian), then one JSON object in UTF-8.

The other end may be hostile. Malformed data raises `FrameError`; the end of the channel, even in the middle
of a frame (a killed process), raises `EOFError`. Memory is bounded by the limits on bytes and on the number of values.
"""

from __future__ import annotations

import json.decoder
import json.encoder
import os
import re
import sys
from itertools import accumulate

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

LIMIT = 32 << 20
"""Default limit on the bytes of a frame."""
MAX_MARKS = 4_000_000
"""Limit on the number of brackets and commas in a frame. It bounds the memory that the values of a small text can take."""
_DEEP = 900
_CHUNK = 1 << 18
# For text without escapes. An unclosed string matches up to the end: a failing match would be retried from every quote.
_STRING = re.compile(rb'"[^"]*+"?')


class FrameError(ValueError):
    """The received bytes are not a frame, or the message cannot be sent as a frame."""


def _refuse(name: object) -> object:
    raise ValueError(f"{name}: not a JSON value")


# Private references: a program that replaces json.dumps, or methods of its classes, must not change how frames are encoded.
_read, _write = os.read, os.write
_decoder: Any = json.decoder.JSONDecoder(parse_constant=_refuse)
_scan = _decoder.scan_once
_quote = json.encoder.encode_basestring_ascii
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_chunks: Any = _make(None, _refuse, _quote, None, ":", ",", False, False, False) if _make is not None else None


def pack(obj: dict[str, Any], limit: int = LIMIT) -> bytes:
    """Return `obj` encoded as a frame.

    Raises:
        FrameError: the frame would exceed `limit` bytes, or `obj` holds values that JSON cannot represent.
    """
    try:
        text = "".join(_chunks(obj, 0)) if _chunks is not None else json.dumps(obj, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from None
    if len(text) > limit:
        raise FrameError(f"a frame of {len(text)} bytes, above the limit of {limit}")
    return len(text).to_bytes(4, "big") + text.encode("ascii")


_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def parse(payload: bytes, marks: int = MAX_MARKS) -> dict[str, Any]:
    """Return the message in `payload`, the content of a frame, which may hold at most `marks` brackets and commas.

    Raises:
        FrameError: `payload` is not one JSON object, holds too many values, or is nested too deeply.
    """
    _bounded(payload, marks)
    try:
        text = payload.decode("utf-8")
        obj, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError, MemoryError) as error:
        raise FrameError(f"not JSON: {type(error).__name__}") from None
    if end != len(text) or type(obj) is not dict:
        raise FrameError("not one JSON object")
    return obj


def _bounded(payload: bytes, most: int) -> None:
    marks = payload.count(b",") + payload.count(b"[") + payload.count(b"{")
    # With a raised recursion limit the parser would overflow the C stack instead of raising RecursionError; from Python 3.12
    # on it has its own limit, which differs between versions.
    deep = marks > _DEEP and (sys.getrecursionlimit() > 3000 or sys.version_info >= (3, 12))
    if marks <= most and not deep:
        return
    # A backslash outside of a string ends the parse, so what this removes after one does not matter.
    bare = _STRING.sub(b"", payload.replace(b"\\\\", b"").replace(b'\\"', b""))
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > most:
        raise FrameError("too many values in a frame")
    if deep:
        steps = [1 if byte in b"[{" else -1 for byte in bare.translate(None, _NO_BRACKETS)]
        if max(accumulate(steps), default=0) > _DEEP:
            raise FrameError("nested too deep")


def send(channel: socket.socket | int, obj: dict[str, Any], limit: int = LIMIT) -> None:
    """Send `obj` as a frame over `channel`, a socket or a descriptor.

    Raises:
        FrameError: the frame would exceed `limit` bytes, or `obj` holds values that JSON cannot represent. Nothing was sent.
        EOFError: the other side has closed the channel.
    """
    data = pack(obj, limit)
    try:
        if not isinstance(channel, int):
            channel.sendall(data)
            return
        done = _write(channel, data)
        while done < len(data):
            done += _write(channel, memoryview(data)[done : done + _CHUNK])
    except (BrokenPipeError, ConnectionResetError):
        raise EOFError("the other side closed the channel") from None


def receive(channel: socket.socket | int, limit: int = LIMIT) -> dict[str, Any]:
    """Wait for a frame of at most `limit` bytes on `channel`, a socket or a descriptor, and return its message.

    Raises:
        FrameError: the received data is not a frame.
        EOFError: the channel ended.
    """
    size = int.from_bytes(_exactly(channel, 4), "big")
    if size > limit:
        raise FrameError(f"a frame of {size} bytes, above the limit of {limit}")
    return parse(_exactly(channel, size))


def _exactly(channel: socket.socket | int, size: int) -> bytes:
    parts = bytearray()
    while True:
        wanted = min(size - len(parts), _CHUNK)
        try:
            part = _read(channel, wanted) if isinstance(channel, int) else channel.recv(wanted)
        except ConnectionResetError:
            part = b""
        if len(part) == size:
            return part
        if not part:
            raise EOFError("the channel ended")
        parts += part
        if len(parts) == size:
            return bytes(parts)
