"""Converts the candidate's answers to local objects (proxies), and the test's values to a form that can be sent."""

from __future__ import annotations

import builtins
import functools
import itertools
import types

from verigym.sandbox.inside.candidate.exceptions import MOST_CAUSES, plain_name
from verigym.sandbox.inside.candidate.exported import ExportedObject, is_exported, special
from verigym.sandbox.inside.testside import snapshots
from verigym.sandbox.inside.testside.derived import DerivedMeta
from verigym.sandbox.inside.testside.handles import Handle, make
from verigym.sandbox.inside.testside.iterators import BatchedIterator, RemoteGenerator
from verigym.sandbox.inside.testside.peer import CandidateError, Exhausted, Peer, is_of_the_candidate
from verigym.sandbox.inside.testside.remote_info import RemoteInfo, info_of
from verigym.sandbox.inside.testside.remotes import RemoteClass, RemoteFunction, RemoteModule
from verigym.sandbox.inside.testside.usage import Usage
from verigym.sandbox.inside.wire import special_methods
from verigym.sandbox.inside.wire.encoding import iterator
from verigym.sandbox.inside.wire.inert_values import Builtin, EmptyArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from verigym.sandbox.inside.testside.remote_info import Given
    from verigym.sandbox.inside.wire.decoding import Decoder
    from verigym.sandbox.inside.wire.encoding import Encoder

_ERRORS = {name: value for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)}


_USUAL = {
    name: module
    for module, names in {
        "json": "JSONDecodeError",
        "statistics": "StatisticsError",
        "dataclasses": "FrozenInstanceError",
        "decimal": "DecimalException InvalidOperation DivisionByZero Inexact Rounded Overflow Underflow",
        "queue": "Empty Full",
        "subprocess": "SubprocessError CalledProcessError TimeoutExpired",
        "zipfile": "BadZipFile",
        "configparser": "NoSectionError NoOptionError ParsingError",
        "asyncio": "InvalidStateError QueueEmpty QueueFull",
    }.items()
    for name in names.split()
}
"""Exceptions of the standard library that tests commonly expect: name -> module."""


def _usual_error(name: str) -> type[Exception] | None:
    if name not in _USUAL:
        return None
    error = getattr(__import__(_USUAL[name]), name, None)
    return error if isinstance(error, type) and issubclass(error, Exception) else None


_COROUTINE_FLAG = 0x80
_CALLED_BACK = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    functools.partial,
)
_ITERATOR_ITEMS = 1000
"""Number of items of an iterator of the test that are sent at once; the program requests the others."""


def _texts(value: Any) -> bool:
    return type(value) is list and all(type(text) is str for text in value)


def _alike(one: Given | None, other: Given) -> bool:
    """Return whether two instances were made by the same class with the same arguments."""
    if one is None or one[0] is not other[0] or one[1] is None or other[1] is None:
        return False
    if len(one[1]) != len(other[1]) or one[2].keys() != other[2].keys():
        return False
    pairs = [*zip(one[1], other[1], strict=True), *((one[2][name], other[2][name]) for name in one[2])]
    return all(
        first is second or (type(first) is type(second) and type(first) in _SIMPLE and first == second)
        for first, second in pairs
    )


_SIMPLE = (int, float, str, bytes)


