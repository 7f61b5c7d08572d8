"""What the test sees of the candidate: functions, classes, errors and the module, all of which ask the other process."""

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
"""Exceptions of the standard library that tests expect: name -> module."""


def _usual_error(name: str) -> type[Exception] | None:
    if name not in _USUAL:
        return None
    found = getattr(__import__(_USUAL[name]), name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


_COROUTINE_FLAG = 0x80
_CALLED_BACK = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    functools.partial,
)
_ITERATOR_ITEMS = 1000
"""Of an iterator of the test's so many items are given at once; the program asks for the others."""


def _texts(value: Any) -> bool:
    return type(value) is list and all(type(text) is str for text in value)


def _alike(one: Given | None, other: Given) -> bool:
    """Whether two instances were made by the same class of the same arguments."""
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
    """Makes and remembers them, for one candidate."""

    def __init__(self, peer: Peer, job: dict[str, Any]) -> None:
        self.peer = peer
        self._job = job
        peer.wrap, peer.unwrap, peer.note = self.wrap, self.unwrap, self.note
        self.handles: dict[int, Handle] = {}
        """What functions returned, by number; `made_by_test` has what the test made, `members` those of enumerations."""
        self.made_by_test: dict[int, Handle] = {}
        self.members: dict[int, Any] = {}
        self.ambiguous: set[int] = set()
        self.derived: dict[int, type] = {}
        """Classes of the test's that derive from the candidate's, by number."""
        self.known: dict[str, Any] = {}
        self.errors: dict[str, type[BaseException]] = {}
        self.classes: dict[int, RemoteClass] = {}
        self.numbers: dict[int, int] = {}
        self.of_the_test = "__main__"
        """The module that the test's classes are of."""
        self._lent: dict[int, int] = {}
        """Number of each exported object of the test, by identity; its `ExportedObject` keeps it alive."""

    @functools.cached_property
    def usage(self) -> Usage:
        """How setup and test use names."""
        return Usage(self._job[part] for part in ("setup", "code") if self._job.get(part))

    def names(self) -> frozenset[str]:
        """What the candidate defines."""
        return self.peer.names()

    def module(self, name: str, public: Callable[[], list[str]]) -> RemoteModule:
        """The module that `import solution` gives."""
        return RemoteModule(name, self, public)

    def wrap(self, body: Any, plain: Any, by: Decoder, depth: int) -> Any:
        """The object that the candidate sent a description of, or the test's own that it gave back."""
        if type(body) is dict:
            number = body.get("lent")
            if type(number) is not int or not 0 <= number < len(self.peer.callbacks):
                raise ValueError("no object of the test's")
            lent = self.peer.callbacks[number]
            return lent.value if type(lent) is ExportedObject else lent
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
        # What the test gave comes back; and where it asks whether two objects are one, what it made.
        if number in self.made_by_test and (self.made_by_test[number]._remote_info().passed or self.usage.compares_identity):
            if not self.peer.reads_unasked:
                self.made_by_test[number]._remote_info().state = state
            return self.made_by_test[number]
        info = RemoteInfo(self, number, names, frozenset(has), state)
        if number in self.ambiguous:
            return make(info, plain)
        if plain is not None and number not in self.made_by_test:
            # A member of an enumeration is one object; of other values each one is as it was when it came.
            return self.handles.setdefault(number, make(info, plain)) if "Enum" in map(plain_name, names) else make(info, plain)
        known = self.handles.setdefault(number, make(info, None))
        # Not while the candidate makes what the test compares it with: it could give it the state of that.
        if not self.peer.reads_unasked:
            known._remote_info().state = state
        return known

    def derived_class(self, name: str) -> type:
        """The class of the test's whose counterpart in the program has that name."""
        number = name.rpartition(".")[2]
        kind = self.derived.get(int(number)) if number.isdigit() else None
        return self.peer.lose("protocol: no class of the test's") if kind is None else kind

    def made(self, info: RemoteInfo, given: Given) -> Handle:
        """The object that the test has made, apart from the same one that a function returns; one again only if made alike."""
        known = self.made_by_test.get(info.number)
        if known is None or not (self.usage.compares_identity or _alike(known._remote_info().given, given)):
            known = make(RemoteInfo(self, info.number, info.names, info.special, info.state), None)
            known._remote_info().given = given
            self.made_by_test[info.number] = known
        return known

    def is_of_the_test(self, value: Any) -> bool:
        """Whether it is a value of the test's, and no object or function of the candidate's."""
        return info_of(value) is None and id(value) not in self.numbers

    def unwrap(self, value: Any, to: Encoder, plain: Any, depth: int) -> Any:
        """The number of an object, where it has one."""
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
        return {"h": self.lend(value)} if plain is None and is_exported(value, self.of_the_test) else None

    def lend(self, value: Any) -> dict[str, Any]:
        """What stands for an object of the test's, which the candidate may use."""
        known = self.peer.callbacks
        number = self._lent.get(id(value))
        if number is None:
            number = self._lent[id(value)] = len(known)
            known.append(ExportedObject(value))
        kind = type(value)
        return {"callback": number, "name": kind.__name__, "doc": kind.__doc__, "special": special(kind)}

    def callback(self, function: Any) -> dict[str, Any]:
        """What stands for a function of the test's, which the candidate may call."""
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
        """Ask, and raise here what the candidate raised. What a coroutine gave is a coroutine's here too."""
        return self.answer(self.peer.ask(body, args, kwargs, is_tests_doing=is_tests_doing))

    def state(self, info: RemoteInfo) -> Any:
        """The attributes of an object as they are now, encoded."""
        return self.peer.ask({"op": "state", "h": info.number}).get("value")

    def equal(self, one: RemoteInfo, other: RemoteInfo) -> bool:
        """Whether two objects are equal; see `about`."""
        if one.number in self.members or other.number in self.members:
            return one is other
        if one.number == other.number and one is not other:
            return not (one.is_fresh or other.is_fresh)  # of what is only made, nothing but its own making says what it is
        if "__eq__" not in one.special and "__eq__" not in other.special:
            return one is other
        if one is not other and not (one.is_fresh and other.is_fresh):
            for made, found in ((one, other), (other, one)):
                if made.is_fresh and not snapshots.matches_arguments(made, found):
                    return False
            if not (one.is_fresh or other.is_fresh or snapshots.same(one.state, other.state)):
                return False
        return bool(one.ask("order", "eq", other))

    def note(self, states: Any, of: set[int]) -> None:
        """Keep the states that the candidate says objects have now: before the test says what it expects of them."""
        if type(states) is not list:
            return
        for pair in states:
            if type(pair) is list and len(pair) == 2 and type(pair[0]) is int and pair[0] in of:
                for known in (self.handles.get(pair[0]), self.made_by_test.get(pair[0])):
                    if known is not None:
                        known._remote_info().state = pair[1]

    def answer(self, reply: dict[str, Any]) -> Any:
        """The value in an answer that has come."""
        if "value" in reply:
            value = reply["value"]
            return self._finished(value) if reply.get("async") is True else value
        if "error" in reply:
            raise self.exception(self.peer._error(reply["error"]))
        self.peer.lose(f"it returned what cannot cross: {str(reply.get('cannot'))[:100]}")

    async def _finished(self, number: Any) -> Any:
        """What a coroutine of the candidate's gives, which runs when this is awaited."""
        return self.value({"op": "finish", "h": number})

    def find(self, name: str) -> Any:
        """What the candidate defines under a name.

        Raises:
            LookupError: nothing.
        """
        if name in self.known:
            return self.known[name]
        self.peer.touched = True
        if name not in self.peer.names():
            raise LookupError(name)
        meta = self.peer.functions.get(name) if self.peer.asked == 0 else None  # a call may have changed what a name means
        if type(meta) is dict and meta.get("kind") == "function":
            # A coroutine that nobody awaits asks for nothing, and may lead the test elsewhere all the same.
            self.peer.lacks_a_name = self.peer.lacks_a_name or meta.get("async") is True
            self.known[name] = self._make(name, meta)
            return self.known[name]
        reply = self.peer.ask({"get": name})
        meta = reply.get("meta")
        if "cannot" not in reply or type(meta) is not dict:
            return self.answer(reply)
        self.known[name] = self._make(name, meta)
        return self.known[name]

    def described(self, name: str, reply: dict[str, Any]) -> Any:
        """The class that an attribute is."""
        meta = reply.get("meta")
        if type(meta) is dict and meta.get("kind") in ("exception", "class"):
            return self._make(name, meta)
        self.peer.lose("protocol: a description of no known form")

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
                    if numbers.count(info.number) > 1:  # nobody could tell which of its names a function meant
                        self.ambiguous.add(info.number)
            if not _texts(meta.get("names")) or not (meta.get("parameters") is None or _texts(meta["parameters"])):
                self.peer.lose("protocol: a class of no known form")
            return self.classes.setdefault(meta["h"]._remote_info().number, RemoteClass(self, name, meta))
        if kind == "object":  # a callable one, or a function that has attributes
            meta["h"]._remote_info().is_open = meta["h"]._remote_info().is_named = True
            return meta["h"]
        made = RemoteFunction(self, name, meta["h"]._remote_info(), meta.get("async") is True)
        self.numbers[id(made)] = meta["h"]._remote_info().number
        return made

    def error_class(self, own: list[str], mro: list[str]) -> type[BaseException]:
        """The local class for an exception: the built-in one, or one of that name that derives from it."""
        made: type[BaseException] = CandidateError
        if "Exception" in mro:
            made = next((_ERRORS[name] for name in mro if name in _ERRORS), Exception)
        if issubclass(made, StopIteration | StopAsyncIteration):
            # Raised from a call inside map() it would end the test's loop instead of failing it.
            made = Exhausted
        built_in = made
        for name in reversed(own):
            if "." in name:  # of the standard library, and no class of the candidate's of that name
                made = _usual_error(name.rpartition(".")[2]) or made
                continue
            if name not in self.errors:
                bases = (made,) if issubclass(made, built_in) else (made, built_in)
                self.errors[name] = type(plain_name(name)[:200].replace("\0", ""), bases, _BODY)
            made = self.errors[name]
        return made

    def exception(self, error: dict[str, Any], depth: int = 0) -> BaseException:
        """The local exception for what the candidate raised, with its causes."""
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
        made = kind.__new__(kind)  # of the standard library, with a constructor of its own: a JSONDecodeError
        made.args = (error["message"],)
        made.__dict__.update({key: value for key, value in error["attributes"].items() if key not in dir(Exception)})
        return made


def _said(error: Exception) -> str:
    said = error.__dict__.get("_said")
    return said if said is not None else Exception.__str__(error)


def _had(error: Exception, name: str) -> Any:
    """What an exception of the candidate's has by its class."""
    if name[:1] == "_" or "_object" not in error.__dict__:
        raise AttributeError(name)
    return getattr(error.__dict__["_object"], name)


_BODY: dict[str, Any] = {"__str__": _said, "__getattr__": _had, "__module__": "solution"}
