"""The test side's end of the channel to the candidate, in another process. Nothing that comes from there is believed or run.

An answer is plain data, an exception's names, or a number that stands for an object. A candidate that dies or breaks the
protocol is remembered as lost, whatever the test code does about the exception.
"""

from __future__ import annotations

import _thread
import sys

from verigym.sandbox.inside import core, frames
from verigym.sandbox.inside.aliases import Aliases, merge
from verigym.sandbox.inside.decoding import decode
from verigym.sandbox.inside.encoding import PROGRAM, CannotCross, CodecError, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Stopped(BaseException):
    """The test cannot go on: the candidate is gone, or the test asks for what cannot be done across processes."""


class CandidateError(BaseException):
    """The candidate raised what must not be raised here: SystemExit, KeyboardInterrupt and their like, no `Exception`."""


class RemoteError(Exception):
    """The candidate raised what it described."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["type"], error["message"])
        self.error = error


class Peer:
    """Sends requests to the candidate, one at a time."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.touched = False
        """Whether the test asked for anything of the candidate's."""
        self.lost = ""
        self.unfit = ""
        """What the test asks for that cannot cross."""
        self.wrap: Callable[..., Any] | None = None
        """Makes an object of a number."""
        self.unwrap: Callable[..., Any] | None = None
        self.aliases = Aliases(lambda *args: None if self.unwrap is None else self.unwrap(*args))
        self.is_the_tests: Callable[[bool], bool] = lambda has_values: True
        """Whether what is asked now, and the values passed with it, is the test's own doing, whatever was answered before."""
        self.lacks_a_name = False
        """Whether the test asked for a name that the candidate does not define: it may go on otherwise for that."""
        self._calling_back = 0
        self.reads_unasked = False
        """Whether what is being read accompanies an answer: states of known objects in it are ignored."""
        self.note: Callable[[Any, set[int]], None] | None = None
        """Told of the states of objects that were asked for something, or given to it, and which these are."""
        self._names: frozenset[str] | None = None
        self.functions: dict[str, Any] = {}
        """What the candidate has said of its functions when it was loaded."""
        self.asked = 0
        """How many requests were sent."""
        self.callbacks: list[Any] = []
        """Functions of the test's that the candidate was given, by number."""
        self.raised: list[BaseException] = []
        """What they raised, by number."""
        self._lock = _thread.RLock()

    def names(self) -> frozenset[str]:
        """The candidate's own definitions; waits until it is loaded.

        Raises:
            Stopped: it did not load.
        """
        if self._names is None:
            with self._lock:
                frame = self._frame()
                if frame.get("op") == "failed" and type(error := frame.get("error")) is dict:
                    self.lose(f"the program does not load: {error.get('type')}: {error.get('message')}")
                names: Any = frame.get("names")
                if frame.get("op") != "loaded" or type(names) is not list or any(type(name) is not str for name in names):
                    self.lose("protocol: no list of names")
                self._names = frozenset(names)
                described: Any = frame.get("functions")
                self.functions = described if type(described) is dict else {}
        return self._names

    def ask(
        self, body: dict[str, Any], args: Any = (), kwargs: dict[str, Any] | None = None, *, is_tests_doing: bool = True
    ) -> dict[str, Any]:
        """Send one request and wait for its answer; changes to arguments are applied to them, printed text is printed.

        Args:
            body: what is asked for.
            args: for it.
            kwargs: for it.
            is_tests_doing: whether the test would ask for it whatever the candidate is.

        Raises:
            TypeError: an argument that cannot cross, and not by the test's fault.
            Stopped: there is no answer.
        """
        self.touched = True
        self.names()
        kwargs = kwargs or {}
        try:
            body["args"] = [encode(value, self.unwrap) for value in args]
            body["kwargs"] = {name: encode(value, self.unwrap) for name, value in kwargs.items()}
        except CannotCross as left:
            if left.size:
                raise TypeError(f"an argument is too large: {left.what}") from None
            if not is_tests_doing or is_of_the_candidate(left.value):
                raise TypeError(f"a {left.what} cannot cross to the program") from None
            self.refuse(f"the test passes a {left.what}, which cannot cross to another process", has_values=True)
        with self._lock:
            self.asked += 1
            number = self.asked
            body["id"], body["handles"], body["aliases"] = number, True, self.aliases.changes()
            reply = self._frame(body)
            while "callback" in reply:
                self._agree(reply)
                reply = self._frame(self._called_back(reply) | {"aliases": self.aliases.changes()})
            if reply.get("id") != number or type(reply.get("id")) is not int:
                self.lose("protocol: an answer to another question")
        self._apply(reply.get("changed", []), list(args), kwargs)
        self._agree(reply)
        self._keep(reply.get("kept", []), list(args), kwargs)
        if self.note is not None and "states" in reply:
            held = [body, *(data for data in (*body["args"], *body["kwargs"].values()) if type(data) is dict)]
            self.note(reply["states"], {data["h"] for data in held if type(data.get("h")) is int})
        out = reply.get("out", "")
        if type(out) is not str:
            self.lose("protocol: printed text that is no text")
        if out and sys.stdout is not None:
            sys.stdout.write(out)
        return reply

    def _called_back(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Call a function of the test's for the candidate. Returns what to answer."""
        number, args, kwargs = asked["callback"], asked.get("args"), asked.get("kwargs")
        if (
            type(number) is not int
            or not 0 <= number < len(self.callbacks)
            or type(args) is not list
            or type(kwargs) is not dict
        ):
            self.lose("protocol: a call of no known function")
        self.reads_unasked = True
        given = [self.read(data) for data in args or ()], {name: self.read(data) for name, data in (kwargs or {}).items()}
        self.reads_unasked = False
        self._calling_back += 1
        try:
            found = self.callbacks[number](*given[0], **given[1])
            return {"returned": encode(found, self.unwrap)}
        except Stopped:
            raise
        except BaseException as error:  # an exit too: else the program would have ended the test as one that has passed
            self.raised.append(error)
            mro = [kind.__name__ for kind in type(error).__mro__[:-2]]
            return {"raised": len(self.raised) - 1, "mro": mro, "message": _message(error)}
        finally:
            self._calling_back -= 1

    def value(self, body: dict[str, Any], args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        """The value that answers a request.

        Raises:
            RemoteError: the candidate raised.
            Stopped: there is no value.
        """
        reply = self.ask(body, args, kwargs)
        if "value" in reply:
            return self.read(reply["value"])
        if "error" in reply:
            raise RemoteError(self._error(reply["error"]))
        self.lose(f"it returned what cannot cross: {str(reply.get('cannot'))[:100]}")

    def read(self, data: Any) -> Any:
        """Decode what the candidate sent."""
        try:
            return decode(data, self.wrap, guard=True)
        except CodecError as error:
            self.lose(f"protocol: {error}")

    def lose(self, why: str) -> Any:
        """Remember that the candidate cannot go on, and stop the test."""
        self.lost = self.lost or why[:1000]
        raise Stopped(self.lost)

    def refuse(self, why: str, *, has_values: bool = False) -> Any:
        """Remember that the test asks for what cannot be done across processes, and stop it.

        Raises:
            TypeError: a program's answers may have led the test to it, so that it is the program's failure.
        """
        # A function of the test's that the candidate calls is called because the candidate does so.
        if self._calling_back or ((self.asked or self.lacks_a_name) and not self.is_the_tests(has_values)):
            raise TypeError(f"{why}; such a test needs trust=shared")
        self.unfit = self.unfit or f"{why}; such a test needs trust=shared"
        raise Stopped(self.unfit)

    def _frame(self, request: dict[str, Any] | None = None) -> dict[str, Any]:
        if self.lost:
            raise Stopped(self.lost)
        try:
            if request is not None:
                frames.send(self.fd, request)
            core.here.wait()
            answer = frames.receive(self.fd)
            core.here.work()
            return answer
        except EOFError:
            self.lose("the candidate's process ended")
        except (frames.FrameError, OSError, MemoryError) as error:
            self.lose(f"protocol: {error}")
        raise AssertionError

    def _apply(self, changed: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        if type(changed) is not list:
            self.lose("protocol: changes that are no list")
        for item in changed:
            if type(item) is not list or len(item) != 2:
                self.lose("protocol: a change that is no pair")
            place, data = item
            if type(place) is int and 0 <= place < len(args):
                merge(args[place], self.read(data))
            elif type(place) is str and place in kwargs:
                merge(kwargs[place], self.read(data))
            else:
                self.lose("protocol: a change of no argument")

    def _agree(self, frame: dict[str, Any]) -> None:
        """Change what the candidate has changed of what both hold."""
        self.reads_unasked = True
        try:
            self.aliases.apply(frame.get("aliases", []), self.read)
        except ValueError as error:
            self.lose(f"protocol: {error}")
        self.reads_unasked = False

    def _keep(self, kept: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Remember the arguments that the candidate has kept."""
        if type(kept) is not list:
            self.lose("protocol: kept arguments that are no list")
        for item in kept:
            if type(item) is not list or len(item) != 2 or type(item[1]) is not int:
                self.lose("protocol: a kept argument that is no pair")
            place = item[0]
            if type(place) is int and 0 <= place < len(args):
                self.aliases.hold(args[place], item[1])
            elif type(place) is str and place in kwargs:
                self.aliases.hold(kwargs[place], item[1])

    def given(self, reply: dict[str, Any]) -> Any:
        """The value in an answer: the very container, where it is one that both hold."""
        number = reply.get("alias")
        if type(number) is not int:
            return self.read(reply["value"])
        known = self.aliases.get(number)
        if known is None:
            known = self.read(reply["value"])
            self.aliases.hold(known, number)
        return known

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
            self.lose("protocol: an error of no known form")
        error["args"] = [self.read(data) for data in error["args"]] if type(error.get("args")) is list else []
        attributes = error.get("attributes")
        error["attributes"] = {name: self.read(data) for name, data in attributes.items()} if type(attributes) is dict else {}
        return dict(error)


def _message(error: BaseException) -> str:
    try:
        return str(error)[:10_000]
    except Exception:
        return ""


def is_of_the_candidate(value: Any) -> bool:
    """Whether what cannot cross was made on this side for the candidate: a coroutine, an exception or its class."""
    code = getattr(value, "cr_code", None)
    module = getattr(value, "__module__", None) if code is None else code.co_filename
    return module == PROGRAM or "verigym" in str(module)