class Proxies:
    """The test's proxies for the objects and names of one candidate."""

    def __init__(self, peer: Peer, job: dict[str, Any]) -> None:
        self.peer = peer
        self._job = job
        peer.wrap, peer.unwrap, peer.note = self.wrap, self.unwrap, self.note
        self.handles: dict[int, Handle] = {}
        """Objects that functions returned, by number. `made_by_test` has those that the test made, `members` enum members."""
        self.made_by_test: dict[int, Handle] = {}
        self.members: dict[int, Any] = {}
        self.ambiguous: set[int] = set()
        self.derived: dict[int, type] = {}
        """Classes of the test that derive from the candidate's, by number."""
        self.known: dict[str, Any] = {}
        self.errors: dict[str, type[BaseException]] = {}
        self.classes: dict[int, RemoteClass] = {}
        self.numbers: dict[int, int] = {}
        self.of_the_test = "__main__"
        """Name of the module that defines the test's classes."""
        self._exported_numbers: dict[int, int] = {}
        """`id()` of an exported object -> its number. The id stays valid, since an `ExportedObject` holds the object."""

    @functools.cached_property
    def usage(self) -> Usage:
        """How the source texts of setup and test use names."""
        return Usage(self._job[part] for part in ("setup", "code") if self._job.get(part))

    def names(self) -> frozenset[str]:
        """Return the names that the candidate defines."""
        return self.peer.names()

    def module(self, name: str, public: Callable[[], list[str]]) -> RemoteModule:
        """Return the module `name` that the test's `import solution` imports. `public` returns the module's public names."""
        return RemoteModule(name, self, public)

    def wrap(self, body: Any, plain: Any, by: Decoder, depth: int) -> Any:
        """Return the local object for a handle that the candidate sent.

        For an object that the test had sent to the candidate, that is the test's original object; otherwise it is a proxy.

        Args:
            body: the handle: number, class names, special methods and state of the object.
            plain: the object's plain value, if its class derives from a built-in type; else None. The function `iter` marks an
                iterator, and the function `next` a generator.
            by: the decoder in use.
            depth: nesting depth of the handle.
        """
        if type(body) is dict:
            number = body.get("exported")
            if type(number) is not int or not 0 <= number < len(self.peer.callbacks):
                raise ValueError("no object of the test's")
            exported = self.peer.callbacks[number]
            return exported.value if type(exported) is ExportedObject else exported
        if plain is iter or plain is next:
            number, _ = body
            return (RemoteGenerator if plain is next else BatchedIterator)(
                RemoteInfo(self, number, ["iterator"], frozenset(), None)
            )
        number, names, has, state = body
        if (
            type(number) is not int
            or not (_texts(names) and names)
            or not (_texts(has) and special_methods.SPECIAL.issuperset(has))
        ):
            raise ValueError("not the form of a handle")
        if number in self.members and number not in self.ambiguous:
            return self.members[number]
        # Objects that the test passed come back as themselves; so do those that it made, if it compares by identity.
        if number in self.made_by_test and (self.made_by_test[number]._remote_info().passed or self.usage.compares_identity):
            if not self.peer.ignores_states:
                self.made_by_test[number]._remote_info().state = state
            return self.made_by_test[number]
        info = RemoteInfo(self, number, names, frozenset(has), state)
        if number in self.ambiguous:
            return make(info, plain)
        if plain is not None and number not in self.made_by_test:
            # An enumeration's member stays one object; every other value is kept as it arrived.
            return self.handles.setdefault(number, make(info, plain)) if "Enum" in map(plain_name, names) else make(info, plain)
        known = self.handles.setdefault(number, make(info, None))
        # Not while the candidate makes the object to compare with: it could copy the state of that.
        if not self.peer.ignores_states:
            known._remote_info().state = state
        return known

    def derived_class(self, name: str) -> type:
        """Return the class of the test whose counterpart in the program is called `name`."""
        number = name.rpartition(".")[2]
        kind = self.derived.get(int(number)) if number.isdigit() else None
        return self.peer.mark_lost("protocol: no class of the test's") if kind is None else kind

    def made(self, info: RemoteInfo, given: Given) -> Handle:
        """Return the proxy of an object that the test constructed.

        If a function of the candidate later returns the same object, that result gets another proxy.

        Args:
            info: the test's record of the object: number, class names, special methods and state.
            given: the class and the arguments with which the test constructed it.
        """
        known = self.made_by_test.get(info.number)
        if known is None or not (self.usage.compares_identity or _alike(known._remote_info().given, given)):
            known = make(RemoteInfo(self, info.number, info.names, info.special, info.state), None)
            known._remote_info().given = given
            self.made_by_test[info.number] = known
        return known

    def is_of_the_test(self, value: Any) -> bool:
        """Return whether `value` belongs to the test, that is, it is not a proxy of an object or function of the candidate."""
        return info_of(value) is None and id(value) not in self.numbers

    def unwrap(self, value: Any, to: Encoder, plain: Any, depth: int) -> Any:
        """Encode `value`, which is not plain data: a candidate's object as its handle, a test's object as its callback number.

        Args:
            value: the object to encode.
            to: the encoder in use.
            plain: encodes the built-in base type of the object's class; None if there is none.
            depth: nesting depth of the object.

        Returns:
            The encoding; None if the object cannot be sent.
        """
        info = value if type(value) is RemoteInfo else info_of(value)
        if info is not None:
            info.passed = True
            return {"h": info.number}
        if isinstance(value, BatchedIterator) and not value._ready:
            return {"h": value._info.number}
        if type(value) is DerivedMeta:
            return {"h": value.number()}
        if plain is iterator:
            begun = [to.put(item, depth) for item in itertools.islice(value, _ITERATOR_ITEMS)]
            if len(begun) < _ITERATOR_ITEMS:
                return {"it": begun}
            self.peer.callbacks.append(value.__next__)
            return {"its": [begun, len(self.peer.callbacks) - 1]}
        if type(value) is Builtin:
            return {"bi": value.__name__}
        if type(value) is EmptyArray:
            return to.put(value._array, depth)
        if id(value) in self.numbers:
            return {"h": self.numbers[id(value)]}
        if type(value) in _CALLED_BACK and not is_of_the_candidate(value):
            return {"h": self.callback(value)}
        return {"h": self.export(value)} if plain is None and is_exported(value, self.of_the_test) else None

    def export(self, value: Any) -> dict[str, Any]:
        """Export `value`, an object of the test. Returns the description from which the candidate makes a stub."""
        known = self.peer.callbacks
        number = self._exported_numbers.get(id(value))
        if number is None:
            number = self._exported_numbers[id(value)] = len(known)
            known.append(ExportedObject(value, lambda given: not self.is_of_the_test(given)))
        kind = type(value)
        return {"callback": number, "name": kind.__name__, "doc": kind.__doc__, "special": special(kind)}

    def callback(self, function: Any) -> dict[str, Any]:
        """Export `function`, a function of the test. Returns the description from which the candidate makes a stub."""
        known = self.peer.callbacks
        number = next((index for index, other in enumerate(known) if other == function), len(known))
        if number == len(known):
            known.append(function)
        flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
        name, doc = getattr(function, "__name__", "function"), getattr(function, "__doc__", None)
        return {"callback": number, "name": name, "doc": doc, "async": bool(flags & _COROUTINE_FLAG)}

    def value(
        self, body: dict[str, Any], args: Any = (), kwargs: dict[str, Any] | None = None, *, is_tests_doing: bool = True
    ) -> Any:
        """Send the request `body` and return the value in the answer, or raise the candidate's exception.

        If the result is async, the value is a coroutine.

        Args:
            body: the request without its arguments.
            args: positional arguments of the request.
            kwargs: keyword arguments of the request.
            is_tests_doing: whether the test makes this request for every candidate.
        """
        return self.answer(self.peer.ask(body, args, kwargs, is_tests_doing=is_tests_doing))

    def state(self, info: RemoteInfo) -> Any:
        """Request the current attributes of the object that `info` describes, and return them encoded."""
        return self.peer.ask({"op": "state", "h": info.number}).get("value")

    def equal(self, one: RemoteInfo, other: RemoteInfo) -> bool:
        """Return whether the objects that `one` and `other` describe are equal.

        The candidate compares them, but first their recorded states must agree; if they differ, the objects are unequal. For an
        object that the test has constructed and not used since, the constructor arguments take the place of the recorded state.
        If both are such objects, the candidate compares them at once.
        """
        if one.number in self.members or other.number in self.members:
            return one is other
        if one.number == other.number and one is not other:
            return not (one.is_fresh or other.is_fresh)  # a merely constructed object is known by its arguments only
        if "__eq__" not in one.special and "__eq__" not in other.special:
            return one is other
        if one is not other and not (one.is_fresh and other.is_fresh):
            for made, other_info in ((one, other), (other, one)):
                if made.is_fresh and not snapshots.matches_arguments(made, other_info):
                    return False
            if not (one.is_fresh or other.is_fresh or snapshots.same(one.state, other.state)):
                return False
        return bool(one.ask("order", "eq", other))

    def note(self, states: Any, of: set[int]) -> None:
        """Record the states that the candidate reports for objects, before the test reveals the values that it expects.

        Args:
            states: pairs of number and encoded state, as received.
            of: numbers of the objects whose states may be recorded.
        """
        if type(states) is not list:
            return
        for pair in states:
            if type(pair) is list and len(pair) == 2 and type(pair[0]) is int and pair[0] in of:
                for known in (self.handles.get(pair[0]), self.made_by_test.get(pair[0])):
                    if known is not None:
                        known._remote_info().state = pair[1]

    def answer(self, reply: dict[str, Any]) -> Any:
        """Return the value in `reply`, or raise the exception that it describes."""
        if "value" in reply:
            value = reply["value"]
            return self._finished(value) if reply.get("async") is True else value
        if "error" in reply:
            raise self.exception(self.peer._error(reply["error"]))
        self.peer.mark_lost(f"it returned what cannot cross: {str(reply.get('cannot'))[:100]}")

    async def _finished(self, number: Any) -> Any:
        """Run a coroutine of the candidate when this is awaited."""
        return self.value({"op": "finish", "h": number})

    def find(self, name: str) -> Any:
        """Return the proxy of the object that the candidate defines under `name`.

        Raises:
            LookupError: the candidate defines no such name.
        """
        if name in self.known:
            return self.known[name]
        self.peer.touched = True
        if name not in self.peer.names():
            raise LookupError(name)
        meta = self.peer.functions.get(name) if self.peer.requests_sent == 0 else None  # a call may have rebound the name
        if type(meta) is dict and meta.get("kind") == "function":
            # A coroutine that is never awaited sends no request, yet may change the test's course.
            self.peer.missed_a_name = self.peer.missed_a_name or meta.get("async") is True
            self.known[name] = self._make(name, meta)
            return self.known[name]
        reply = self.peer.ask({"get": name})
        meta = reply.get("meta")
        if "cannot" not in reply or type(meta) is not dict:
            return self.answer(reply)
        self.known[name] = self._make(name, meta)
        return self.known[name]

    def described(self, name: str, reply: dict[str, Any]) -> Any:
        """Return the local class called `name`, made from its description in `reply`, the answer to an attribute lookup."""
        meta = reply.get("meta")
        if type(meta) is dict and meta.get("kind") in ("exception", "class"):
            return self._make(name, meta)
        self.peer.mark_lost("protocol: a description of no known form")

    def _make(self, name: str, meta: dict[str, Any]) -> Any:
        meta["h"] = self.peer.read({"h": meta.get("h")})
        meta["doc"] = meta["doc"] if type(meta.get("doc")) is str else None
        kind = meta.get("kind")
        if kind == "exception":
            meta |= self.peer._error({"type": name, "message": "", "mro": meta.get("mro"), "own": meta.get("own")})
            return self.error_class(meta["own"], meta["mro"])
        if kind == "class":
            members = meta.get("members")
            meta["members"] = {key: self.peer.read(data) for key, data in members.items()} if type(members) is dict else {}
            numbers = [info.number for member in meta["members"].values() if (info := info_of(member)) is not None]
            for member in meta["members"].values():
                if (info := info_of(member)) is not None:
                    self.members[info.number] = member
                    if numbers.count(info.number) > 1:  # which of its names a function meant is unknown
                        self.ambiguous.add(info.number)
            if not _texts(meta.get("names")) or not (meta.get("parameters") is None or _texts(meta["parameters"])):
                self.peer.mark_lost("protocol: a class of no known form")
            return self.classes.setdefault(meta["h"]._remote_info().number, RemoteClass(self, name, meta))
        if kind == "object":  # a callable object, or a function with attributes
            meta["h"]._remote_info().is_open = meta["h"]._remote_info().is_named = True
            return meta["h"]
        made = RemoteFunction(self, name, meta["h"]._remote_info(), meta.get("async") is True)
        self.numbers[id(made)] = meta["h"]._remote_info().number
        return made

    def error_class(self, own: list[str], mro: list[str]) -> type[BaseException]:
        """Return the local class for an exception of the candidate: a built-in class, or a subclass with the candidate's name.

        Args:
            own: names of the classes in the exception's MRO that are not built-in, nearest first.
            mro: names of the built-in classes in the exception's MRO, nearest first.
        """
        made: type[BaseException] = CandidateError
        if "Exception" in mro:
            made = next((_ERRORS[name] for name in mro if name in _ERRORS), Exception)
        if issubclass(made, StopIteration | StopAsyncIteration):
            # Raised from a call inside map() it would end the test's loop instead of failing it.
            made = Exhausted
        built_in = made
        for name in reversed(own):
            if "." in name:  # of the standard library, not the candidate's own
                made = _usual_error(name.rpartition(".")[2]) or made
                continue
            if name not in self.errors:
                bases = (made,) if issubclass(made, built_in) else (made, built_in)
                self.errors[name] = type(plain_name(name)[:200].replace("\0", ""), bases, _BODY)
            made = self.errors[name]
        return made

    def exception(self, error: dict[str, Any], depth: int = 0) -> BaseException:
        """Return the local exception for the candidate's exception that `error` describes, with its causes.

        Args:
            error: description of the exception, as the candidate sent it.
            depth: position in the chain of causes; causes are included up to `MOST_CAUSES`.
        """
        made = self._exception(error)
        for name in ("__cause__", "__context__"):
            if type(error.get(name)) is dict and depth < MOST_CAUSES:
                setattr(made, name, self.exception(self.peer._error(error[name]), depth + 1))
        if "__cause__" not in error:
            made.__cause__ = None
        if type(number := error.get("h")) is int and isinstance(getattr(made, "__dict__", None), dict):
            made.__dict__["_object"] = make(RemoteInfo(self, number, error["own"] or ["object"], frozenset(), None), None)
        return made

    def _exception(self, error: dict[str, Any]) -> BaseException:
        raised = error["attributes"].get("raised_by_test")
        if type(raised) is int and 0 <= raised < len(self.peer.raised) and isinstance(self.peer.raised[raised], Exception):
            return self.peer.raised[raised]
        kind = self.error_class(error["own"], error["mro"])
        if kind is CandidateError:
            return CandidateError(f"{error['type']}: {error['message']}")
        for args in (error["args"], [error["message"]]):
            try:
                made = kind(*args)
            except Exception:  # noqa: S112, arguments that do not fit the class
                continue
            if error["own"] and isinstance(getattr(made, "__dict__", None), dict):
                made.__dict__["_said"] = error["message"]
                made.__dict__.update({key: value for key, value in error["attributes"].items() if key not in dir(Exception)})
            return made
        made = kind.__new__(kind)  # of the standard library with its own constructor, such as JSONDecodeError
        made.args = (error["message"],)
        made.__dict__.update({key: value for key, value in error["attributes"].items() if key not in dir(Exception)})
        return made


def _said(error: Exception) -> str:
    message = error.__dict__.get("_said")
    return message if message is not None else Exception.__str__(error)


def _had(error: Exception, name: str) -> Any:
    """Look up an attribute that an exception of the candidate has through its class."""
    if name[:1] == "_" or "_object" not in error.__dict__:
        raise AttributeError(name)
    return getattr(error.__dict__["_object"], name)


_BODY: dict[str, Any] = {"__str__": _said, "__getattr__": _had, "__module__": "solution"}
