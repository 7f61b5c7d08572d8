"""Rate limits: requests per minute and requests in flight, over all processes of a user on this machine.

A grader has many worker processes, and the endpoint counts their requests together. So the counts are kept in files. Each
locked file stands for one request in flight; the kernel unlocks the file when a worker is killed. Another file holds the time
at which the next request may be sent.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from verigym.envs.user_tmp import own_folder

_STALE_S = 3600.0
_FIRST_PAUSE_S = 0.005
_LAST_PAUSE_S = 0.1
_TIME = struct.Struct("<d")


class NoPlace(Exception):
    """No request may be sent before the deadline."""


@contextmanager
def turn(name: str, at_once: int | None, per_minute: float | None, deadline: float) -> Iterator[None]:
    """Return a context manager that waits until a request may be sent; the request counts as in flight until the block ends.

    Args:
        name: file name that identifies the endpoint and model.
        at_once: maximum number of requests in flight; None for no limit.
        per_minute: maximum number of requests per minute, evenly spaced; None for no limit.
        deadline: a `time.monotonic()` value.

    Raises:
        NoPlace: the wait would last beyond the deadline.
        OSError: the files cannot be used.
    """
    if per_minute is not None:
        time.sleep(_reserve(name, 60.0 / per_minute, deadline))
    if at_once is None:
        yield
        return
    held = _slot(name, at_once, deadline)
    try:
        yield
    finally:
        os.close(held)


def _open(name: str) -> int:
    return os.open(os.path.join(own_folder("judge"), name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _reserve(name: str, spacing_s: float, deadline: float) -> float:
    """Take the next free place and return how long it is until then."""
    file = _open(f"{name}.rate")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # held for microseconds
        now = time.monotonic()
        kept = os.pread(file, _TIME.size, 0)
        free = _TIME.unpack(kept)[0] if len(kept) == _TIME.size else now
        if not now <= free <= now + _STALE_S:  # long past, or written before the machine was started
            free = now
        if free > deadline:
            raise NoPlace(f"the rate limit leaves no place for {free - now:.3g} s")
        os.pwrite(file, _TIME.pack(free + spacing_s), 0)
        return float(free - now)
    finally:
        os.close(file)


def _slot(name: str, count: int, deadline: float) -> int:
    pause_s = _FIRST_PAUSE_S
    while True:
        for number in range(count):
            file = _open(f"{name}.slot{number}")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except BlockingIOError:
                os.close(file)
        if time.monotonic() + pause_s > deadline:
            raise NoPlace(f"{count} requests are under way, and none ended in time")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LAST_PAUSE_S)
