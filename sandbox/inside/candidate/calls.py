"""Runs a Python program in its own process: as a script, or as a server of calls to its functions.

The channel carries requests and answers, never a verdict: another process compares the answers.
"""

from __future__ import annotations

import _thread
import os
import stat
import sys

from verigym.sandbox.inside import program
from verigym.sandbox.inside.candidate import prelude_names
from verigym.sandbox.inside.candidate.exceptions import describe_exception, rebuild_exception
from verigym.sandbox.inside.candidate.objects import ObjectTable
from verigym.sandbox.inside.walls import cpu_affinity
from verigym.sandbox.inside.wire import frames
from verigym.sandbox.inside.wire.decoding import decode
from verigym.sandbox.inside.wire.encoding import PROGRAM as MODULE
from verigym.sandbox.inside.wire.encoding import CannotCross, encode
from verigym.sandbox.inside.wire.shared_containers import SharedContainers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from typing import Any, NoReturn

OUT_BYTES = 1 << 16
_CHANGING = ("call", "method", "inherited", "set", "setitem", "delitem", "delattr", "operate", "exit", "aexit", "next")
_CONTAINERS = (list, dict, set, bytearray)
_MODULE = type(sys)
_MOST_DESCRIBED = 8


async def _nothing() -> None: ...


async def _nothings() -> AsyncGenerator[None, None]:
    yield


_made = _nothings()
_unawaited = (_nothing(), _made.asend(None), _made.aclose())
_AWAITED = tuple(map(type, _unawaited))
"""Types of results that do nothing until they are awaited."""
for _one in _unawaited:  # what is neither awaited nor closed is warned of, on the program's standard error
    _one.close()
_FUNCTION = type(_nothing)
_exit, _fstat, _pread = os._exit, os.fstat, os.pread


def run_program(path: str, args: Sequence[str] = (), prelude: bool = False) -> NoReturn:
    """Run the file at `path` like `python3 path *args`, in this freshly forked process, and end the process.

    Args:
        path: path of the program.
        args: arguments of the program.
        prelude: whether the program may use the names in `prelude_names` without importing them.
    """
    code = 1
    try:
        code = _run(path, args, prelude)
    finally:
        program.finish(code)


def _run(path: str, args: Sequence[str], prelude: bool) -> int:
    main = program.enter(path, args)
    try:
        code = program.load(path)
    except BaseException as error:
        error.__traceback__ = None
        return program.report(error)
    if prelude:
        prelude_names.provide(code, main.__dict__)
    failed = program.execute(code, main.__dict__)
    return 0 if failed is None else program.report(failed)


def serve_calls(path: str, fd: int = 3, prelude: bool = False) -> NoReturn:
    """Load the file at `path` as a module and answer requests on the channel until it closes; then end the process.

    Args:
        path: path of the program.
        fd: descriptor of the channel.
        prelude: whether the program may use the names in `prelude_names` without importing them.
    """
    try:
        _serve(path, fd, prelude)
    finally:
        program.flush()
        _exit(1)


def _serve(path: str, fd: int, prelude: bool) -> NoReturn:
    """Load the program at `path`, report the result, and answer until the channel ends.

    Args:
        path: path of the program.
        fd: the channel.
        prelude: whether it finds the names that judges provide.
    """
    program.enter(path, ())
    # A module, not `__main__`, as other graders load functions: a main block would wait for input.
    main = program.fresh_main(path, MODULE)
    provided: dict[str, Any] = {}
    own: set[str] = set()
    try:
        code = program.load(path)
    except BaseException as error:
        error.__traceback__ = None
        failed: BaseException | None = error
    else:
        provided = prelude_names.provide(code, main.__dict__) if prelude else provided
        own = prelude_names.stored(code) & provided.keys() if provided else own
        failed = program.execute(code, main.__dict__)
    if failed is not None:
        report = describe_exception(failed)
        exit_code = program.report(failed)
        frames.send(fd, {"op": "failed", "error": {"type": report["type"], "message": report["message"]}})
        program.flush()
        _exit(exit_code or 1)
    server = Server(main.__dict__, {name: value for name, value in provided.items() if name not in own}, fd)
    program.flush()
    server.printed()
    frames.send(fd, {"op": "loaded", "names": server.names(), "functions": server.functions()})
    while True:
        cpu_affinity.here.pin()
        try:
            request = frames.receive(fd)
        except EOFError:
            break
        cpu_affinity.here.unpin()
        server.reply(fd, request)
    program.flush()
    _exit(0)


