"""Client of the processes in which a checked environment runs, and the limits of the check: time, memory and crashes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import ValidationError

from verigym.envs.conformance.playing import Play, Played
from verigym.envs.conformance.report import CheckRow
from verigym.envs.conformance.worker import Item, serve
from verigym.envs.contract.base import Environment
from verigym.envs.contract.schema import Completion, Prompt, Score
from verigym.envs.grading.process import ChildProcess, Died, WorkerStartError

HASH_SEEDS = ("1", "2")
"""PYTHONHASHSEED of the two processes, so that results that depend on the iteration order of a set differ between them."""
START_TIMEOUT_S = 60.0
MAX_CRASHES = 8
MAX_FIRST_CRASHES = 3
"""After this many crashes without a single verdict, the remaining completions are not tried."""


@dataclass(frozen=True)
class NoReply:
    """Why a request has no result."""

    reason: str
    kind: Literal["raised", "died", "not tried"]


@dataclass
class CheckBudget:
    """The limits of one check, and how much of them is used."""

    item_s: float
    """Wall time of one item, such as judging one completion, in seconds; a process that takes longer is killed."""
    total_s: float
    memory_bytes: int | None
    crashes: int = 0
    verdicts: int = 0
    on_verdicts: Callable[[int], None] = lambda verdicts: None
    """Called with the number of verdicts so far."""
    _start: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        """Remaining wall time."""
        return self._start + self.total_s - time.monotonic()

    def count(self, verdicts: int) -> None:
        """Note that some more verdicts have come."""
        self.verdicts += verdicts
        self.on_verdicts(self.verdicts)

    def stop_reason(self) -> str:
        """Return why the check must stop, or an empty string while it may go on."""
        if self.left_s <= 0:
            return f"the check's {self.total_s:g} s are over; total_s gives it more"
        if self.crashes >= MAX_CRASHES or (self.crashes >= MAX_FIRST_CRASHES and not self.verdicts):
            return f"judging hung or crashed {self.crashes} times"
        return ""


class EnvironmentClient:
    """Sends requests to one process that runs the environment."""

    def __init__(self, child: ChildProcess, budget: CheckBudget) -> None:
        self._child = child
        self._budget = budget

    def samples(self) -> list[dict[str, Any]] | NoReply:
        """Return the JSON forms of the environment's sample tasks."""
        forms: list[dict[str, Any]] | NoReply = self._request({"do": "samples"})
        return forms

    def gold(self, prompt: Prompt) -> str | None | NoReply:
        """Return the gold of a task."""
        gold: str | None | NoReply = self._request({"do": "gold", "prompt": prompt.model_dump(mode="json")})
        return gold

    def tasks(self, places: Sequence[tuple[str, int, int]]) -> list[dict[str, Any]] | None | NoReply:
        """Return the JSON forms of the generated tasks at `places`, or None if the environment generates no tasks.

        Each of `places` is (split, seed, index).
        """
        forms: list[dict[str, Any]] | None | NoReply = self._request({"do": "tasks", "tasks": places})
        return forms

    def demonstration(self, prompt: Prompt) -> Completion | None | NoReply:
        """Return an episode that the environment's own expert player has played, or None if it has no such player."""
        form = self._request({"do": "demonstrate", "prompt": prompt.model_dump(mode="json")})
        return Completion(**form) if isinstance(form, dict) else form

    def play(self, plays: Sequence[Play]) -> list[Played] | NoReply:
        """Play episodes at the same time, and return them. First one turn of each is played, then the next turn of each."""
        sent = [play.model_dump(mode="json") for play in plays]
        replies = self._request({"do": "play", "plays": sent}, count=sum(len(play.texts) + 1 for play in plays))
        if isinstance(replies, NoReply):
            return replies
        self._budget.count(len(plays))
        return [Played(**reply) for reply in replies]

    def judge(self, items: Sequence[Item], how: str = "plainly") -> list[Score | NoReply]:
        """Have `items` judged, and return for each its score or the reason why there is no reply.

        `how` is `plainly`, `in an event loop` or `in threads`.
        """
        sent = [(prompt.model_dump(mode="json"), completion.model_dump(mode="json")) for prompt, completion in items]
        replies = self._request({"do": "judge", "items": sent, "how": how}, count=len(items))
        if isinstance(replies, NoReply):
            return [replies] * len(items)
        self._budget.count(len(items))
        return [outcome_of(reply) for reply in replies]

    def _request(self, request: Mapping[str, Any], count: int = 1) -> Any:
        if reason := self._budget.stop_reason():
            return NoReply(reason, "not tried")
        limit_s = self._budget.item_s * count
        timeout_s = min(limit_s, max(self._budget.left_s, 0.01))
        try:
            reply = self._child.exchange(request, timeout_s)
        except (WorkerStartError, ValueError) as error:
            self._budget.crashes += 1
            return NoReply(f"could not be asked: {error}", "died")
        if isinstance(reply, Died):
            if reply.kind == "timeout" and timeout_s < limit_s:
                return NoReply(self._budget.stop_reason(), "not tried")
            self._budget.crashes += 1
            return NoReply(f"no answer in {limit_s:g} s" if reply.kind == "timeout" else reply.why, "died")
        if "raised" in reply:
            return NoReply(f"raised {reply['raised']}", "raised")
        return reply["reply"]


def outcome_of(reply: Mapping[str, Any]) -> Score | NoReply:
    """Return the score that a process sent, or why there is none."""
    if "raised" in reply:
        return NoReply(str(reply["raised"]), "raised")
    try:
        return Score.model_validate(reply["score"])
    except ValidationError as error:
        return NoReply(f"returned no valid Score: {error}", "raised")


@contextmanager
def start_clients(
    environment: Environment, budget: CheckBudget
) -> Iterator[tuple[CheckRow, tuple[EnvironmentClient, EnvironmentClient] | None]]:
    """Context manager that starts two processes that run the environment, and stops them on exit.

    Its value is the report row "works in a worker process", with the two clients, or with None if no process starts. If the
    environment cannot be pickled, the row says that the check failed, and forked processes are used instead.
    """
    name, expected = "works in a worker process", "starts and lives"
    arguments, row = (environment, budget.memory_bytes), CheckRow(name, True, expected, "lives")
    children = [ChildProcess(serve, arguments, START_TIMEOUT_S, variables={"PYTHONHASHSEED": one}) for one in HASH_SEEDS]
    try:
        if why := _start_failure(children[0]):
            row = CheckRow(name, False, expected, "cannot start", why)
            children = [ChildProcess(serve, arguments, START_TIMEOUT_S, method="fork") for _ in HASH_SEEDS]
        works = not why or (budget.left_s > 0 and not _start_failure(children[0]))
        yield row, (EnvironmentClient(children[0], budget), EnvironmentClient(children[1], budget)) if works else None
    finally:
        for child in children:
            child.stop()


def _start_failure(child: ChildProcess) -> str:
    try:
        child.start()
    except WorkerStartError as error:
        return str(error)
    return ""
