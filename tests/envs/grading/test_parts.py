"""The Grader's parts alone: queue, breaker, channel, log."""

import logging
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from verigym.envs.grading import breaker as breaker_module
from verigym.envs.grading.breaker import Breaker, Trust
from verigym.envs.grading.channel import MAX_MESSAGE_BYTES, Channel, encode
from verigym.envs.grading.fair_queue import FairQueue
from verigym.envs.grading.stats import ThrottledLog


def test_lanes_take_turns_and_keep_their_order():
    queue = FairQueue({})
    for i in range(3):
        queue.put("a", f"a{i}")
    queue.put("b", "b0")
    assert [queue.take()[1] for _ in range(4)] == ["a0", "b0", "a1", "a2"]


def test_a_full_lane_waits_until_one_is_done():
    queue = FairQueue({"a": 1})
    queue.put("a", 1)
    queue.put("a", 2)
    assert queue.take() == ("a", 1)
    got = []
    thread = threading.Thread(target=lambda: got.append(queue.take()))
    thread.start()
    time.sleep(0.05)
    assert got == []
    queue.done("a")
    thread.join(300)
    assert got == [("a", 2)]


def test_a_delayed_item_comes_later_and_close_returns_what_is_left():
    queue = FairQueue({})
    queue.put("a", "late", delay_s=1.0)
    queue.put("a", "now")
    assert queue.backlog()
    start = time.monotonic()
    assert queue.take() == ("a", "now")
    assert queue.take() == ("a", "late")
    assert time.monotonic() - start >= 0.99
    queue.put("a", 1)
    queue.put("b", 2, delay_s=60)
    assert sorted(queue.close()) == [1, 2]
    assert queue.take() is None


def test_breaker_opens_after_three_failed_controls_and_probes_after_the_pause(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(breaker_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    breaker = Breaker(cooldown_s=0.1)
    assert breaker.admit("a") is Trust.GRADE
    assert breaker.failed("timeout", "hung", "a") is None
    assert breaker.admit("b") is Trust.CONTROL_FIRST
    assert breaker.admit("a") is Trust.REFUSE
    assert breaker.failed("timeout", "hung", "a") is None
    assert breaker.failed("timeout", "hung", "b") is None
    assert breaker.failed("timeout", "hung", "c") == 0.1
    assert breaker.admit("d") is Trust.REFUSE
    now[0] += 0.12
    assert [breaker.admit("d"), breaker.admit("d")] == [Trust.CONTROL_FIRST, Trust.REFUSE]
    assert breaker.failed("timeout", "hung", "c") == 0.2
    breaker.passed()
    assert breaker.admit("a") is Trust.GRADE
    assert breaker_module.THRESHOLD == 3


def channels():
    return tuple(Channel(s) for s in socket.socketpair())


def test_channel_carries_messages_of_any_size():
    one, two = channels()
    messages = [{}, {"text": "small \ud800"}, {"text": "x" * 3_000_000}]
    thread = threading.Thread(target=lambda: [one.send(encode(message)) for message in messages])
    thread.start()
    assert [two.receive() for _ in range(3)] == messages
    thread.join()
    one.close()
    with pytest.raises(EOFError):
        two.receive()
    two.close()


def test_channel_deadlines_hold_in_both_directions():
    one, two = channels()
    with pytest.raises(TimeoutError):
        one.send(b"x" * 10_000_000, time.monotonic() + 0.1)  # nobody reads
    with pytest.raises(TimeoutError):
        one.receive(time.monotonic() + 0.1)
    two._socket.sendall(b"\x00\x00")  # half a header, then silence
    with pytest.raises(TimeoutError):
        one.receive(time.monotonic() + 0.1)
    one.close()
    two.close()


@pytest.mark.parametrize("message", [{"text": "x" * (MAX_MESSAGE_BYTES + 1)}, {"share": float("nan")}], ids=["long", "nan"])
def test_no_frame_is_made_of_what_is_too_long_or_not_json(message):
    with pytest.raises(ValueError, match="above the limit|not JSON"):
        encode(message)


def test_channel_refuses_what_is_no_object():
    one, two = channels()
    two._socket.sendall(b"\x00\x00\x00\x02[]")
    with pytest.raises(ValueError, match="not one JSON object"):
        one.receive(time.monotonic() + 300)
    one.close()
    two.close()


def test_channel_refuses_what_is_announced_too_long():
    one, two = channels()
    two._socket.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(ValueError, match="4294967295 bytes was announced"):
        one.receive(time.monotonic() + 300)
    one.close()
    two.close()


def test_the_log_holds_back_repetitions(caplog):
    log = ThrottledLog()
    with caplog.at_level(logging.WARNING, "verigym.cli.grade"):
        for i in range(5):
            log.warn("math", "timeout", f"message {i}")
        log.warn("math", "crashed", "other")
        log._last.clear()
        log.warn("math", "timeout", "again")
    assert [r.getMessage() for r in caplog.records] == [
        "math: message 0",
        "math: other",
        "math: again (4 more like this since the last message)",
    ]
