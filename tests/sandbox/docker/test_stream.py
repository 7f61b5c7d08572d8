"""The supervisor's side of the stream and its names for itself, without a daemon."""

from __future__ import annotations

import os
import random
import socket
import subprocess

import pytest

from verigym.sandbox.backends.container_daemon import is_dead, owner
from verigym.sandbox.backends.container_stream import AttachStream, StreamGone
from verigym.sandbox.inside.cell.relay import CHANNEL, HEADER, STDOUT


def wrapped(data: bytes, kind: int = 1) -> bytes:
    """As the daemon wraps a piece of the container's output."""
    return bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("seed", range(5))
def test_frames_survive_any_cutting(seed: int) -> None:
    random_ = random.Random(seed)
    frames = [(random_.choice([STDOUT, CHANNEL]), random_.randbytes(random_.choice([0, 1, 7, 300, 65_536]))) for _ in range(40)]
    plain = b"".join(HEADER.pack(kind, len(body)) + body for kind, body in frames)
    daemon = b""
    while plain:
        cut = random_.choice([1, 5, 100, 8192])
        daemon += wrapped(plain[:cut]) + (wrapped(b"oops ", 2) if random_.random() < 0.1 else b"")
        plain = plain[cut:]
    ours, theirs = socket.socketpair()
    stream = AttachStream(ours)
    got: list[tuple[int, bytes]] = []
    with theirs:
        while daemon:
            cut = random_.choice([1, 9, 1000, 30_000])
            theirs.sendall(daemon[:cut])
            daemon = daemon[cut:]
            got += [(kind, bytes(body)) for kind, body in stream.receive()]
    assert got == frames
    with pytest.raises(StreamGone, match="ended"):
        list(stream.receive())
    assert stream.complaints.replace(b"oops ", b"") == b""
    stream.close()


def test_what_cannot_be_sent_now_waits() -> None:
    ours, theirs = socket.socketpair()
    stream = AttachStream(ours)
    body = os.urandom(1 << 16)
    for _ in range(20):
        stream.send(STDOUT, body)
    received = bytearray()
    with theirs:
        while len(received) < 20 * (HEADER.size + len(body)):
            received += theirs.recv(1 << 20)
            stream.flush()
    assert received == 20 * (HEADER.pack(STDOUT, len(body)) + body)
    with pytest.raises(StreamGone):
        stream.send(STDOUT, b"x")
    stream.close()


def test_only_the_dead_are_dead() -> None:
    mine = owner(os.getpid())
    child = subprocess.Popen(["sleep", "60"])
    theirs = owner(child.pid)
    assert not is_dead(mine)
    assert not is_dead(theirs)
    child.kill()
    child.wait()
    assert is_dead(theirs)
    assert mine != owner(os.getpid())  # two sandboxes of a process are not one
    elsewhere = "other-machine/1/" + theirs.split("/", 2)[2]
    for nobody_knows in (elsewhere, "", "x", "a/b/c/d/e"):
        assert not is_dead(nobody_knows)
