"""Objects of the candidate's, as the test sees them: a number, the protocols of its class, and its state when it arrived.

Whoever asks, the same rules hold, so that no library that the test uses can be led to ask more:

- An object has the special methods that its class has, and no others.
- Where a plain value could stand as well, what a function returned is given values of the test's only if no plain value comes
  back: `startswith('Hello')` would be told what is expected, and say yes.
- No object decides whether it equals a value of the test's. Two objects that the test only made are asked. Of others the states
  are compared, each as it was before the test could say what it expects; and what the test only made has the state that the
  test gave it.
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
"""Which of an operation's arguments are values; the others are names and switches of ours."""
_YES_OR_NO = frozenset("startswith endswith isdisjoint issubset issuperset equals all any".split())
_ANSWERING = _YES_OR_NO | frozenset("count index find rfind rindex".split())
"""Methods of plain values that say of a value whether, where or how often it is there."""
_CANCELLING = frozenset(("sub xor and truediv floordiv mod divmod " + " ".join(special_methods.IN_PLACE.values())).split())
"""Operators whose result for the expected value is known beforehand, 0, 1 or empty; and those that change the object itself."""
_AS_OBJECT = {"iter": {"make": True}}


class Remote:
    """What stands for an object of the candidate's and for no plain value."""

    __slots__ = ()

    def _remote_info(self) -> RemoteInfo:
        raise NotImplementedError


class RemoteInfo:
    """What is known of an object of the candidate's."""

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
        "told",
        "touched",
    )

    def __init__(self, proxies: Proxies, number: int, names: list[str], special: frozenset[str], state: Any) -> None:
        self.proxies = proxies
        self.number = number
        self.names = names
        """Of its class and the bases of that, those of Python's own with their modules: `["Stack", "builtins.list"]`."""
        self.special = special
        self.state = state
        """Its attributes when it arrived, encoded; None: not known."""
        self.given: Given | None = None
        """The class and the arguments that the test made it with; None for arguments of a method that made it."""
        self.is_open = False
        """Whether the test uses it as an object, and may give it values."""
        self.is_named = False
        """Whether it is a name of the test's own, as a function is."""
        self.is_derived = False
        """Whether its class is the test's, derived from one of the program's."""
        self.cancels = False
        """Whether an operator gave it that can cancel the expected value, as in `f(3) - 6`: nothing of it may be read."""
        self.follows_class = False
        """Whether it comes from an object that the test made by a class-style name."""
        self.told = False
        """Whether it was made of a value of the test's that no class's object was to be given."""
        self.touched = False
        """Whether the test has had it do something."""
        self.passed = False
        """Whether the test has given it to the candidate."""
        self.methods: set[str] = set()
        self.content: Any = None

    @property
    def is_fresh(self) -> bool:
        """Whether the test has made it and done nothing with it."""
        return self.given is not None and not self.touched and not self.passed

    def ask(self, op: str, /, *args: Any, **kwargs: Any) -> Any:
        """Have an operation done.

        Raises:
            TypeError: the object may only say whether a value of the test's is right.
        """
        if self.cancels:
            raise self.refusal(op)
        body = {"op": op, "h": self.number}
        return self.proxies.value(body | _AS_OBJECT.get(op, {}), args, kwargs, is_tests_doing=self.is_open)

    def attribute(self, name: str) -> Any:
        """What the object itself has under a name that what stands for it may have too."""
        reply = self.proxies.peer.ask({"op": "attr", "h": self.number}, (name,))
        if "cannot" in reply:
            return lambda *args, **kwargs: self.tell("method", name, *args, **kwargs)
        return self.proxies.answer(reply)

    def tell(self, op: str, /, *args: Any, **kwargs: Any) -> Any:
        """Have an operation done with values of the test's, which what a function returned must not judge.

        Raises:
            TypeError: it did.
        """
        self.touched = True
        return self.believed(self.ask(op, *args, **kwargs), op, args, kwargs)

    def believed(self, found: Any, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of an operation.

        Raises:
            TypeError: it could only confirm a value of the test's.
        """
        self.followed_by(found)
        if self._may_judge(op, args) or not any(
            map(self.proxies.is_of_the_test, (*args[_VALUES.get(op, slice(None))], *kwargs.values()))
        ):
            return found
        is_of_a_class = self.is_of_a_class()
        if isinstance(found, Remote):
            made = found._remote_info()
            made.told = (op == "operate" and not is_of_a_class) or (op == "method" and args[0] in _ANSWERING)
            made.cancels = op == "operate" and not is_of_a_class and args[0] in _CANCELLING
        elif not self._may_be_believed(op, args, found):
            raise self.refusal(f"{args[0]}() with arguments")
        return found

    def followed_by(self, found: Any) -> None:
        """Remember of an object where it comes from."""
        info = info_of(found)
        if info is not None and info.given is None:
            info.follows_class = info.follows_class or self.is_of_a_class()

    def _may_be_believed(self, op: str, args: tuple[Any, ...], found: Any) -> bool:
        """Whether a plain result tells more than that the object agrees with a value of the test's."""
        if op == "method" and args[0] in _ANSWERING:
            return found is None and args[0] not in _YES_OR_NO
        return found is None or (self.is_of_a_class() and type(found) is not bool)

    def is_of_a_class(self) -> bool:
        """Whether the test made it by a name written as classes' names are: more than yes and no is then believed."""
        return self.follows_class or (self.given is not None and looks_like_a_class(written(self.given[0])))

    def _may_judge(self, op: str, args: tuple[Any, ...]) -> bool:
        """Whether no plain value could have stood there, so that it must be an object of the program's that the test means."""
        if op == "method":
            used = self.proxies.usage.attributes[written(self.given[0])] if self.given is not None else ()
            return args[0] not in OF_PLAIN_VALUES or (self.is_open and args[0] in used) or self.is_named
        return self.is_open if op == "operate" else True

    @property
    def name(self) -> str:
        """The name of its class."""
        return plain_name(self.names[0])

    def refusal(self, what: str) -> TypeError:
        """Say what an object that a function returned cannot do."""
        return TypeError(f"{what} for a {self.name!r} object that a function returned; such a test needs trust=shared")

    def read(self) -> Any:
        """What is in it, asked for once, so that length, iteration and items agree as those of plain data do."""
        if self.content is None:
            content = self.ask("content")
            if not isinstance(content, list | dict):
                self.proxies.peer.lose("protocol: content that is neither a list nor a dict")
            self.content = content
        return self.content

    def copied(self, op: str) -> Any:
        """A copy that the program makes of it."""
        found = self.ask(op)
        if isinstance(found, Remote) and self.given is not None:
            info = found._remote_info()
            info.given, info.is_open, info.touched = (self.given[0], None, {}), self.is_open, True
        return found

    def agreed(self, found: Any, op: str, *args: Any) -> Any:
        """What is in it, if that is also what the object says when it is asked.

        Raises:
            TypeError: it is not.
        """
        said = self.ask(op, *args)
        if found is said or found == said:
            return found
        raise self.refusal(f"{op}() that its items contradict")


def written(kind: Any) -> str:
    """The name by which the test calls a class."""
    return getattr(kind, "_written", None) or str(kind.__name__)


def info_of(value: Any) -> RemoteInfo | None:
    """What is known of an object of the candidate's; None for any other value."""
    return getattr(type(value), "_remote_info", _nothing)(value)


def _nothing(value: Any) -> None:
    return None
