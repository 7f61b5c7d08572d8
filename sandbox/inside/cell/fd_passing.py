"""Passes descriptors over a socket, like `socket.send_fds` and `recv_fds` but without their imports in every call."""

from __future__ import annotations

import _socket
import struct
from collections.abc import Sequence

_SIZE = struct.calcsize("i")


def send(sock: _socket.socket, data: bytes, fds: Sequence[int]) -> int:
    """Send `data` over `sock` with the descriptors `fds` attached. Returns the number of bytes sent."""
    packed = struct.pack(f"{len(fds)}i", *fds)
    return sock.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if fds else [])


def receive(sock: _socket.socket, size: int, most_fds: int) -> tuple[bytes, list[int]]:
    """Receive at most `size` bytes and at most `most_fds` attached descriptors, which are made close-on-exec."""
    data, ancillary, _flags, _ = sock.recvmsg(size, _socket.CMSG_LEN(most_fds * _SIZE), _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for _level, _kind, packed in ancillary:  # peers send no other ancillary data
        fds += memoryview(packed).cast("i")
    return data, fds
