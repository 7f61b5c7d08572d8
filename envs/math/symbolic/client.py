"""Client of the SymPy worker: compares two trees by value, in a process that can be killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import get_args

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.isolated import client
from verigym.envs.math.symbolic import wire
from verigym.envs.math.tree import Node, Verdict

_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def symbolic_equal(
    a: Node, b: Node, *, timeout_s: float = 5.0, memory_bytes: int = 1 << 30, spend: Callable[[float], None] | None = None
) -> Verdict:
    """Return SymPy's verdict on whether two expressions or matrices have the same value.

    `same` and `different` are proved. The verdict is `unknown` if SymPy cannot decide, if a tree is not an expression (a list,
    a unit), or if it is beyond the limits of `wire.py`. Trees are sent, and no text reaches a parser.

    Args:
        a: the gold's tree. It decides which variables are integers or complex.
        b: the answer's tree.
        timeout_s: CPU seconds for the comparison.
        memory_bytes: address space for the comparison.
        spend: called with the CPU seconds used.

    Raises:
        SymbolicLimit: the comparison ran out of time or memory, or crashed twice.
        EnvironmentFailure: the worker cannot be started or is lost.
    """
    try:
        payload = wire.dumps(a, b)
    except wire.WireError:
        return "unknown"
    if len(payload) > client.MAX_PAYLOAD:
        return "unknown"
    return _checked(client.request("trees", payload, timeout_s=timeout_s, memory_bytes=memory_bytes, spend=spend))


def _checked(data: bytes) -> Verdict:
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        reply = None
    verdict = reply.get("verdict") if isinstance(reply, dict) else None
    for known in _VERDICTS:
        if verdict == known:
            return known
    raise EnvironmentFailure("protocol", "the math worker's reply is not what was agreed", retryable=True)
