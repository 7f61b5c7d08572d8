from __future__ import annotations

import os
import socket

import pytest

from verigym.sandbox.inside.cell import fd_passing


@pytest.mark.parametrize("count", [0, 1, 200])
def test_descriptors_arrive_in_order_and_are_not_inherited(count: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sent = [os.memfd_create(f"m{number}") for number in range(count)]
    with ours, theirs:
        fd_passing.send(ours, b"data", sent)
        data, received = fd_passing.receive(theirs, 100, 200)
    assert data == b"data" and len(received) == count
    assert [os.fstat(fd).st_ino for fd in received] == [os.fstat(fd).st_ino for fd in sent]
    assert not any(os.get_inheritable(fd) for fd in received)
    for fd in [*sent, *received]:
        os.close(fd)


def test_the_end_of_a_socket_is_no_data() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        assert fd_passing.receive(theirs, 100, 10) == (b"", [])
