"""A process forked ahead of its run, while the supervisor is still busy with the run before.

It has given up every privilege, and waits to be told what to become: in bytes that it hands on, and descriptors.
It knows nothing of other runs: it is forked when the one before is gone, and payloads only ever pass it as descriptors.
"""

from __future__ import annotations

import _socket
import os
from collections.abc import Callable, Sequence

from verigym.sandbox.inside.cell import fd_passing

SETUP_FAILED = 125
_NOTE = b"cell: "
_MOST_FDS = 253  # in one message, by the kernel
_SIZE = 8
_CHUNK = 1 << 12

Become = Callable[[bytes, Sequence[int], int], None]
"""What the process does with what it is told, the run's descriptors and the one for notes; should not return."""


def send_spec(sock: _socket.socket, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
    """Say to the process at the other end of `sock` what it is to become.

    Raises:
        OSError: it is gone.
    """
    message = len(spec).to_bytes(_SIZE, "big") + spec
    sent = fd_passing.send(sock, message, [note_fd, *fds])
    if sent < len(message):
        sock.sendall(message[sent:])


def wait(sock: _socket.socket, become: Become, confine: Callable[[], None] | None = None) -> None:
    """In the new process: be confined, wait to be told, and become that."""
    failed: BaseException | None = None
    try:
        os.setsid()
        if confine is not None:
            confine()
    except BaseException as error:
        failed = error
    spec, (note_fd, *fds) = receive_spec(sock)
    sock.close()
    try:
        if failed is not None:
            raise failed
        become(spec, fds, note_fd)
    except BaseException as error:
        try:
            os.write(note_fd, note(f"{type(error).__name__}: {error}"))
        except OSError:  # nobody reads it any more
            return


def receive_spec(sock: _socket.socket) -> tuple[bytes, list[int]]:
    """What `send_spec` says at the other end, and the descriptors; ends the process where nobody is there any more."""
    data, fds = fd_passing.receive(sock, _CHUNK, _MOST_FDS)
    while len(data) < _SIZE or len(data) < _SIZE + int.from_bytes(data[:_SIZE], "big"):
        part = sock.recv(_CHUNK)
        if not part:
            os._exit(0)  # the cell has ended
        data += part
    return data[_SIZE:], fds


def note(text: str) -> bytes:
    """A note of a setup that failed, as a run's report carries it."""
    return _NOTE + text.encode("utf-8", "replace")[:400]
