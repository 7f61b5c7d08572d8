"""What the test knows of an object of the candidate, and which requests the test may send to the object.

The test knows the object's number, its special methods, and the state (attributes) that it had when it was received. The rules
for requests apply to every caller, so that no library that the test uses can reveal more to the candidate:

- A proxy has exactly the special methods of the object's class.
- A candidate may return an object where the test could also expect a plain value, such as a string. The test must not trust
  what such an object says about a value that the test passes to it. For example, `startswith('Hello')` tells the object the
  expected value, and the object can simply answer True. So an operation that passes values of the test is refused if it yields
  a plain value.
- No object decides whether it equals a value of the test. The candidate compares two objects only if their recorded states
  agree. States are recorded before the test could reveal the values that it expects. For an object that the test has
  constructed and not used since, the constructor arguments take the place of the state. Two objects of this kind are always
  compared.
"""

from __future__ import annotations

from verigym.sandbox.inside.candidate.exceptions import plain_name
from verigym.sandbox.inside.testside.usage import OF_PLAIN_VALUES, looks_like_a_class
from verigym.sandbox.inside.wire import special_methods

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from verigym.sandbox.inside.testside.proxies import Proxies
    from verigym.sandbox.inside.testside.remotes import RemoteClass

    Given = tuple[RemoteClass | type, tuple[Any, ...] | None, dict[str, Any]]

_VALUES = {"method": slice(1, None), "operate": slice(1, 2), "set": slice(1, None), "delattr": slice(1, None)}
"""Operation -> slice of its arguments that are values; the others are names and flags."""
_YES_OR_NO = frozenset("startswith endswith isdisjoint issubset issuperset equals all any".split())
_ANSWERING = _YES_OR_NO | frozenset("count index find rfind rindex".split())
"""Methods of plain values that tell whether, where or how often a value occurs."""
_CANCELLING = frozenset(("sub xor and truediv floordiv mod divmod " + " ".join(special_methods.IN_PLACE.values())).split())
"""Operators whose result for the expected value is known (0, 1 or empty), and in-place operators."""
_AS_OBJECT = {"iter": {"make": True}}


class Remote:
    """Base of proxies for objects that are not plain values."""

    __slots__ = ()

    def _remote_info(self) -> RemoteInfo:
        raise NotImplementedError


