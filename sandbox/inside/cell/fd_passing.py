"""Descriptors over a socket, as `socket.send_fds` and `recv_fds` pass them, but without their imports in every call."""

from __future__ import annotations

import _socket
import struct
from collections.abc import Sequence

_SIZE = struct.calcsize("i")


def send(sock: _socket.socket, data: bytes, fds: Sequence[int]) -> int:
    """Send data, and descriptors with it. Returns how many bytes were sent."""
    packed = struct.pack(f"{len(fds)}i", *fds)
    return sock.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if fds else [])


def receive(sock: _socket.socket, size: int, most_fds: int) -> tuple[bytes, list[int]]:
    """Receive data of at most that size and the descriptors that came with it (close-on-exec)."""
    data, ancillary, _flags, _ = sock.recvmsg(size, _socket.CMSG_LEN(most_fds * _SIZE), _socket.MSG_CMSG_CLOEXEC)
    fds: list[int] = []
    for _level, _kind, packed in ancillary:  # nothing but descriptors is ever sent to us
        fds += struct.unpack(f"{len(packed) // _SIZE}i", packed[: len(packed) // _SIZE * _SIZE])
    return data, fds
