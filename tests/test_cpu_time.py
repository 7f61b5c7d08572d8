"""Bounds of processor time, in the tests' own `within`."""

import itertools
import time

import pytest
from cpu_time import TRIES, within


def work(cpu_s: float) -> None:
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def test_a_body_that_always_takes_too_long_fails() -> None:
    ran = 0
    with pytest.raises(AssertionError, match=r"CPU seconds; 0\.0001 are the most"):
        for _ in within(0.0001):
            ran += 1
            work(0.2)
    assert ran == TRIES


def test_one_good_try_is_enough() -> None:
    ran = 0
    for _ in within(0.0001):
        ran += 1
        work(0.2 if ran < TRIES else 0.0)
    assert ran == TRIES


def test_what_others_took_counts() -> None:
    seconds = itertools.count(0, 50)
    with pytest.raises(AssertionError, match=r"took 50\.0"):
        for _ in within(1.0, lambda: next(seconds)):
            pass
