"""Compares printed text and returned values by the rules that the reference sets (`reference.Policy`)."""

from __future__ import annotations

from typing import Any

from verigym.envs.code import output, values
from verigym.envs.code.outcome import PASSED, Outcome, wrong
from verigym.envs.code.reference import Policy


def as_bytes(text: str) -> bytes:
    """Return a reference's text as a program reads and writes it."""
    return text.encode("utf-8", "surrogateescape")


def printed(expected: str, got: bytes, policy: Policy) -> Outcome:
    """Compare text."""
    found = output.difference(as_bytes(expected), got, policy.whitespace, policy.float_tolerance)
    return PASSED if found is None else wrong(str(found))


def returned(expected: Any, got: Any, policy: Policy) -> Outcome:
    """Compare values."""
    if values.equal(expected, got, tolerance=policy.float_tolerance, tuple_as_list=policy.tuple_as_list):
        return PASSED
    return wrong(values.explain(expected, got))
