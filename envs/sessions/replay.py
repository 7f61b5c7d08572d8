"""The blame rule for sessions: decides whose fault it is when a worker dies in the middle of a turn.

The session is reopened in a fresh worker by replaying its recorded turns, which must get the recorded replies. Then the turn is
sent once more. If the worker dies again, a control session decides: the same prompt, seed and earlier turns, without this turn.
If the control survives, the turn is to blame: `SessionLimit`, and the episode scores the floor. If the control dies too, our
side is to blame: `EnvironmentFailure`, and the episode has no reward.

An episode is also replayed if a turn of another episode ended their common worker. If a replay gets other replies than those
recorded, the episode cannot go on. It has no reward, with one exception: if a turn of this very episode ended the worker, that
turn is still sent once more and may be blamed. Otherwise a model could avoid a bad reward: it could ask a tool for the time, so
that the replay gets another reply, and then hang.
`grading/kill_rule.py` applies the same rule to verdicts.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pydantic import JsonValue

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.grading.breaker import Breaker, Trust
from verigym.envs.grading.kill_rule import RETRY_START_S, START_PAUSES_S, TRIES
from verigym.envs.grading.process import Died, NeverStarts, WorkerStartError
from verigym.envs.grading.stats import ThrottledLog
from verigym.envs.sessions.answers import Answer, SessionLimit
from verigym.envs.sessions.record import NOWHERE, EpisodeRecord, Played
from verigym.envs.sessions.stats import Counters
from verigym.envs.sessions.wire import Said
from verigym.envs.sessions.workers import Worker, WorkerDied

PING_AFTER_S = 0.05
"""Idle seconds after which a worker is pinged before a turn, so that the turn is not blamed for an earlier death."""
LONGEST_TURN = 1_000_000
"""Maximum characters of a turn. A longer turn, with its calls and arguments, may not fit into a message between processes."""
_SHOWN = 200


class DiffersAnew(EnvironmentFailure):
    """Raised if a session is opened again and its recorded turns do not get the recorded replies."""


def closed() -> EnvironmentFailure:
    """Return the failure of an episode whose `Sessions` object was closed."""
    return EnvironmentFailure("unavailable", "the sessions were closed", retryable=True)


class Player:
    """Plays episodes on one worker, which may die at any time. Only the thread that owns the worker may use it.

    Args:
        worker: the worker that holds the sessions.
        numbers: source of episode numbers for control episodes.
        breakers: circuit breakers by environment name. They refuse new episodes of an environment for a while if opening its
            sessions ends workers.
        counters: counts of deaths, replays and turns.
        log: log for deaths and other trouble.
        closing: function that returns whether the `Sessions` object is being closed, so that all work is given up.
        start_timeout_s: seconds in which the worker must start. If it takes longer twice, it is not started a third time for
            the same turn.
    """

    def __init__(
        self,
        worker: Worker,
        numbers: itertools.count[int],
        breakers: Mapping[str, Breaker],
        counters: Counters,
        log: ThrottledLog,
        closing: Callable[[], bool],
        start_timeout_s: float,
    ) -> None:
        self._worker, self._numbers, self._breakers = worker, numbers, breakers
        self._counters, self._log, self._closing = counters, log, closing
        self._start_timeout_s = start_timeout_s
        self._start_failure: tuple[float, str] | None = None
        self._heard = 0.0
        self.retire = False
        """Whether the worker has asked to be replaced between turns."""

    def open(self, record: EpisodeRecord) -> None:
        """Make sure that the session of an episode is open. If it has to be opened again, its turns are replayed.

        Raises:
            EnvironmentFailure: our side cannot open it, or the replayed session answers differently.
            NeverStarts: no worker can be started for any episode.
        """
        self._check_worker(record)
        if record.life == self._worker.life:
            return
        breaker = self._breakers[record.prompt.environment]
        if not record.played and breaker.admit(record.prompt.key) is Trust.REFUSE:
            kind, why = breaker.last_failure
            raise EnvironmentFailure(
                kind, f"{_name(record)} is not asked for a while: opening its sessions ends workers ({why})", retryable=True
            )
        for attempt in range(TRIES):
            try:
                self._open(record)
            except WorkerDied as error:
                self._died(record, error, "its session was opened")
                if attempt + 1 < TRIES:
                    continue
                if not record.played:
                    breaker.failed(error.died.kind, error.died.why, record.prompt.key)
                message = f"{_name(record)}: opening the session ended its worker twice: {error.died.why}"
                raise EnvironmentFailure(error.died.kind, message, retryable=True) from None
            breaker.passed()
            return

    def turn(self, record: EpisodeRecord, text: str) -> Answer:
        """Pass `text`, a turn of the model, to the session of `record` and return its answer.

        Raises:
            SessionLimit: the turn is to blame for the end of its session.
            EnvironmentFailure: the session fails, or cannot be opened again.
            NeverStarts: see `open`.
        """
        if len(text) > LONGEST_TURN:
            raise SessionLimit(f"a turn of {len(text):,} characters, more than {LONGEST_TURN:,}")
        deaths = 0
        while True:
            try:
                self.open(record)
            except DiffersAnew:
                if deaths:
                    self._try_all_the_same(record, text)
                raise
            try:
                said = self._ask("turn", record, text=text)
                break
            except WorkerDied as error:
                self._died(record, error, "it answered a turn")
                deaths += 1
                if deaths == TRIES:
                    self._blame(record, error)
        if said.failure is not None:
            record.life, record.outcome = NOWHERE, said.outcome
            raise said.failure.error()
        assert said.turn is not None and said.reply is not None
        self._counters.add("turns")
        if said.reply.done:
            record.life, record.outcome = NOWHERE, said.outcome
        else:
            record.played.append(Played(text, said.turn, said.reply))
        return Answer(said.turn, said.reply, said.outcome)

    def end(self, record: EpisodeRecord) -> Mapping[str, JsonValue]:
        """Close the session of an episode and return its outcome.

        Raises:
            EnvironmentFailure: the session fails, or cannot be opened again.
            NeverStarts: see `open`.
        """
        for _ in range(TRIES):
            self.open(record)
            try:
                record.outcome = self._close(record)
            except WorkerDied as error:
                self._died(record, error, "its session was closed")
                died = error.died
            else:
                return record.outcome
        message = f"{_name(record)}: closing the session ended its worker twice: {died.why}"
        raise EnvironmentFailure(died.kind, message, retryable=True)

    def drop(self, record: EpisodeRecord) -> bool:
        """Close the session of an episode, if it is open, and discard its outcome. Return whether it was open."""
        if record.life != self._worker.life or not self._worker.running:
            return False
        record.life = NOWHERE
        try:
            self._ask("drop", record)
        except WorkerDied as error:
            with contextlib.suppress(EnvironmentFailure):  # all is to end, which whoever asks next will notice
                self._died(record, error, "its session was closed")
        return True

    def _check_worker(self, record: EpisodeRecord) -> None:
        """Notice a worker that died, or was stopped, while nobody asked it anything."""
        try:
            if self._worker.ended:
                self._worker.stop()
                raise WorkerDied(Died("crashed", "the worker process ended"))
            if self._worker.running and time.monotonic() - self._heard > PING_AFTER_S:
                self._ask("ping", record)
        except WorkerDied as error:
            self._died(record, error, "it was idle")

    def _open(self, record: EpisodeRecord, *, same: bool = True) -> None:
        """Open the session of an episode and replay its turns; `same`: the replies must be those of before."""
        self._start(record)
        if record.opened:
            self._counters.add("replays")
        record.life, record.opened = self._worker.life, True
        try:
            prompt = record.prompt.model_dump(mode="json")
            _checked(self._ask("open", record, environment=record.prompt.environment, prompt=prompt, seed=record.seed))
            for place, played in enumerate(record.played):
                self._counters.add("replayed_turns")
                said = _checked(self._ask("turn", record, text=played.text))
                if same and (said.turn, said.reply) != (played.turn, played.reply):
                    raise DiffersAnew("backend", _other(record, place, played, said))
        except EnvironmentFailure:
            self.drop(record)
            raise

    def _close(self, record: EpisodeRecord) -> Mapping[str, JsonValue]:
        said = self._ask("close", record)
        record.life = NOWHERE
        outcome = _checked(said).outcome
        assert outcome is not None
        return outcome

    def _try_all_the_same(self, record: EpisodeRecord, text: str) -> None:
        """Give a turn that has ended its worker once more, though earlier replies are others now; return if that is answered.

        Raises:
            SessionLimit: the turn is to blame.
            EnvironmentFailure: we are.
        """
        again = record.control(next(self._numbers))
        try:
            self._open(again, same=False)
        except WorkerDied as error:
            self._died(again, error, "its turns were replayed")
            return
        try:
            self._ask("turn", again, text=text)
        except WorkerDied as error:
            self._died(again, error, "it answered a turn")
            self._blame(record, error, same=False)
        self.drop(again)

    def _blame(self, record: EpisodeRecord, error: WorkerDied, *, same: bool = True) -> NoReturn:
        """Raise by whose fault a turn has ended its worker twice."""
        died = error.died
        control = record.control(next(self._numbers))
        try:
            self._open(control, same=same)
            self._close(control)
        except WorkerDied as second:
            self._died(control, second, "it held a control session")
            why = f"a control session ended its worker too: {second.died.why}"
        except EnvironmentFailure as failure:
            why = f"a control session failed too: {failure.message}"
        else:
            raise SessionLimit(f"answering the turn twice ended its worker: {died.why}; a control session lived") from None
        raise EnvironmentFailure(died.kind, f"{_name(record)}: {died.why}, twice; {why}", retryable=True) from None

    def _ask(self, op: str, record: EpisodeRecord, **more: Any) -> Said:
        said = self._worker.ask({"op": op, "episode": record.number, **more})
        self._heard = time.monotonic()
        self.retire = self.retire or said.retire
        if said.problem:
            self._log.warn(record.prompt.environment, "problem", said.problem)
        return said

    def _start(self, record: EpisodeRecord) -> None:
        """Start the worker where it does not run.

        Raises:
            EnvironmentFailure: it does not start now.
            NeverStarts: nor will it ever.
        """
        if self._worker.running:
            return
        if (failure := self._start_failure) is not None and time.monotonic() - failure[0] < RETRY_START_S:
            raise EnvironmentFailure("unavailable", failure[1], retryable=True)
        slow = 0
        for pause_s in (*START_PAUSES_S, None):
            begun = time.monotonic()
            try:
                self._worker.start()
            except NeverStarts:
                raise
            except WorkerStartError as error:
                if self._closing():
                    raise closed() from None
                self._log.warn(record.prompt.environment, "start", str(error))
                slow += time.monotonic() - begun >= self._start_timeout_s
                if pause_s is None or slow == TRIES:
                    self._start_failure = (time.monotonic(), str(error))
                    raise EnvironmentFailure("unavailable", str(error), retryable=True) from None
                time.sleep(pause_s)
            else:
                self._start_failure, self._heard, self.retire = None, time.monotonic(), False
                return

    def _died(self, record: EpisodeRecord, error: WorkerDied, when: str) -> None:
        if self._closing():
            raise closed() from None
        self.retire = False
        self._counters.add("deaths")
        name, died = record.prompt.environment, error.died
        self._log.warn(name, died.kind, f"{died.why} while {when}, of prompt {record.prompt.key}")


def _checked(said: Said) -> Said:
    if said.failure is not None:
        raise said.failure.error()
    return said


def _name(record: EpisodeRecord) -> str:
    return record.prompt.environment


def _other(record: EpisodeRecord, place: int, played: Played, said: Said) -> str:
    """Return what differs between a recorded turn and its replay."""
    assert said.turn is not None and said.reply is not None
    what, before, now = ("reply", str(played.reply), str(said.reply))
    if said.turn != played.turn:
        what, before, now = ("turn as it was read", str(played.turn), str(said.turn))
    start = max(0, next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), 0) - _SHOWN // 4)
    return (
        f"{_name(record)}: opened anew, the session did not do the same: {what} {place + 1} was "
        f"{before[start : start + _SHOWN]!r} and is {now[start : start + _SHOWN]!r}"
    )
