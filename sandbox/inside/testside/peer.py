"""The test's end of the channel to the candidate's process. Data that arrives is untrusted and never executed.

An answer is plain data, the names of an exception, or the handle (the number and description) of an object. A candidate that
dies or breaks the protocol is recorded as lost, even if the test code catches the exception.
"""

from __future__ import annotations

import _thread
import sys
import types

from verigym.sandbox.inside.walls import cpu_affinity
from verigym.sandbox.inside.wire import frames
from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import PROGRAM, CannotCross, CodecError
from verigym.sandbox.inside.wire.shared_containers import SharedContainers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class TestStopped(BaseException):
    """The test cannot continue: the candidate is lost, or the test needs something that is impossible across processes."""


class CandidateError(BaseException):
    """The candidate raised an exception such as SystemExit or KeyboardInterrupt, which must not be raised here."""


class Exhausted(Exception):
    """The candidate raised StopIteration or StopAsyncIteration outside of an iteration."""


class RemoteError(Exception):
    """The candidate raised the exception described in `error`."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["type"], error["message"])
        self.error = error


class Peer:
    """The test's connection to the candidate: sends requests, one at a time, and serves the candidate's callbacks."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.touched = False
        """Whether the test used the candidate at all."""
        self.lost = ""
        self.unsupported = ""
        """What the test needs that cannot cross; empty if nothing."""
        self.wrap: Callable[..., Any] | None = None
        """Makes the local object for a handle."""
        self.unwrap: Callable[..., Any] | None = None
        self.aliases = SharedContainers(
            lambda *args: None if self.unwrap is None else self.unwrap(*args),
            lambda *args: None if self.wrap is None else self.wrap(*args),
        )
        self.is_the_tests: Callable[[bool], bool] = lambda has_values: True
        """Function that returns whether the test makes the current request regardless of earlier answers. Its argument says
        whether the request carries values."""
        self.missed_a_name = False
        """Whether the test looked up a name that the candidate does not define, which may have changed the test's course."""
        self._calling_back = 0
        self.ignores_states = False
        """True while changes of shared containers or arguments of a callback are decoded. States of known objects in them are
        ignored, because the test did not ask for them."""
        self.note: Callable[[Any, set[int]], None] | None = None
        """Callback that receives the states of the objects that took part in a request, and the numbers of these objects."""
        self._names: frozenset[str] | None = None
        self.functions: dict[str, Any] = {}
        """Function name -> description that the candidate sent when it was loaded."""
        self.requests_sent = 0
        """Number of requests sent."""
        self.callbacks: list[Any] = []
        """Functions of the test that were passed to the candidate, by number."""
        self.raised: list[BaseException] = []
        """Exceptions that they raised, by number."""
        self._lock = _thread.RLock()

    def names(self) -> frozenset[str]:
        """Return the names that the candidate defines, waiting until it is loaded.

        Raises:
            TestStopped: the candidate did not load.
        """
        if self._names is None:
            with self._lock:
                frame = self._frame()
                if frame.get("op") == "failed" and type(error := frame.get("error")) is dict:
                    self.mark_lost(f"the program does not load: {error.get('type')}: {error.get('message')}")
                names: Any = frame.get("names")
                if frame.get("op") != "loaded" or type(names) is not list or any(type(name) is not str for name in names):
                    self.mark_lost("protocol: no list of names")
                self._names = frozenset(names)
                described: Any = frame.get("functions")
                self.functions = described if type(described) is dict else {}
        return self._names

    def ask(
        self, body: dict[str, Any], args: Any = (), kwargs: dict[str, Any] | None = None, *, is_tests_doing: bool = True
    ) -> dict[str, Any]:
        """Send one request and return its answer.

        Applies the candidate's changes to mutable arguments, and prints the text that the candidate printed.

        Args:
            body: the request without its arguments.
            args: positional arguments of the request.
            kwargs: keyword arguments of the request.
            is_tests_doing: whether the test makes this request for every candidate, so that an argument that cannot be sent is
                the test's fault.

        Raises:
            TypeError: an argument cannot be sent, and the test is not at fault.
            TestStopped: there is no answer.
        """
        self.touched = True
        self.names()
        kwargs = kwargs or {}
        with self._lock:
            try:
                data, containers = self.aliases.write([*args, *kwargs.values()])
            except CannotCross as left:
                if left.size:
                    raise TypeError(f"an argument is too large: {left.what}") from None
                if not is_tests_doing or is_of_the_candidate(left.value):
                    raise TypeError(f"a {left.what} cannot cross to the program") from None
                self.refuse(f"the test passes a {left.what}, which cannot cross to another process", has_values=True)
            self.requests_sent += 1
            number = self.requests_sent
            body |= {"id": number, "handles": True, "args": data[: len(args)]}
            body |= {"kwargs": dict(zip(kwargs, data[len(args) :], strict=True)), "both": self.aliases.send(containers)}
            del containers
            reply = self._frame(body)
            while "callback" in reply:
                reply = self._frame(self._called_back(reply))
            if reply.get("id") != number or type(reply.get("id")) is not int:
                self.mark_lost("protocol: an answer to another question")
            if self.note is not None and "states" in reply:
                held = [body, *(item for item in data if type(item) is dict)]
                self.note(reply["states"], {item["h"] for item in held if type(item.get("h")) is int})
            is_value = "value" in reply and body.get("op") != "state"
            values = self._apply_shared([reply["value"]] if is_value else [], reply)
            if is_value:
                reply["value"] = values[0]
        out = reply.get("out", "")
        if type(out) is not str:
            self.mark_lost("protocol: printed text that is no text")
        if out and sys.stdout is not None:
            sys.stdout.write(out)
        return reply

    def _called_back(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call a function of the test for the candidate. Returns the answer to send."""
        number, args, kwargs = request["callback"], request.get("args"), request.get("kwargs")
        if (
            type(number) is not int
            or not 0 <= number < len(self.callbacks)
            or type(args) is not list
            or type(kwargs) is not dict
        ):
            self.mark_lost("protocol: a call of no known function")
        assert args is not None and kwargs is not None
        self.ignores_states = True
        values = self._apply_shared([*args, *kwargs.values()], request)
        self.ignores_states = False
        given = values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True))
        del values
        self._calling_back += 1
        try:
            results = [self.callbacks[number](*given[0], **given[1])]
            del given
            if request.get("awaited") is True and type(results[0]) is types.CoroutineType:
                results[0] = _run(results[0])
            (data,), containers = self.aliases.write(results)
            return {"returned": data, "both": self.aliases.send(containers, results)}
        except TestStopped:
            raise
        except BaseException as error:  # exits too: otherwise the program could end the test as passed
            self.raised.append(error)
            mro = [kind.__name__ for kind in type(error).__mro__[:-2]]
            return {"raised": len(self.raised) - 1, "mro": mro, "message": _message(error), "both": self.aliases.send([])}
        finally:
            self._calling_back -= 1

    def value(self, body: dict[str, Any], args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """Send the request `body` with its arguments and return the value in the answer.

        Raises:
            RemoteError: the candidate raised an exception.
            TestStopped: the candidate is lost or sent an answer without a value.
        """
        reply = self.ask(body, args, kwargs)
        if "value" in reply:
            return reply["value"]
        if "error" in reply:
            raise RemoteError(self._error(reply["error"]))
        self.mark_lost(f"it returned what cannot cross: {str(reply.get('cannot'))[:100]}")

    def read(self, data: Any) -> Any:
        """Decode `data`, which the candidate sent. Malformed data stops the test."""
        try:
            return decode(data, self.wrap, guard=True)
        except CodecError as error:
            self.mark_lost(f"protocol: {error}")

    def mark_lost(self, why: str) -> Any:
        """Record that the candidate is lost for the reason `why`, and stop the test.

        Raises:
            TestStopped: always.
        """
        self.lost = self.lost or why[:1000]
        raise TestStopped(self.lost)

    def refuse(self, why: str, *, has_values: bool = False) -> Any:
        """Record that the test needs something that is impossible across processes, and stop the test.

        Args:
            why: the reason, for the message.
            has_values: whether the test sends values with the current request.

        Raises:
            TestStopped: the test makes the current request regardless of the candidate's answers, so the test is at fault.
            TypeError: the candidate's answers may have led the test to this request, so it counts as the candidate's failure.
        """
        # A callback runs because the candidate called it.
        if self._calling_back or ((self.requests_sent or self.missed_a_name) and not self.is_the_tests(has_values)):
            raise TypeError(f"{why}; such a test needs trust=shared")
        self.unsupported = self.unsupported or f"{why}; such a test needs trust=shared"
        raise TestStopped(self.unsupported)

    def _frame(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        if self.lost:
            raise TestStopped(self.lost)
        try:
            if request is not None:
                frames.send(self.fd, request)
            cpu_affinity.here.pin()
            answer = frames.receive(self.fd)
            cpu_affinity.here.unpin()
            return answer
        except EOFError:
            self.mark_lost("the candidate's process ended")
        except (frames.FrameError, OSError, MemoryError) as error:
            self.mark_lost(f"protocol: {error}")
        raise AssertionError

    def _apply_shared(self, data: list[Any], frame: dict[str, Any]) -> list[Any]:
        """Decode values from the candidate, and apply its changes to shared containers."""
        try:
            values, containers = self.aliases.read(data, guard=True)
            was_unasked, self.ignores_states = self.ignores_states, True
            self.aliases.receive(frame.get("both", {}), containers, guard=True)
            self.ignores_states = was_unasked
        except ValueError as error:
            self.mark_lost(f"protocol: {error}")
        return values

    def _error(self, error: Any) -> dict[str, Any]:
        good = type(error) is dict and all(type(error.get(key)) is str for key in ("type", "message"))
        for key in ("mro", "own"):
            good = (
                good
                and type(error.get(key)) is list
                and all(type(name) is str for name in error[key])
                and len(error[key]) < 100
            )
        if not good:
            self.mark_lost("protocol: an error of no known form")
        error["args"] = [self.read(data) for data in error["args"]] if type(error.get("args")) is list else []
        attributes = error.get("attributes")
        error["attributes"] = {name: self.read(data) for name, data in attributes.items()} if type(attributes) is dict else {}
        return dict(error)


def _run(coroutine: Any) -> Any:
    """Run a coroutine in a new event loop and return its result: a loop already running here waits for the candidate."""
    import asyncio

    loop, around = asyncio.new_event_loop(), asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
        asyncio._set_running_loop(around)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:10_000]
    except Exception:
        return ""


def is_of_the_candidate(value: Any) -> bool:
    """Return whether `value` is a local stand-in for a coroutine, an exception or an exception class of the candidate."""
    code = getattr(value, "cr_code", None)
    module = getattr(value, "__module__", None) if code is None else code.co_filename
    return module == PROGRAM or "verigym" in str(module)
