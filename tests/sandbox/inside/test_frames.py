"""Frames: round trips, and everything that is no frame."""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verigym.sandbox.inside.wire import frames
from verigym.sandbox.inside.wire.frames import FrameError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def raw(payload: bytes, size: int | None = None) -> bytes:
    return struct.pack(">I", len(payload) if size is None else size) + payload


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(60)
        yield ours, theirs


@given(st.dictionaries(st.text(), JSON, max_size=4))
@pytest.mark.slow
def test_what_is_packed_is_parsed(obj):
    assert frames.parse(frames.pack(obj)[4:]) == obj


@pytest.mark.parametrize("as_number", [False, True], ids=["socket", "descriptor"])
def test_frames_cross_sockets_and_descriptors(pair, as_number):
    ours, theirs = pair
    theirs.setblocking(True)
    end = theirs.fileno() if as_number else theirs
    sent = [{"a": "\ud800 ü"}, {}, {"long": "x" * 3_000_000}]
    thread = threading.Thread(target=lambda: [frames.send(end, obj) for obj in sent])
    thread.start()
    assert [frames.receive(ours) for _ in sent] == sent
    thread.join()
    theirs.close()
    with pytest.raises(EOFError):
        frames.receive(ours)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"null",
        b'{"a":1} ',
        b'{"a":1}{}',
        b' {"a":1}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":"\xff"}',
        b'{"a":"\x00"}',
        b'{"a":01}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":' + b"[" * 100_000,
        b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a":[' + b"[]," * 2_500_000 + b"1]}",
        b'{"a":[' + b"1," * 4_500_000 + b"1]}",
    ],
    ids=lambda payload: repr(payload[:12]) + str(len(payload)),
)
def test_what_is_no_frame(pair, payload):
    ours, theirs = pair
    thread = threading.Thread(target=theirs.sendall, args=(raw(payload),))
    thread.start()
    with pytest.raises(FrameError):
        frames.receive(ours)
    thread.join()


def test_a_size_above_the_limit_is_refused_before_anything_is_read(pair):
    ours, theirs = pair
    theirs.sendall(raw(b"", 101))
    with pytest.raises(FrameError, match="101 bytes, above the limit of 100"):
        frames.receive(ours, 100)
    with pytest.raises(FrameError, match="above the limit of 100"):
        frames.send(ours, {"a": "x" * 100}, 100)


@pytest.mark.parametrize("data", [b"", b"\0\0", raw(b'{"a":1', 8)], ids=["nothing", "half a header", "half a frame"])
def test_an_end_is_an_end_wherever_it_comes(pair, data):
    ours, theirs = pair
    theirs.sendall(data)
    theirs.close()
    with pytest.raises(EOFError):
        frames.receive(ours)


def test_sending_to_nobody_is_an_end(pair):
    ours, theirs = pair
    theirs.close()
    for end in (ours, ours.fileno()):
        with pytest.raises(EOFError):
            frames.send(end, {"a": 1})


def test_commas_and_brackets_in_text_are_not_counted():
    obj = {"a": ",[{" * 2_000_000}
    assert frames.parse(frames.pack(obj)[4:]) == obj


def test_deep_nesting_does_not_overflow_the_stack_under_a_raised_recursion_limit():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(FrameError, match="nested too deep"):
            frames.parse(b'{"a":' + b"[" * 300_000 + b"]" * 300_000 + b"}")
        assert frames.parse(b'{"a":"' + b"[" * 300_000 + b'"}') == {"a": "[" * 300_000}
    finally:
        sys.setrecursionlimit(before)


def test_what_json_does_not_have_is_not_sent(pair):
    for value in (float("nan"), {1}, b"x", object()):
        with pytest.raises(FrameError):
            frames.send(pair[0], {"a": value})


@given(st.binary(max_size=200))
def test_any_bytes_give_an_object_or_an_error_of_ours(data):
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        try:
            assert type(frames.receive(reader, 1000)) is dict
        except (FrameError, EOFError):
            pass
    finally:
        os.close(reader)
