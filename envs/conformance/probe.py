"""Asks an environment in processes of its own, and keeps what the whole check may take: time, memory, deaths."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from verigym.envs.conformance.child import Item, serve
from verigym.envs.conformance.report import Row
from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Prompt, Score
from verigym.envs.grading.process import ChildProcess, Died, WorkerStartError

HASH_SEEDS = ("1", "2")
"""PYTHONHASHSEED of the two processes: what depends on the order of a set differs between them."""
START_TIMEOUT_S = 60.0
MAX_DEATHS = 8
MAX_DEATHS_AT_FIRST = 3
"""So many deaths before the first verdict, and the rest is not tried."""


@dataclass(frozen=True)
class Trouble:
    """What there was instead of an answer."""

    what: str
    kind: Literal["raised", "died", "not tried"]


@dataclass
class Allowance:
    """What one check may take in all."""

    item_s: float
    """Wall time of one answer; what takes longer is killed."""
    total_s: float
    memory_bytes: int | None
    deaths: int = 0
    verdicts: int = 0
    _start: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """Wall time that is left."""
        return self._start + self.total_s - time.monotonic()

    def stop(self) -> str:
        """Return why nothing more is tried; empty while something is."""
        if self.left_s <= 0:
            return f"the check's {self.total_s:g} s are over; total_s gives it more"
        if self.deaths >= MAX_DEATHS or (self.deaths >= MAX_DEATHS_AT_FIRST and not self.verdicts):
            return f"judging hung or crashed {self.deaths} times"
        return ""


class Probe:
    """One process that answers for the environment."""

    def __init__(self, child: ChildProcess, allowance: Allowance) -> None:
        self._child = child
        self._allowance = allowance

    def samples(self) -> list[dict[str, Any]] | Trouble:
        """Return the JSON forms of the environment's sample tasks."""
        found: list[dict[str, Any]] | Trouble = self._ask({"do": "samples"})
        return found

    def gold(self, prompt: Prompt) -> str | None | Trouble:
        """Return the gold of a task."""
        found: str | None | Trouble = self._ask({"do": "gold", "prompt": prompt.model_dump(mode="json")})
        return found

    def tasks(self, at: Sequence[tuple[str, int, int]]) -> list[dict[str, Any]] | None | Trouble:
        """Return the JSON forms of generated tasks by (split, seed, index); None where none are generated."""
        found: list[dict[str, Any]] | None | Trouble = self._ask({"do": "tasks", "tasks": at})
        return found

    def judge(self, items: Sequence[Item], how: str = "plainly") -> list[Score | Trouble]:
        """Return what judging each item gave."""
        sent = [(prompt.model_dump(mode="json"), completion.model_dump(mode="json")) for prompt, completion in items]
        found = self._ask({"do": "judge", "items": sent, "how": how}, count=len(items))
        if isinstance(found, Trouble):
            return [found] * len(items)
        self._allowance.verdicts += len(items)
        return [_outcome(one) for one in found]

    def _ask(self, request: Mapping[str, Any], count: int = 1) -> Any:
        if why := self._allowance.stop():
            return Trouble(why, "not tried")
        limit_s = self._allowance.item_s * count
        timeout_s = min(limit_s, max(self._allowance.left_s, 0.01))
        try:
            reply = self._child.exchange(request, timeout_s)
        except (WorkerStartError, ValueError) as error:
            self._allowance.deaths += 1
            return Trouble(f"could not be asked: {error}", "died")
        if isinstance(reply, Died):
            if reply.kind == "timeout" and timeout_s < limit_s:
                return Trouble(self._allowance.stop(), "not tried")
            self._allowance.deaths += 1
            return Trouble(f"no answer in {limit_s:g} s" if reply.kind == "timeout" else reply.why, "died")
        if "raised" in reply:
            return Trouble(f"raised {reply['raised']}", "raised")
        return reply["reply"]


def _outcome(found: Mapping[str, Any]) -> Score | Trouble:
    if "raised" in found:
        return Trouble(str(found["raised"]), "raised")
    try:
        return Score.model_validate(found["score"])
    except ValidationError as error:
        return Trouble(f"returned no valid Score: {error}", "raised")


@contextmanager
def opened(environment: Environment, allowance: Allowance) -> Iterator[tuple[Row, tuple[Probe, Probe] | None]]:
    """Start two processes; give the row of the check "works in a worker process", and the probes, None where none start.

    An environment that cannot be sent to a process fails that check and is tried in forked ones.
    """
    name, expected = "works in a worker process", "starts and lives"
    arguments, row = (environment, allowance.memory_bytes), Row(name, True, expected, "lives")
    children = [ChildProcess(serve, arguments, START_TIMEOUT_S, variables={"PYTHONHASHSEED": one}) for one in HASH_SEEDS]
    try:
        if why := _start_failure(children[0]):
            row = Row(name, False, expected, "cannot start", why)
            children = [ChildProcess(serve, arguments, START_TIMEOUT_S, method="fork") for _ in HASH_SEEDS]
        works = not why or (allowance.left_s > 0 and not _start_failure(children[0]))
        yield row, (Probe(children[0], allowance), Probe(children[1], allowance)) if works else None
    finally:
        for child in children:
            child.stop()


def _start_failure(child: ChildProcess) -> str:
    try:
        child.start()
    except WorkerStartError as error:
        return str(error)
    return ""
