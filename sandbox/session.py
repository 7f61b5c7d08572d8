"""Sessions: load a Python program once, call its functions, get plain data back.

The program's answers are untrusted. Frames and values are parsed within limits, and the results have exact built-in types.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from verigym.sandbox import languages
from verigym.sandbox.arguments import checked
from verigym.sandbox.channel import Channel
from verigym.sandbox.event_loop import Run, destroy_on_error, poll_runs
from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import CannotCross as NotPlain
from verigym.sandbox.inside.wire.encoding import CodecError, encode
from verigym.sandbox.job import Job
from verigym.sandbox.spec import Limits, Program, RunResult, RunStatus

_SOURCE = "solution.py"
_CALLS = 1000  # a session's CPU limit, in calls; each call has its own wall limit
_LEAST_ANSWER_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Loaded:
    """The reply if the program has been loaded."""

    names: tuple[str, ...]
    """Names that the program defines."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply if a call returned a value."""

    value: Any
    changed: Mapping[int | str, Any] = field(default_factory=dict)
    """Arguments that the call mutated: position or name -> new value."""
    out: str = ""
    """Text printed during the call, at most 64 KiB."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The reply if a call or the loading of the program raised an exception."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class CannotCross:
    """The reply if a call returned a value that is not plain data."""

    what: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply if the program has ended and cannot answer."""

    result: RunResult


Reply = Answer | Raised | CannotCross | Ended


class Session:
    """A loaded program whose functions can be called. Made by `Sandbox.session`; only one thread may use it at a time.

    Each call has the wall limit `wall_s`. The CPU limit is that of the whole session: `cpu_s` times 1,000 calls. So a call that
    never returns ends at its wall limit.
    """

    def __init__(self, start: Callable[[Job], Run], program: Program, limits: Limits) -> None:
        self._limits = limits
        ours, theirs = socket.socketpair()
        self._channel = Channel(ours, max(limits.output_bytes, _LEAST_ANSWER_BYTES))
        self._next_id = 0
        try:
            self._run = start(candidate_job(program, limits, theirs, cpu_factor=_CALLS))
            with destroy_on_error(self._run):
                self.loaded: Loaded | Raised | Ended = self._load()
        except BaseException:
            ours.close()
            theirs.close()
            raise

    def _load(self) -> Loaded | Raised | Ended:
        message = self._receive()
        if isinstance(message, Ended):
            return message
        error = message.get("error")
        if message.get("op") == "failed" and isinstance(error, dict):
            return Raised(str(error.get("type"))[:200], str(error.get("message"))[:2000])
        names = message.get("names")
        if message.get("op") != "loaded" or not isinstance(names, list):
            return self._spoil("the program wrote something else than an answer")
        return Loaded(tuple(name for name in names if isinstance(name, str)))

    @checked
    def call(self, function: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Reply:
        """Call the program's function called `function`, or the method of that name of its `class Solution`.

        Args:
            function: name of the function.
            args: positional arguments.
            kwargs: keyword arguments.

        Returns:
            An `Answer` with the value, `Raised` with the exception, or another reply that says why there is no value.

        Raises:
            TypeError: an argument is not plain data.
            SandboxFailure: the sandbox failed.
        """
        if isinstance(self.loaded, Ended):
            return self.loaded
        if self._run.done:
            return self._end()
        self._next_id += 1
        request = {
            "id": self._next_id,
            "call": function,
            "args": [_sent(value, f"args[{place}]") for place, value in enumerate(args)],
            "kwargs": {name: _sent(value, f"kwargs[{name!r}]") for name, value in (kwargs or {}).items()},
        }
        self._run.deadline = time.monotonic() + self._limits.wall_s
        self._channel.send(request, [self._run])
        message = self._receive()
        if isinstance(message, Ended):
            return message
        return self._reply(message)

    def _reply(self, message: Mapping[str, Any]) -> Reply:
        if message.get("id") != self._next_id:
            return self._spoil("the program answered a question that was not asked")
        error = message.get("error")
        if isinstance(error, dict):
            return Raised(str(error.get("type"))[:200], str(error.get("message"))[:2000])
        if "cannot" in message:
            return CannotCross(str(message["cannot"])[:200])
        try:
            changed = {_place(place): decode(value, arrays=False) for place, value in message.get("changed") or ()}
            return Answer(decode(message["value"], arrays=False), changed, str(message.get("out") or ""))
        except (CodecError, KeyError, TypeError, ValueError) as error:
            return self._spoil(f"the answer is no plain data ({type(error).__name__})")

    def _receive(self) -> dict[str, Any] | Ended:
        message = self._channel.receive([self._run])
        if message is not None:
            return message
        if self._channel.too_large:
            return self._spoil(self._channel.broken, RunStatus.OUTPUT)
        return self._spoil(self._channel.broken) if self._channel.broken else self._end()

    def _spoil(self, why: str, status: RunStatus = RunStatus.PROTOCOL) -> Ended:
        self._run.kill(status, why)
        return self._end()

    def _end(self) -> Ended:
        if not self._run.done:
            # It has closed the channel. Its exit status tells why; if it does not exit, it is killed at its deadline.
            poll_runs([self._run])
        result = self._run.outcome()
        if result.status is RunStatus.OK:
            message = "ended instead of answering"
            result = RunResult(status=RunStatus.RUNTIME, stderr=result.stderr, exit_code=0, message=message)
        ended = Ended(result)
        self.loaded = ended
        return ended

    def halt(self) -> None:
        """Stop all processes of the program until `resume`. Does nothing if the back end cannot stop them."""
        self._run.halt()

    def resume(self) -> None:
        """Let the processes that `halt` stopped continue."""
        self._run.resume()

    def close(self) -> None:
        """End the program."""
        if not self._run.done:
            self._run.kill(RunStatus.OK, "")
            poll_runs([self._run])
        self._channel.close()


def _sent(value: Any, place: str) -> Any:
    try:
        return encode(value)
    except NotPlain as error:
        raise TypeError(
            f"Session.call: {place}: expected plain data, such as numbers, texts, lists and dictionaries; got {error.what}"
        ) from None


def _place(place: object) -> int | str:
    if type(place) is int or type(place) is str:
        return place
    raise TypeError("neither a position nor a name")


def candidate_job(program: Program, limits: Limits, channel: socket.socket, *, cpu_factor: float = 1.0) -> Job:
    """Return the job of a Python program that answers calls.

    Args:
        program: the program.
        limits: its resource limits.
        channel: the program's end of the socket over which it is called.
        cpu_factor: factor on the limit of CPU time.

    Raises:
        ValueError: the program is not written in Python.
    """
    if program.language != "python":
        raise ValueError(f"calls reach programs in Python only, not {program.language!r}")
    files = {**program.files, _SOURCE: languages.source_bytes(program.source)}
    return Job(
        mode="calls",
        source=_SOURCE,
        prelude=program.prelude,
        files=files,
        limits=languages.with_room(limits, files),
        channels=(channel,),
        cpu_factor=cpu_factor,
        address_space=False,
    )
