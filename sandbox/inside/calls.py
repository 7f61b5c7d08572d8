"""Answers calls to a program's functions, in the program's own process. Whatever the program does can only spoil its answers.

The channel carries inputs in and answers out, never a verdict: those who compare sit in another process.
"""

from __future__ import annotations

import _thread
import os
import stat
import sys

from verigym.sandbox.inside import aliases, core, frames, names, program
from verigym.sandbox.inside.aliases import Aliases
from verigym.sandbox.inside.decoding import decode
from verigym.sandbox.inside.encoding import PROGRAM as MODULE
from verigym.sandbox.inside.encoding import CannotCross, encode
from verigym.sandbox.inside.failures import describe, raised
from verigym.sandbox.inside.objects import Objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

OUT_BYTES = 1 << 16
_MUTABLE = ("d", "s", "ba", "dq", "np")
_CHANGING = ("call", "method", "inherited", "set", "setitem", "delitem", "delattr", "operate", "exit", "aexit", "next")
_KEEPING = ("call", "method", "inherited", "set", "setitem")
"""What may change or keep its arguments."""
_MODULE = type(sys)
_MOST_DESCRIBED = 8


async def _nothing() -> None: ...


_made = _nothing()
_COROUTINE = type(_made)
_made.close()
_FUNCTION = type(_nothing)
_exit, _fstat, _pread = os._exit, os.fstat, os.pread


def serve(path: str, fd: int, prelude: bool = False) -> NoReturn:
    """Load the program at `path`, say how that went, and answer until the channel ends.

    Args:
        path: of the program.
        fd: the channel.
        prelude: whether it finds the names that judges provide.
    """
    program.enter(path, ())
    # A module, not `__main__`, as others load functions too: a block for the command line would wait for input.
    main = program.fresh_main(path, MODULE)
    provided: dict[str, Any] = {}
    own: set[str] = set()
    try:
        code = program.load(path)
    except BaseException as error:
        error.__traceback__ = None
        failed: BaseException | None = error
    else:
        provided = names.provide(code, main.__dict__) if prelude else provided
        own = names.stored(code) & provided.keys() if provided else own
        failed = program.execute(code, main.__dict__)
    if failed is not None:
        report = describe(failed)
        exit_code = program.report(failed)
        frames.send(fd, {"op": "failed", "error": {"type": report["type"], "message": report["message"]}})
        program.flush()
        _exit(exit_code or 1)
    server = Server(main.__dict__, {name: value for name, value in provided.items() if name not in own}, fd)
    program.flush()
    server.printed()
    frames.send(fd, {"op": "loaded", "names": server.names(), "functions": server.functions()})
    while True:
        core.here.wait()
        try:
            request = frames.receive(fd)
        except EOFError:
            break
        core.here.work()
        server.reply(fd, request)
    program.flush()
    _exit(0)


