"""The event loop over runs in progress: reads their output, enforces deadlines, kills runs that exceed a limit."""

from __future__ import annotations

import select
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from verigym.sandbox.spec import RunResult, RunStatus, SandboxFailure

KILL_GRACE_S = 1.0
SLICE_S = 0.5
"""The longest wait at a time."""
STILL_S = 1.0
"""If a wait ends this many seconds late or more, this process was presumably stopped, for instance by SIGSTOP. Then the runs'
deadlines are extended by the delay."""
QUIET_S = 0.005
"""Seconds after a run's start before its output is polled. Most runs end earlier, so their output is read only once."""


class Run(ABC):
    """One run in progress. `poll_runs` polls its descriptors until the run is done."""

    deadline: float
    """Monotonic time by which the run must have ended. A session resets it for each call."""
    timeout_reason: tuple[RunStatus, str] = (RunStatus.TIME, "the wall time limit")
    """Status and message of the kill at the deadline."""
    result: RunResult | None = None
    failure: SandboxFailure | None = None

    @property
    def done(self) -> bool:
        """Whether the run has a result or has failed."""
        return self.result is not None or self.failure is not None

    @abstractmethod
    def readable(self) -> Sequence[int]:
        """Return the descriptors to poll for reading."""

    @abstractmethod
    def on_readable(self, fd: int) -> None:
        """Read what is available from the descriptor `fd`."""

    @abstractmethod
    def kill(self, status: RunStatus, message: str) -> None:
        """Kill the run; its result then has `status` and `message`. Only the first kill counts."""

    @abstractmethod
    def halt(self) -> None:
        """Stop all processes of the run until `resume`; they can still be killed. Back ends that cannot do this do nothing."""

    @abstractmethod
    def resume(self) -> None:
        """Let the processes that `halt` stopped continue."""

    def check_usage(self) -> float | None:
        """Kill the run if it uses too many resources.

        Returns:
            The seconds until the next check; None if no further check is needed.
        """
        return None

    @abstractmethod
    def destroy(self) -> None:
        """Kill the worker of a run that did not end in time after `kill`. Afterwards `result` or `failure` is set."""

    @property
    @abstractmethod
    def killed_at(self) -> float | None:
        """The monotonic time at which the run was killed; None if it was not."""

    def outcome(self) -> RunResult:
        """Return the result of the run, which must be done.

        Raises:
            SandboxFailure: the sandbox failed.
        """
        if self.failure is not None:
            raise self.failure
        if self.result is None:
            raise SandboxFailure("the run has not ended")
        return self.result


class destroy_on_error:  # noqa: N801, used like a function
    """Context manager that destroys the given runs if its block raises, since nothing would enforce their deadlines then."""

    def __init__(self, *runs: Run) -> None:
        self._runs = list(runs)

    def __enter__(self) -> list[Run]:
        """Return the list of runs, to which more may be appended."""
        return self._runs

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            for run in self._runs:
                if not run.done:
                    run.destroy()


def poll_runs(
    runs: Sequence[Run],
    *,
    watch: Mapping[int, Callable[[], None]] | None = None,
    write: Mapping[int, Callable[[], None]] | None = None,
    until: Callable[[], bool] = lambda: False,
    watch_from: float = 0.0,
) -> None:
    """Serve `runs` until all are done or `until()` returns True.

    Args:
        runs: the runs, each with its own deadline.
        watch: further descriptors to poll for reading, each with its callback.
        write: further descriptors to poll for writing, each with its callback.
        until: called after every event; True ends the loop.
        watch_from: monotonic time before which `watch` is not polled. Earlier events wait until that time, because a wake-up
            costs more than a small delay.
    """
    while not until():
        active = [run for run in runs if not run.done]
        if not active:
            return
        poll = select.poll()
        handlers: dict[int, Callable[[], None]] = {}
        owners: dict[int, Run] = {}
        for run in active:
            for fd in run.readable():
                poll.register(fd, select.POLLIN)
                owners[fd] = run
        now = time.monotonic()
        waits = [run.deadline - now if run.killed_at is None else run.killed_at + KILL_GRACE_S - now for run in active]
        waits += [pause for run in active if run.killed_at is None and (pause := run.check_usage()) is not None]
        if watch and now < watch_from:
            waits.append(watch_from - now)
        elif watch:
            _register(poll, handlers, watch, select.POLLIN)
        if write:
            _register(poll, handlers, write, select.POLLOUT)
        wait = max(0.0, min(*waits, SLICE_S))
        begun = time.monotonic()
        events = poll.poll(wait * 1000 + 0.5)
        _give_back(active, time.monotonic() - begun - wait)
        for fd, _events in events:
            if fd in handlers:
                handlers[fd]()
            elif not owners[fd].done:
                owners[fd].on_readable(fd)
        for run in active:
            _watch_the_clock(run)


def _give_back(runs: Sequence[Run], late_s: float) -> None:
    """Move the deadlines of runs by the time that this process stood still, as under SIGSTOP or on a paused machine."""
    if late_s >= STILL_S:
        for run in runs:
            run.deadline += late_s


def _register(
    poll: select.poll, handlers: dict[int, Callable[[], None]], more: Mapping[int, Callable[[], None]], interest: int
) -> None:
    for fd, handler in more.items():
        poll.register(fd, interest)
        handlers[fd] = handler


def _watch_the_clock(run: Run) -> None:
    now = time.monotonic()
    if run.done:
        return
    if run.killed_at is None:
        if now >= run.deadline:
            run.kill(*run.timeout_reason)
    elif now >= run.killed_at + KILL_GRACE_S:
        run.destroy()
