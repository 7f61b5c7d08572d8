"""A process forked ahead of its run, while the supervisor still handles the previous one.

The process has dropped every privilege and waits for the specification of its run: bytes and descriptors, with which it calls
a function of the type `Become`.
It holds no data of other runs, because it is forked after the previous run has ended, and inputs reach it only as descriptors.
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
"""Function that turns the process into the run and should not return.

Its arguments are the specification, the run's descriptors, and the descriptor for the reason of a failed setup.
"""


def send_spec(sock: _socket.socket, spec: bytes, fds: Sequence[int], note_fd: int) -> None:
    """Send the specification `spec` of a run and its descriptors to the process at the other end of `sock`.

    Args:
        sock: the socket to the waiting process.
        spec: the specification.
        fds: descriptors of the run.
        note_fd: descriptor to which the process writes why its setup failed.

    Raises:
        OSError: the process is gone.
    """
    message = len(spec).to_bytes(_SIZE, "big") + spec
    sent = fd_passing.send(sock, message, [note_fd, *fds])
    if sent < len(message):
        sock.sendall(message[sent:])


def wait(sock: _socket.socket, become: Become, confine: Callable[[], None] | None = None) -> None:
    """In a freshly forked process: call `confine`, wait on `sock` for the specification of a run, and call `become` with it."""
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
        except OSError:  # the reader is gone
            return


def receive_spec(sock: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the specification and the descriptors that `send_spec` sent.

    Ends the process if the other end of `sock` is closed.
    """
    data, fds = fd_passing.receive(sock, _CHUNK, _MOST_FDS)
    while len(data) < _SIZE or len(data) < _SIZE + int.from_bytes(data[:_SIZE], "big"):
        part = sock.recv(_CHUNK)
        if not part:
            os._exit(0)  # the cell has ended
        data += part
    return data[_SIZE:], fds


def note(text: str) -> bytes:
    """Encode `text`, the reason of a failed setup, for the run's report."""
    return _NOTE + text.encode("utf-8", "replace")[:400]
