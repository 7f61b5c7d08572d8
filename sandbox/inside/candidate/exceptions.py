"""Exceptions between the processes of test and program: describes them as plain data, and rebuilds them for the program."""

from __future__ import annotations

import builtins
import sys

from verigym.sandbox.inside.wire.encoding import PROGRAM, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MESSAGE_CHARS = 1 << 16
MOST_CAUSES = 4
_BUILTIN = {
    name: value for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
}


def describe_exception(error: BaseException, hold: Callable[..., Any] | None = None, depth: int = 0) -> dict[str, Any]:
    """Describe `error` as plain data: class names, message, and the arguments and attributes that can be encoded.

    Args:
        error: the exception.
        hold: encodes objects among the exception's arguments and attributes; see `handle` of `encode`. None: only plain data
            is encoded.
        depth: position in the chain of causes; causes are included up to `MOST_CAUSES`.
    """
    mro, own = bases(type(error))
    described: dict[str, Any] = {"type": str(type(error).__name__)[:200], "mro": mro, "own": own, "args": []}
    try:
        described["message"] = str(error)[:MESSAGE_CHARS]
    except BaseException:
        described["message"] = ""
    try:
        described["args"] = [encode(value, hold) for value in error.args]
        plain = {name: encode(value, hold) for name, value in vars(error).items() if type(name) is str and name[:1] != "_"}
        if plain:
            described["attributes"] = plain
    except BaseException:
        described["args"] = described["args"] or [described["message"]]
    for name in ("__cause__", "__context__") if depth < MOST_CAUSES else ():
        if isinstance(cause := getattr(error, name, None), BaseException):
            described[name] = describe_exception(cause, hold, depth + 1)
    return described


def bases(kind: type) -> tuple[list[str], list[str]]:
    """Return two lists of names of the classes in the MRO of `kind`, nearest first: built-in classes, and all others."""
    bases = [(str(base.__name__)[:200], base) for base in type.__dict__["__mro__"].__get__(kind)[:-1]]
    own = [_qualified(name, base) for name, base in bases if _BUILTIN.get(name) is not base]
    return [name for name, base in bases if _BUILTIN.get(name) is base], own[:50]


def unique_name(name: str, kind: type) -> str:
    """Return `name`, made unique among the classes of this process: the second class named `Empty` is `Empty#2`."""
    alike = _NAMED.setdefault(name := name.replace(".", "_").replace("#", "_"), {})
    place, _ = alike.setdefault(id(kind), (len(alike), kind))
    return f"{name}#{place + 1}" if place else name


def plain_name(name: str) -> str:
    """Return the plain class name in `name`, without its module and without the `#2` that `unique_name` adds."""
    return name.rpartition(".")[2].partition("#")[0]


_NAMED: dict[str, dict[int, tuple[int, type]]] = {}
"""Name -> id of class -> (index among classes of that name, the class). Holding the class keeps its id from being reused."""


def _qualified(name: str, kind: type) -> str:
    """Return the name with its module if the class is a library's; a name without a dot if it is the program's."""
    module = getattr(kind, "__module__", None)
    is_librarys = type(module) is str and getattr(sys.modules.get(module), name, None) is kind
    return f"{module}.{name}" if is_librarys and module != PROGRAM else unique_name(name, kind)


def rebuild_exception(answer: dict[str, Any]) -> Any:
    """Return an exception like the one that a function of the test raised, rebuilt from its description `answer`.

    The returned exception has the same class names and message. Its attribute `raised_by_test` holds the number of the original
    exception in the test's process.
    """
    names = answer["mro"]
    built_in = next((name for name in names if name in _BUILTIN), "Exception")
    kind = _BUILTIN[built_in]
    for name in reversed(names[: names.index(built_in)] if built_in in names else names):
        kind = type(name, (kind,), {})
    made: Any = kind.__new__(kind, answer["message"])
    made.args = (answer["message"],)
    made.raised_by_test = answer["raised"]
    return made
