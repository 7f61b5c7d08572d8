"""Client of the worker process that runs reasoning-gym: gets the library's items, and its scores for answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import JsonValue

from verigym.envs.contract.errors import EnvironmentFailure, UsageError
from verigym.envs.isolated.client import SymbolicLimit, request, warm_up
from verigym.envs.reasoning_gym.worker import digest

MAKE_S = 60.0
MEMORY_BYTES = 8 << 30
"""Of address space, of which the library's imports take most."""


class Item(NamedTuple):
    """A question of the library and a right answer, which is empty if there is none."""

    question: str
    answer: str


def make(task: str, config: Mapping[str, JsonValue], seed: int) -> Item:
    """Return the item of `task` that the library generates from `seed`.

    Raises:
        UsageError: the library refuses `config`.
        EnvironmentFailure: the library is not installed, or exceeded a limit.
    """
    try:
        reply = _ask(MAKE_S, op="make", task=task, config=config, seed=seed)
    except SymbolicLimit as limit:
        raise EnvironmentFailure("timeout", f"reasoning-gym could not make an item of {task!r}: {limit}") from None
    if "refused" in reply:
        raise UsageError(f"option 'config': reasoning-gym makes no {task!r} of it: {reply['refused']}")
    try:
        return Item(str(reply["question"]), str(reply["answer"]))
    except KeyError:
        raise EnvironmentFailure("protocol", "the reasoning-gym worker's reply is not what was agreed") from None


def score(task: str, config: Mapping[str, JsonValue], seed: int, question: str, answer: str, timeout_s: float) -> float:
    """Return the reward that the library gives to `answer` for the item generated from `seed`.

    Raises:
        SymbolicLimit: the scorer ran out of time or memory, or crashed twice.
        EnvironmentFailure: the library is not installed, or generates another question from this seed.
    """
    reply = _ask(timeout_s, op="score", task=task, config=config, seed=seed, question=question, answer=answer)
    if "score" not in reply:
        why = reply.get("refused") or "it now makes another question of this seed; make the prompts again"
        raise EnvironmentFailure("gold_invalid", f"reasoning-gym cannot judge this item of {task!r}: {why}")
    return float(reply["score"])


def ready() -> None:
    """Start a worker process.

    Raises:
        EnvironmentFailure: the library is not installed.
    """
    warm_up("gym")


def _ask(timeout_s: float, **fields: Any) -> dict[str, Any]:
    payload = json.dumps(fields).encode()
    try:
        reply = json.loads(request("gym", payload, timeout_s=timeout_s, memory_bytes=MEMORY_BYTES))
    except ValueError:
        raise EnvironmentFailure("protocol", "the reasoning-gym worker's reply is not what was agreed") from None
    if not isinstance(reply, dict):
        raise EnvironmentFailure("protocol", "the reasoning-gym worker's reply is not what was agreed")
    return reply


__all__ = ["Item", "SymbolicLimit", "digest", "make", "ready", "score"]