class Server:
    """Looks up, calls and describes for one program."""

    def __init__(self, namespace: dict[str, Any], provided: dict[str, Any], fd: int = -1) -> None:
        self.fd = fd
        self.asked = 0
        """How many requests are being answered: a function of the test's can be called while there is one."""
        self.namespace = namespace
        self.provided = provided
        self.objects = Objects(MODULE, self.call_back)
        self.aliases = Aliases(self.objects.encode)
        self.loop: Any = None
        self.calling_back = _thread.RLock()
        """Held by the thread whose call of a function of the test's is being answered: the channel is for one at a time."""
        self.out_seen = 0

    def names(self) -> list[str]:
        """The program's own definitions."""
        found = [name for name in self.namespace if type(name) is str and self.owns(name)]
        solution = self.namespace.get("Solution")
        if isinstance(solution, type):
            inherited = [name for base in solution.__mro__[:-1] for name in vars(base)]
            found += [name for name in inherited if type(name) is str and name[:1] != "_" and name not in found]
        return found[:10_000]

    def functions(self) -> dict[str, dict[str, Any]]:
        """What its first functions are, which otherwise would be asked for one by one."""
        found: dict[str, dict[str, Any]] = {}
        for name, value in self.namespace.items():
            if type(value) is _FUNCTION and type(name) is str and self.owns(name):
                found[name] = self.objects.describe(value, True)
                if len(found) == _MOST_DESCRIBED:
                    break
        return found

    def owns(self, name: str) -> bool:
        """Whether a global is the program's own."""
        value = self.namespace[name]
        if name[:2] == "__" or type(value) is _MODULE:
            return False
        return not (name in self.provided and self.provided[name] is value)

    def is_from_elsewhere(self, name: str) -> bool:
        """Whether a global is what the program has imported, or was provided with, to do its work."""
        value = self.namespace[name]
        return not self.owns(name) or getattr(value, "__module__", MODULE) != MODULE

    def find(self, name: str) -> Any:
        """The program's function, class or value of that name."""
        solution = self.namespace.get("Solution")
        if isinstance(solution, type) and hasattr(solution, name):
            if name not in self.namespace or self.is_from_elsewhere(name):
                return getattr(solution(), name)
        if name in self.namespace:
            return self.namespace[name]
        raise NameError(f"name {name!r} is not defined")

    def reply(self, fd: int, request: dict[str, Any]) -> None:
        """Answer one request."""
        answer: dict[str, Any] = {"id": request["id"]}
        given: list[tuple[int | str, Any, Any]] = []
        hold = self.objects.encode if request.get("handles") else None
        self.asked += 1
        try:
            self.agree(request)
            value = self.perform(request, given)
            if type(value) is _COROUTINE:
                value = self.run(value)
                answer["async"] = True
            answer |= self.answer(value, request, hold)
            value = None
        except CannotCross as left:
            answer["cannot"] = left.what
        except BaseException as error:
            answer["error"] = describe(error, hold)
            error.__traceback__ = None
        self.asked -= 1
        if hold is not None:
            answer["states"] = self.states(request)
        try:
            answer["changed"] = [
                [place, now] for place, before, after in given if (now := encode(after, hold)) != before and _same(now, before)
            ]
        except BaseException:
            answer["changed"] = []
        if hold is not None:
            kept = [[place, self.aliases.hold(argument)] for place, argument in aliases.kept(given)]
            answer["kept"] = [pair for pair in kept if pair[1] is not None]
            answer["aliases"] = self.aliases.changes()
        answer["out"] = self.printed()
        try:
            frames.send(fd, answer)
        except frames.FrameError as error:
            frames.send(fd, {"id": request["id"], "cannot": str(error), "changed": [], "out": ""})

    def answer(self, value: Any, request: dict[str, Any], hold: Any) -> dict[str, Any]:
        """What says of a value what was asked for.

        Raises:
            CannotCross: nothing does.
        """
        op = request.get("op")
        is_error_class = op == "attr" and isinstance(value, type) and issubclass(value, BaseException)
        if is_error_class or ("get" in request and callable(value)):
            return {"cannot": "function", "meta": self.objects.describe(value, hold is not None)}
        if op == "attr" and _is_method(value):
            return {"cannot": "method"}
        if op == "state":
            return {"value": self.objects.state(self.objects.held[request["h"]])}
        if request.get("make"):
            return {"value": self.objects.instance(value)}
        answer = {"value": encode(value, hold)}
        if hold is not None and type(value) in aliases.KINDS:
            # Two hold a list that a function has just made: `reply` and this one.
            is_kept = op == "attr" or "get" in request or aliases.kept([(0, None, value)], aliases.ONCE + 2)
            alias = self.aliases.hold(value) if is_kept else None
            answer |= {} if alias is None else {"alias": alias}
        return answer

    def call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Have a function of the test's called; meanwhile the test may ask in turn."""
        with self.calling_back:
            return self._call_back(number, args, kwargs)

    def _call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.asked:
            raise RuntimeError("the test waits for nothing that could call its function")
        given = {name: encode(value, self.objects.encode) for name, value in kwargs.items()}
        asked = {"callback": number, "args": [encode(value, self.objects.encode) for value in args], "kwargs": given}
        frames.send(self.fd, asked | {"aliases": self.aliases.changes()})
        while True:
            core.here.wait()
            answer = frames.receive(self.fd)
            core.here.work()
            if "id" not in answer:
                self.agree(answer)
            if "raised" in answer:
                raise raised(answer)
            if "returned" in answer:
                return decode(answer["returned"], self.objects.get)
            self.reply(self.fd, answer)

    def agree(self, frame: dict[str, Any]) -> None:
        """Change what the test has changed of what both hold."""
        self.aliases.apply(frame.get("aliases", []), lambda data: decode(data, self.objects.get))

    def states(self, request: dict[str, Any]) -> list[list[Any]]:
        """The states of the object that was asked for something, and of those that were given to it."""
        given = [data["h"] for data in request.get("args", ()) if type(data) is dict and type(data.get("h")) is int]
        if "h" in request and request.get("op") in _CHANGING:
            given.append(request["h"])
        return [[number, self.objects.state(self.objects.held[number])] for number in given]

    def perform(self, request: dict[str, Any], given: list[tuple[int | str, Any, Any]]) -> Any:
        """Do what is asked for; collects the arguments that may be changed by it."""
        if "get" in request:
            return self.find(request["get"])
        args = [decode(data, self.objects.get) for data in request.get("args", ())]
        kwargs = {name: decode(data, self.objects.get) for name, data in request.get("kwargs", {}).items()}
        op = request.get("op")
        if op == "state":
            return None
        if op is not None and op not in _KEEPING:
            return self.objects.perform(op, request["h"], args, kwargs)
        places: list[tuple[int | str, Any]] = [*enumerate(request.get("args", ())), *request.get("kwargs", {}).items()]
        for place, data in places:
            if type(data) is list or (type(data) is dict and next(iter(data)) in _MUTABLE):
                given.append((place, data, args[place] if isinstance(place, int) else kwargs[place]))
        if op is not None:
            return self.objects.perform(op, request["h"], args, kwargs)
        return self.find(request["call"])(*args, **kwargs)

    def run(self, coroutine: Any) -> Any:
        """What a coroutine gives: all of a program's run in one loop, as where one test awaits them."""
        if self.loop is None:
            import asyncio

            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    def printed(self) -> str:
        """What was printed since the last time, if standard output is a file."""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BaseException:
            return ""
        try:
            found = _fstat(1)
            if not stat.S_ISREG(found.st_mode):
                return ""
            start, self.out_seen = self.out_seen, found.st_size
            return _pread(1, min(OUT_BYTES, max(found.st_size - start, 0)), start).decode("utf-8", "replace")
        except OSError:
            return ""


def _is_method(value: Any) -> bool:
    return callable(value) and not isinstance(value, type) and getattr(value, "__self__", None) is not None


def _same(now: Any, before: Any) -> bool:
    return type(now) is type(before) and (type(now) is list or now.keys() == before.keys())