class RemoteInfo:
    """The test's record of one object of the candidate, and the operations that the test may perform on the object."""

    __slots__ = (
        "cancels",
        "content",
        "follows_class",
        "given",
        "is_derived",
        "is_named",
        "is_open",
        "methods",
        "names",
        "number",
        "passed",
        "proxies",
        "special",
        "state",
        "is_tainted",
        "touched",
    )

    def __init__(self, proxies: Proxies, number: int, names: list[str], special: frozenset[str], state: Any) -> None:
        self.proxies = proxies
        self.number = number
        self.names = names
        """Names of the object's class and base classes, with module for Python's own, as in `["Stack", "builtins.list"]`."""
        self.special = special
        self.state = state
        """Its attributes on arrival, encoded; None if unknown."""
        self.given: Given | None = None
        """Class and arguments with which the test constructed the object; None if it did not. For an object that a method made,
        such as a copy of a constructed object, only the positional arguments are None."""
        self.is_open = False
        """Whether the test's text shows that it expects an object here, not a plain value. Then it may pass values to it."""
        self.is_named = False
        """Whether the test refers to it by name, like a function."""
        self.is_derived = False
        """Whether the object's class is one that the test derives from a class of the program."""
        self.cancels = False
        """Whether the object is the result of an operator that can cancel the expected value, as in `f(3) - 6`.

        Such an object must not be read, because it could pose as the result that the test expects.
        """
        self.follows_class = False
        """Whether this object is the result of an operation on an instance of a class (see `is_of_a_class`)."""
        self.is_tainted = False
        """Whether the object results from an operation that received a value of the test, and so may only echo that value."""
        self.touched = False
        """Whether the test has performed an operation on it."""
        self.passed = False
        """Whether the test has passed it to the candidate."""
        self.methods: set[str] = set()
        self.content: Any = None

    @property
    def is_fresh(self) -> bool:
        """Whether the test has constructed the object and not used it since."""
        return self.given is not None and not self.touched and not self.passed

    def ask(self, op: str, /, *args: Any, **kwargs: Any) -> Any:
        """Perform the operation `op` on the object and return its result.

        Raises:
            TypeError: the object is the result of an operator that can cancel the expected value (`cancels`).
        """
        if self.cancels:
            raise self.refusal(op)
        body = {"op": op, "h": self.number}
        return self.proxies.value(body | _AS_OBJECT.get(op, {}), args, kwargs, is_tests_doing=self.is_open)

    def attribute(self, name: str) -> Any:
        """Request the attribute `name` of the candidate's object and return it.

        Used for names that the proxy class defines itself, so that a plain lookup would find the proxy's attribute.
        """
        reply = self.proxies.peer.ask({"op": "attr", "h": self.number}, (name,))
        if "cannot" in reply:
            return lambda *args, **kwargs: self.tell("method", name, *args, **kwargs)
        return self.proxies.answer(reply)

    def tell(self, op: str, /, *args: Any, **kwargs: Any) -> Any:
        """Perform the operation `op`, whose arguments may be values of the test, and return the result if it can be trusted.

        A result cannot be trusted if the object may simply confirm the values that the test passed.

        Raises:
            TypeError: the object came from a function and could merely confirm the test's values.
        """
        self.touched = True
        return self.checked_result(self.ask(op, *args, **kwargs), op, args, kwargs)

    def checked_result(self, result: Any, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return `result`, the result of an operation on this object, if it can be trusted.

        Args:
            result: the value that the operation returned.
            op: name of the operation.
            args: positional arguments of the operation.
            kwargs: keyword arguments of the operation.

        Raises:
            TypeError: the object may merely have confirmed a value that the test gave it.
        """
        self.record_origin(result)
        if self._may_judge(op, args) or not any(
            map(self.proxies.is_of_the_test, (*args[_VALUES.get(op, slice(None))], *kwargs.values()))
        ):
            return result
        is_of_a_class = self.is_of_a_class()
        if isinstance(result, Remote):
            made = result._remote_info()
            made.is_tainted = (op == "operate" and not is_of_a_class) or (op == "method" and args[0] in _ANSWERING)
            made.cancels = op == "operate" and not is_of_a_class and args[0] in _CANCELLING
        elif not self._may_be_believed(op, args, result):
            raise self.refusal(f"{args[0]}() with arguments")
        return result

    def record_origin(self, result: Any) -> None:
        """Record that an operation on this object returned `result`, if `result` is an object of the candidate."""
        info = info_of(result)
        if info is not None and info.given is None:
            info.follows_class = info.follows_class or self.is_of_a_class()

    def _may_be_believed(self, op: str, args: tuple[Any, ...], result: Any) -> bool:
        """Return whether a plain result says more than that the object agrees with a value of the test."""
        if op == "method" and args[0] in _ANSWERING:
            return result is None and args[0] not in _YES_OR_NO
        return result is None or (self.is_of_a_class() and type(result) is not bool)

    def is_of_a_class(self) -> bool:
        """Return whether the object is an instance of a class, or comes from an operation on such an instance.

        A name in CapWords style that the test calls is taken for a class. Operations on such objects give trusted results,
        except booleans.
        """
        return self.follows_class or (self.given is not None and looks_like_a_class(written(self.given[0])))

    def _may_judge(self, op: str, args: tuple[Any, ...]) -> bool:
        """Return whether no plain value could be in its place, so that the test must mean an object of the program."""
        if op == "method":
            used = self.proxies.usage.attributes[written(self.given[0])] if self.given is not None else ()
            return args[0] not in OF_PLAIN_VALUES or (self.is_open and args[0] in used) or self.is_named
        return self.is_open if op == "operate" else True

    @property
    def name(self) -> str:
        """The name of the object's class."""
        return plain_name(self.names[0])

    def refusal(self, what: str) -> TypeError:
        """Return the error for the operation `what`, which is not allowed on an object that a function returned."""
        return TypeError(f"{what} for a {self.name!r} object that a function returned; such a test needs trust=shared")

    def read(self) -> Any:
        """Return the object's content, a list or a dict.

        The content is requested only once, so that length, iteration and items are consistent, as with plain data.
        """
        if self.content is None:
            content = self.ask("content")
            if not isinstance(content, list | dict):
                self.proxies.peer.mark_lost("protocol: content that is neither a list nor a dict")
            if len(content) > special_methods.MAX_ITEMS:
                raise self.refusal(f"more than {special_methods.MAX_ITEMS:,} items")
            self.content = content
        return self.content

    def copied(self, op: str) -> Any:
        """Have the program copy the object by the operation `op`, and return the copy."""
        copy = self.ask(op)
        if isinstance(copy, Remote) and self.given is not None:
            info = copy._remote_info()
            info.given, info.is_open, info.touched = (self.given[0], None, {}), self.is_open, True
        return copy

    def checked_by_object(self, computed: Any, op: str, *args: Any) -> Any:
        """Return `computed`, a value computed from the object's content, if the object itself gives the same result.

        Args:
            computed: the value computed on the test's side.
            op: the operation with which the object computes the same.
            args: arguments of the operation.

        Raises:
            TypeError: the object gives another result.
        """
        reported = self.ask(op, *args)
        if computed is reported or computed == reported:
            return computed
        raise self.refusal(f"{op}() that its items contradict")


def written(kind: Any) -> str:
    """Return the name of the class `kind` as written in the test."""
    return getattr(kind, "_written", None) or str(kind.__name__)


def info_of(value: Any) -> RemoteInfo | None:
    """Return the `RemoteInfo` of `value` if it is a proxy; None for any other value."""
    return getattr(type(value), "_remote_info", _nothing)(value)


def _nothing(value: Any) -> None:
    return None
