"""Workers that hold sessions.

A worker is an object of this process that owns another process: it passes requests on to it, or says how it died.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from verigym.envs.contract.base import Environment
from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.grading.channel import MAX_MESSAGE_BYTES
from verigym.envs.grading.process import ChildProcess, Died, malformed
from verigym.envs.sessions.child import serve
from verigym.envs.sessions.host import Host
from verigym.envs.sessions.wire import Said
from verigym.sandbox.inside.wire import frames


@dataclass(frozen=True)
class Limits:
    """Limits of one turn, of a session's idleness and of a worker."""

    timeout_s: float
    memory_bytes: int | None
    idle_s: float
    start_timeout_s: float


class WorkerDied(Exception):
    """The worker has ended, and all its sessions with it. The next request starts a new worker."""

    def __init__(self, died: Died) -> None:
        super().__init__(died.why)
        self.died = died


class Worker(Protocol):
    """Interface of a worker."""

    life: int
    """Number that changes whenever the worker is restarted. Sessions that were opened under another number are gone."""

    @property
    def running(self) -> bool:
        """Whether it can answer without being started."""

    @property
    def ended(self) -> bool:
        """Whether it has died since it answered last."""

    def start(self) -> None:
        """Make the worker ready to answer. Raise WorkerStartError if that fails."""

    def ask(self, request: Mapping[str, Any]) -> Said:
        """Return the answer to `request`, which must be one that `Host.answer` accepts.

        Raises:
            WorkerDied: the worker hung, crashed or gave an invalid answer.
            EnvironmentFailure: `request` cannot be sent.
        """

    def kill(self) -> None:
        """End it at once; may be called from any thread."""

    def stop(self) -> None:
        """End it and leave nothing behind."""


class InProcessWorker:
    """Holds sessions in the calling thread. It needs no start-up, but a session that hangs cannot be stopped."""

    running = True
    ended = False

    def __init__(self, environments: Mapping[str, Environment]) -> None:
        self.life = 0
        self._host = Host(environments)

    def start(self) -> None:
        """Nothing to start."""

    def ask(self, request: Mapping[str, Any]) -> Said:
        """Answer here, by the same messages as a process does."""
        frame = self._host.answer({**request, "id": 0})
        return _read(request["op"], frames.parse(frame[4:], MAX_MESSAGE_BYTES), self)

    def kill(self) -> None:
        """Nothing to kill."""

    def stop(self) -> None:
        """Close all sessions."""
        self.life += 1
        self._host.close_all()


class ProcessWorker:
    """A worker process, started at the first request and again after each death.

    One thread owns it; any thread may call `kill`.
    """

    def __init__(self, environments: Mapping[str, Environment], limits: Limits) -> None:
        self.life = 0
        self._timeout_s = limits.timeout_s
        self._child = ChildProcess(serve, (dict(environments), limits.memory_bytes), limits.start_timeout_s)

    @property
    def running(self) -> bool:
        """Whether it can answer without being started."""
        return self._child.running

    @property
    def ended(self) -> bool:
        """Whether it has died since it answered last."""
        return self._child.ended

    def start(self) -> None:
        """Start the process and wait until it reports that it is ready.

        Raises:
            WorkerStartError: it cannot be started, died while starting, or took longer than `start_timeout_s`.
        """
        self._child.start()

    def ask(self, request: Mapping[str, Any]) -> Said:
        """Send `request` to the process and return its answer. The process is ended if no well-formed answer comes in time.

        Raises:
            WorkerDied: the process was ended, or had ended.
            EnvironmentFailure: `request` cannot be sent.
        """
        try:
            message = self._child.exchange(request, self._timeout_s)
        except ValueError as error:
            raise EnvironmentFailure("protocol", f"the turn cannot be sent to a worker: {describe(error)}") from None
        if isinstance(message, Died):
            self.life += 1
            hung = Died("timeout", f"no reply after {self._timeout_s:g} s (timeout_s)")
            raise WorkerDied(hung if message.kind == "timeout" else message)
        return _read(request["op"], message, self)

    def kill(self) -> None:
        """Kill the process and all processes that it started. The owner collects its exit status by calling `stop`."""
        self._child.kill()

    def stop(self) -> None:
        """Kill, reap and close."""
        self.life += 1
        self._child.stop()


def _read(op: str, message: Mapping[str, Any], worker: Worker) -> Said:
    try:
        said = Said.model_validate(message)
        if said.failure is None and not said.down and not said.answers(op):
            raise ValueError(f"what was asked by {op!r} is not in it")
    except ValueError as error:
        worker.stop()
        raise WorkerDied(malformed(error)) from None
    if said.down:
        worker.stop()
        raise WorkerDied(Died("crashed", said.down))
    return said