class Server:
    """Answers the requests about one loaded program: looks up names, calls functions, describes objects."""

    def __init__(self, namespace: dict[str, Any], provided: dict[str, Any], fd: int = -1) -> None:
        self.fd = fd
        self.open_requests = 0
        """Number of requests being answered. Functions of the test can be called only while it is above 0."""
        self.arguments: list[tuple[Any, Any, Any]] = []
        """The lists, dicts and other containers among the arguments of a session's last call. Each item is a triple: the
        position or name of the argument, its encoding as received, and the decoded object."""
        self.namespace = namespace
        self.provided = provided
        self.objects = ObjectTable(MODULE, self.call_back)
        self.aliases = SharedContainers(self.objects.encode, self.objects.get, -1)
        self.loop: Any = None
        self.calling_back = _thread.RLock()
        """Lock held by the thread that calls a function of the test, because the channel serves one call at a time."""
        self.out_seen = 0

    def names(self) -> list[str]:
        """Return the names that the program itself defines."""
        names = [name for name in self.namespace if type(name) is str and self.owns(name)]
        solution = self.namespace.get("Solution")
        if isinstance(solution, type):
            inherited = [name for base in solution.__mro__[:-1] for name in vars(base)]
            names += [name for name in inherited if type(name) is str and name[:1] != "_" and name not in names]
        return names[:10_000]

    def functions(self) -> dict[str, dict[str, Any]]:
        """Return name -> description for the first few functions of the program, so that the test need not request them."""
        described: dict[str, dict[str, Any]] = {}
        for name, value in self.namespace.items():
            if type(value) is _FUNCTION and type(name) is str and self.owns(name):
                described[name] = self.objects.describe(value, True)
                if len(described) == _MOST_DESCRIBED:
                    break
        return described

    def owns(self, name: str) -> bool:
        """Return whether the program itself defines the global `name`."""
        value = self.namespace[name]
        if name[:2] == "__" or type(value) is _MODULE:
            return False
        return not (name in self.provided and self.provided[name] is value)

    def is_from_elsewhere(self, name: str) -> bool:
        """Return whether the global `name` is imported or comes from the prelude (names available without an import)."""
        value = self.namespace[name]
        return not self.owns(name) or getattr(value, "__module__", MODULE) != MODULE

    def find(self, name: str) -> Any:
        """Return the program's function, class or value called `name`, or the method `name` of a new `Solution` object.

        Raises:
            NameError: the program defines no such name.
        """
        solution = self.namespace.get("Solution")
        if isinstance(solution, type) and hasattr(solution, name):
            if name not in self.namespace or self.is_from_elsewhere(name):
                return getattr(solution(), name)
        if name in self.namespace:
            return self.namespace[name]
        raise NameError(f"name {name!r} is not defined")

    def reply(self, fd: int, request: dict[str, Any]) -> None:
        """Perform `request` and send the answer over the descriptor `fd`."""
        answer: dict[str, Any] = {"id": request["id"]}
        hold = self.objects.encode if request.get("handles") else None
        self.open_requests += 1
        results: list[Any] = []
        """The result, in a list so that no local variable holds a reference to it."""
        containers: list[Any] = []
        try:
            results.append(self.perform(request))
            if type(results[0]) in _AWAITED:  # sessions have no test code that could await it
                answer["async"] = True
                results[0] = self.run(results[0]) if hold is None else self.objects.number(results[0])
            fields, containers = self.answer(results, request, hold)
            answer |= fields
        except CannotCross as left:
            answer["cannot"] = left.what
        except BaseException as error:
            answer["error"] = describe_exception(error, hold)
            if hold is not None and answer["error"]["own"] and type(error).__module__ == MODULE:
                answer["error"]["h"] = self.objects.number(error)
            error.__traceback__ = None
        self.open_requests -= 1
        if hold is not None:
            answer["states"] = self.states(request)
            answer["both"] = self.aliases.send(containers, results, is_over=True)
        else:
            answer["changed"] = self.changed_arguments()
        answer["out"] = self.printed()
        try:
            frames.send(fd, answer)
        except frames.FrameError as error:
            frames.send(fd, {"id": request["id"], "cannot": str(error), "changed": [], "out": ""})

    def changed_arguments(self) -> list[list[Any]]:
        """Return the arguments that a session's last call has mutated, as pairs: position or name, and new value (encoded)."""
        try:
            return [[place, now] for place, before, value in self.arguments if (now := encode(value)) != before]
        except BaseException:  # the program has put something into one of them that cannot cross
            return []

    def given(self, request: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the decoded positional and keyword arguments of `request`.

        Also apply the test's changes to the containers (lists, dicts and so on) that test and program share.
        """
        count, names = len(request.get("args", ())), list(request.get("kwargs", {}))
        data = [*request.get("args", ()), *request.get("kwargs", {}).values()]
        if not request.get("handles"):
            values = [decode(item, self.objects.get) for item in data]
            places = [*range(count), *names]
            self.arguments = [given for given in zip(places, data, values, strict=True) if type(given[2]) in _CONTAINERS]
        else:
            values, containers = self.aliases.read(data)
            self.aliases.receive(request.get("both", {}), containers)
        return values[:count], dict(zip(names, values[count:], strict=True))

    def answer(self, results: list[Any], request: dict[str, Any], hold: Any) -> tuple[dict[str, Any], list[Any]]:
        """Encode the single item of `results` in the way that `request` asks for.

        Args:
            results: a list with the result as its only item.
            request: the request that produced the result.
            hold: encodes an object as a handle (a reference by number); None in a session, where only plain data is sent.

        Returns:
            Two values: the fields of the answer; and the list of all containers (lists, dicts, ...) that the result holds.

        Raises:
            CannotCross: the result cannot be encoded.
        """
        op = request.get("op")
        is_class = op == "attr" and isinstance(results[0], type)
        if (is_class and (issubclass(results[0], BaseException) or results[0].__module__ == MODULE)) or (
            "get" in request and callable(results[0])
        ):
            return {"cannot": "function", "meta": self.objects.describe(results[0], hold is not None)}, []
        if op == "attr" and _is_method(results[0]):
            return {"cannot": "method"}, []
        if op == "state":
            return {"value": self.objects.state(self.objects.held[request["h"]])}, []
        if request.get("make"):
            return {"value": self.objects.instance(results[0])}, []
        if hold is None:
            return {"value": encode(results[0])}, []
        (value,), containers = self.aliases.write(results)
        return {"value": value}, containers

    def call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], *, awaited: bool = False) -> Any:
        """Call function `number` of the test with `args` and `kwargs`, and return its result.

        The test may send requests meanwhile. `awaited` tells the test to await the result of the function.
        """
        with self.calling_back:
            return self._call_back(number, args, kwargs, awaited)

    def _call_back(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], awaited: bool) -> Any:
        if not self.open_requests:
            raise RuntimeError("the test waits for nothing that could call its function")
        data, containers = self.aliases.write([*args, *kwargs.values()])
        given = dict(zip(kwargs, data[len(args) :], strict=True))
        request = {"callback": number, "args": data[: len(args)], "kwargs": given, "both": self.aliases.send(containers)}
        request["awaited"] = awaited
        del containers
        frames.send(self.fd, request)
        while True:
            cpu_affinity.here.pin()
            answer = frames.receive(self.fd)
            cpu_affinity.here.unpin()
            if "id" in answer:
                self.reply(self.fd, answer)
                continue
            values, containers = self.aliases.read([answer["returned"]] if "returned" in answer else [])
            self.aliases.receive(answer.get("both", {}), containers)
            if "raised" in answer:
                raise rebuild_exception(answer)
            return values[0]

    def states(self, request: dict[str, Any]) -> list[list[Any]]:
        """Return [number, state] of each object among the arguments of `request`.

        If the operation may change the object that it is performed on, that object is included.
        """
        given = [data["h"] for data in request.get("args", ()) if type(data) is dict and type(data.get("h")) is int]
        if "h" in request and request.get("op") in _CHANGING:
            given.append(request["h"])
        return [[number, self.objects.state(self.objects.held[number])] for number in given]

    def perform(self, request: dict[str, Any]) -> Any:
        """Perform the operation that `request` describes and return its result."""
        args, kwargs = self.given(request)
        if "get" in request:
            return self.find(request["get"])
        op = request.get("op")
        if op == "state":
            return None
        if op == "finish":
            return self.run(self.objects.held[request["h"]])
        if op is not None:
            return self.objects.perform(op, request["h"], args, kwargs)
        return self.find(request["call"])(*args, **kwargs)

    def run(self, coroutine: Any) -> Any:
        """Run `coroutine` and return its result. All coroutines of a program share one event loop, as in an async test."""
        if self.loop is None:
            import asyncio

            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine if type(coroutine) is _AWAITED[0] else _awaited(coroutine))

    def printed(self) -> str:
        """Return what the program has printed since the last call of `printed`; empty if its output is not a regular file."""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BaseException:
            return ""
        try:
            info = _fstat(1)
            if not stat.S_ISREG(info.st_mode):
                return ""
            start, self.out_seen = self.out_seen, info.st_size
            return _pread(1, min(OUT_BYTES, max(info.st_size - start, 0)), start).decode("utf-8", "replace")
        except OSError:
            return ""


async def _awaited(value: Any) -> Any:
    return await value


def _is_method(value: Any) -> bool:
    return callable(value) and not isinstance(value, type) and getattr(value, "__self__", None) is not None
