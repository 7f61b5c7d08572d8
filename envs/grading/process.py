"""A child process that answers one request at a time, and is killed when it hangs, crashes or breaks the protocol."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from verigym.envs.contract.blame import describe
from verigym.envs.contract.errors import UsageError
from verigym.envs.grading.channel import Channel, encode
from verigym.sandbox.cores import THREAD_VARIABLES

WORKER_NAME = "verigym-grading-worker"
UNGUARDED_EXIT = 97
"""Exit code of a child process that, while importing the main script, came upon code that starts processes (no main guard)."""
UNGUARDED = (
    "a worker process imports the script that starts it, and this script grades while it is imported; put what grades under "
    "`if __name__ == '__main__':` (or pass workers=0, which grades in this process and cannot stop what hangs)"
)
READY = {"ready": True}
"""First message of a child, which is now ready for requests."""
_REAP_S = 5.0
_spawning = threading.Lock()
"""Held while environment variables are set for a child, so that another child that starts meanwhile does not get them."""

START_HINT = (
    "a script that grades must do so under `if __name__ == '__main__':`, and an environment's class must be importable "
    "(defined in a module, not in a notebook cell or a function); `workers=0` grades without worker processes"
)


@dataclass(frozen=True)
class Died:
    """The process ended without a reply."""

    kind: Literal["timeout", "crashed"]
    why: str


class WorkerStartError(Exception):
    """No process could be started; the message says why and what to do."""


class NeverStarts(WorkerStartError):
    """No later try to start the process can succeed: the script or the environment has to be changed."""


class ChildProcess:
    """A child process, started at the first request and again after each death. One thread owns it; any thread may call `kill`.

    Args:
        serve: function that runs in the child as `serve(socket, *arguments, parent_pid)`. It sends `READY`, and then a reply
            to each request. All messages are JSON, and a reply repeats the `id` of its request.
        arguments: arguments for `serve`, after the socket.
        start_timeout_s: seconds of wall time until the process must be ready.
        method: start method. With `fork`, arguments that cannot be pickled are allowed.
        variables: with `spawn`, environment variables to start with, such as PYTHONHASHSEED, which is only read at the start.
        threads: with `spawn`, number of threads of torch and other numerical libraries in the child. Variables that the
            user has set, of THREAD_VARIABLES, take precedence.
    """

    def __init__(
        self,
        serve: Callable[..., None],
        arguments: tuple[Any, ...],
        start_timeout_s: float,
        *,
        method: Literal["spawn", "fork"] = "spawn",
        variables: Mapping[str, str] | None = None,
        threads: int = 1,
    ) -> None:
        self._serve = serve
        self._arguments = arguments
        self._start_timeout_s = start_timeout_s
        self._method = method
        self._variables = dict(variables or {})
        self._threads = threads
        self._process: BaseProcess | None = None
        self._channel: Channel | None = None
        self._ids = itertools.count()

    @property
    def running(self) -> bool:
        """Whether it runs, ready for requests."""
        return self._process is not None

    @property
    def ended(self) -> bool:
        """Return whether the process was started but has ended, so that it cannot answer another request."""
        return self._process is not None and not self._process.is_alive()

    def start(self) -> None:
        """Start the process and wait until it reports that it is ready.

        Raises:
            WorkerStartError: it cannot be started, died while starting, or took longer than `start_timeout_s`.
            NeverStarts: no later try can succeed, because the script has no main guard or an environment cannot be pickled.
        """
        if self._process is not None:
            return
        if self._method == "spawn":
            _refuse_standard_input()
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise WorkerStartError(f"no connection to a worker can be made: {describe(error)}") from error
        self._channel = Channel(ours)
        context: Any = multiprocessing.get_context(self._method)
        process = context.Process(target=self._serve, args=(theirs, *self._arguments, os.getpid()), name=WORKER_NAME)
        try:
            spawned = _variables(self._variables, self._threads) if self._method == "spawn" else contextlib.nullcontext()
            with spawned, warnings.catch_warnings():
                if self._method == "fork":  # a fork of several threads may hang, which is met like any other hang
                    warnings.simplefilter("ignore", DeprecationWarning)
                # Ctrl-C reaches the whole group, and a child that is starting would print a traceback; `settle` unblocks it.
                if self._method == "spawn":
                    resource_tracker.ensure_running()  # which unblocks it too, when it starts
                blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        except Exception as error:
            self._discard()
            kind = WorkerStartError if isinstance(error, OSError) else NeverStarts
            raise kind(f"the environments cannot be sent to a worker process: {describe(error)}; {START_HINT}") from error
        finally:
            theirs.close()
        self._process = process
        try:
            if self._channel.receive(time.monotonic() + self._start_timeout_s) != READY:
                raise ValueError("its first message is not the expected one")
        except TimeoutError:
            self.stop()
            raise WorkerStartError(
                f"a worker process was not ready after {self._start_timeout_s:g} s (start_timeout_s); {START_HINT}"
            ) from None
        except (EOFError, OSError, ValueError) as error:
            how = self._exit()
            unguarded = process.exitcode == UNGUARDED_EXIT
            self.stop()
            if unguarded:
                raise NeverStarts(UNGUARDED) from None
            raise WorkerStartError(
                f"a worker process {how} while starting ({describe(error)}; its own message is on stderr); {START_HINT}"
            ) from None

    def exchange(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any] | Died:
        """Send `request` and return the reply. If no valid reply comes within `timeout_s`, end the process and return `Died`.

        Raises:
            ValueError: `request` cannot be sent.
            WorkerStartError: see `start`.
        """
        self.start()
        assert self._channel is not None
        number = next(self._ids)
        frame = encode({**request, "id": number})
        deadline = time.monotonic() + timeout_s
        try:
            self._channel.send(frame, deadline)
            reply = self._channel.receive(deadline)
            # An environment that forks by accident answers twice: without the number, every later verdict would shift.
            if reply["id"] != number:
                raise ValueError(f"it answered item {reply['id']} when asked for item {number}")
        except TimeoutError:
            died = Died("timeout", f"no verdict after {timeout_s:g} s (timeout_s)")
        except (EOFError, OSError):
            died = Died("crashed", f"the worker process {self._exit()}")
        except (ValueError, LookupError, TypeError) as error:
            died = malformed(error)
        else:
            return reply
        self.stop()
        return died

    def kill(self) -> None:
        """Kill the process and all processes that it started. The owning thread must still call `stop`, which reaps it."""
        process = self._process
        if process is None:
            return
        # The group exists once the child has called setsid. ValueError: the owner has just closed the process.
        with contextlib.suppress(ValueError, OSError):
            if process.pid is not None:
                os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(ValueError, OSError):
            process.kill()

    def stop(self) -> None:
        """Kill, reap and close."""
        self.kill()
        process, self._process = self._process, None
        if process is not None:
            process.join(_REAP_S)
            with contextlib.suppress(ValueError):  # still there: stuck in the kernel; it dies when that returns
                process.close()
        self._discard()

    def _discard(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _exit(self) -> str:
        """Say how the process ended; it has closed its end, so it is about to."""
        process = self._process
        if process is None:
            return "was killed"
        process.join(1.0)
        code = process.exitcode
        if code is None:
            return "closed its connection"
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"


def _refuse_standard_input() -> None:
    """Refuse to spawn from a script that a child cannot import, as `python - <<EOF` is.

    Raises:
        NeverStarts: the script was read from standard input.
    """
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is not None and os.path.basename(file) == "<stdin>":
        raise NeverStarts(
            "a worker process imports the script that starts it, and this one was read from standard input; save it to a file, "
            "or pass workers=0, which grades in this process and cannot stop what hangs"
        )


def malformed(error: Exception) -> Died:
    """Return the death of a process whose answer cannot be read."""
    return Died("crashed", f"the worker process sent a malformed answer: {describe(error)}")


def refuse_after_fork(begun_in: int | None, what: str) -> None:
    """Raise an error in a forked process that uses threads or workers which its parent started.

    They run for the parent only, so the forked process would wait for ever.

    Args:
        begun_in: id of the process that started the threads and workers; None if they are not started.
        what: words for the threads and workers in the error message.

    Raises:
        UsageError: this process is not the one with the id `begun_in`.
    """
    if begun_in is not None and begun_in != os.getpid():
        raise UsageError(f"{what} were started in process {begun_in}, of which this one is a fork; make new ones here")


def refuse_in_a_worker() -> None:
    """Stop code that starts processes if it runs in a child process that is just importing the main script.

    A spawned child imports the main script. If that script has no main guard, the child would start processes of its own. A
    worker process of verigym then exits at once, so that only its parent reports the error. Any other child raises the error.

    Raises:
        UsageError: this is a child process that something other than verigym started, and it is importing the main script.
    """
    process = multiprocessing.current_process()
    if getattr(process, "_inheriting", False):
        if process.name == WORKER_NAME:
            os._exit(UNGUARDED_EXIT)
        raise UsageError(UNGUARDED)


@contextlib.contextmanager
def _variables(variables: Mapping[str, str], threads: int) -> Iterator[None]:
    """Set environment variables while a process is started, which inherits them; see `ChildProcess`."""
    with _spawning:
        own = {} if "OMP_NUM_THREADS" in os.environ else dict.fromkeys(set(THREAD_VARIABLES) - set(os.environ), str(threads))
        given = own | dict(variables)
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
