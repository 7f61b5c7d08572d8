"""The table of a program's objects that the test holds by number, their description, and operations on them."""

from __future__ import annotations

import _operator
import builtins
import collections
import copy
import itertools
import sys

from verigym.sandbox.inside.candidate.exceptions import bases, rebuild_exception, unique_name
from verigym.sandbox.inside.candidate.exported import make_stub
from verigym.sandbox.inside.wire import special_methods
from verigym.sandbox.inside.wire.encoding import BASE_VALUE, PLAIN, CannotCross, Encoder, base_encoder, encode, iterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_OWN = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
TESTS_OWN = "test."
"""A class that the test derives from a class of the program is sent under a name that consists of this prefix and a number."""
_derived: dict[type, int] = {}
_MOST_HANDLES = 200_000
_HARMLESS = {"__hash__", "__format__"}
_STATE_NODES = 200
_STATE_DEPTH = 4
_COROUTINE_FLAG = 0x80
_REST_FLAG = 0x04
_NAMED_REST_FLAG = 0x08
_GENERATOR = type(_ for _ in ())
_FUNCTION = type(lambda: 0)
_FUNCTIONS: tuple[type, ...] = (_FUNCTION, type(len), type([].append))
_SPECIAL_OF_FUNCTIONS = special_methods.of(_FUNCTION)  # computed once: most programs are asked for functions


def _is_enum(kind: type) -> bool:
    enum = sys.modules.get("enum")
    return enum is not None and isinstance(kind, getattr(enum, "EnumMeta", ()))


def _names(kind: type) -> list[str]:
    """Return the names of a class and its bases, nearest first: Python's own with module, duplicate names with a number."""
    names = []
    for base in type.__dict__["__mro__"].__get__(kind)[:-1] or (object,):
        name = str(base.__name__)[:200]
        if base in _derived:
            names.append(f"{TESTS_OWN}{_derived[base]}")
            continue
        module = "builtins" if _OWN.get(name) is base else "collections" if base is collections.deque else ""
        names.append(f"{module}.{name}" if module else unique_name(name, base))
    return names


def _doc(value: Any) -> str | None:
    doc = getattr(value, "__doc__", None)
    return doc[:4096] if type(doc) is str else None


async def _awaited(value: Any) -> Any:
    return await value


class ObjectTable:
    """Table of the candidate's objects that the test refers to by number, and of stubs for objects that the test exported."""

    def __init__(self, module: str, call_back: Callable[..., Any] | None = None) -> None:
        self.call_back: Any = call_back
        """Calls a function of the test by number."""
        self._callbacks: dict[int, Any] = {}
        self.stub_numbers: dict[int, int] = {}
        """Id of a stub -> number of the test's object."""
        self.held: list[Any] = []
        self.numbers: dict[int, int] = {}
        self._module = module
        self._special: dict[type, list[str]] = {_FUNCTION: _SPECIAL_OF_FUNCTIONS}
        self._left = 0
        """How many more values the state being encoded may contain. A state is an object's attributes, nested ones too."""
        self._inside: set[int] = set()
        self._failed: dict[int, BaseException] = {}
        """Number of an iterator -> exception that it raised in the middle of a batch. The next request for items raises it."""

    def encode(self, value: Any, to: Encoder, plain: Callable[[Encoder, Any, int], Any] | None, depth: int) -> Any:
        """Return the encoding of an object that is not exactly of a plain type.

        The encoding is the object's handle (its number and description). If the object's class derives from a plain type, the
        encoding also contains the plain value. The result None tells the encoder to send `value` as plain data alone.

        Args:
            value: the object.
            to: the encoder in use.
            plain: encodes the built-in base type of the object's class; None if there is none.
            depth: nesting depth of the object in the encoded value.
        """
        if plain is None:
            number = self.stub_numbers.get(id(value))
            return {"h": self.handle(value) if number is None else {"exported": number}}
        if plain is iterator:
            # Not consumed here: side effects must happen when the test reads it, and a state must not exhaust it.
            known = {"h": [self.number(value), ["iterator"], [], None]}
            return known if self._inside else {"gen" if type(value) is _GENERATOR else "its": [[], self.number(value)]}
        own = [base for base in type(value).__mro__ if getattr(base, "__module__", None) == self._module]
        if not own and not (isinstance(value, tuple) and hasattr(type(value), "_fields")):
            return None
        if any(special_methods.SPECIAL & base.__dict__.keys() - _HARMLESS for base in own):  # not like its base type
            return {"h": self.handle(value)}
        return {"v": [plain(to, value, depth + 1), self.handle(value)]}

    def take(self, number: int, count: int) -> tuple[list[Any], bool]:
        """Return at most `count` next items of iterator `number`, and whether the iterator has ended.

        Raises:
            BaseException: the iterator raised it. Items before the exception are returned first, by an earlier call.
        """
        failed = self._failed.pop(number, None)
        if failed is not None:
            raise failed
        taken: list[Any] = []
        for _ in range(count):
            try:
                taken.append(next(self.held[number]))
            except StopIteration:
                return taken, True
            except BaseException as error:
                if not taken:
                    raise
                self._failed[number] = error
                break
        return taken, False

    def instance(self, value: Any) -> Any:
        """Encode `value`, an object that the test constructed, as a handle, even if its class derives from a plain type."""
        exact = type(value) in PLAIN or value is None or id(value) in self.stub_numbers
        return encode(value, self.encode) if exact else {"h": self.handle(value)}

    def number(self, value: Any) -> int:
        """Return the number of the object `value`, assigning one if it has none.

        Raises:
            CannotCross: too many objects have numbers.
        """
        number = self.numbers.get(id(value))
        if number is None:
            if len(self.held) >= _MOST_HANDLES:
                raise CannotCross("too many objects", size=True)
            number = self.numbers[id(value)] = len(self.held)
            self.held.append(value)
        return number

    def handle(self, value: Any) -> list[Any]:
        """Return the handle of the object `value`: number, class names, special methods, and present state."""
        kind = type(value)
        special = self._special.get(kind)
        if special is None:
            special = self._special[kind] = special_methods.of(kind)
        return [self.number(value), _names(kind), special, self.state(value)]

    def state(self, value: Any) -> Any:
        """Return the encoded attributes of `value`; None if it has no attributes, too many, or one that cannot be encoded."""
        if isinstance(value, type) or id(value) in self._inside or len(self._inside) >= _STATE_DEPTH:
            return None
        if type(value) is _FUNCTION and not value.__dict__:
            return []
        attributes = _attributes(value)
        if attributes is None:
            return None
        if not self._inside:
            self._left = _STATE_NODES
        self._inside.add(id(value))
        to = Encoder(self.encode, self._left)
        try:
            state = to.put(attributes, 0)["d"]
            if (write := base_encoder(type(value))) is not None and not getattr(type(value), "_fields", None):
                state.append([BASE_VALUE, write(to, value, 1)])
            return state
        except BaseException:
            return None
        finally:
            self._inside.discard(id(value))
            self._left = to.nodes

    def describe(self, value: Any, hold: bool) -> dict[str, Any]:
        """Return a description of `value`, a function or class that the test looked up by name.

        Args:
            value: the function or class.
            hold: whether to include a handle, so that the test can refer to the object.
        """
        description: dict[str, Any] = {"kind": "function", "doc": _doc(value), "async": False}
        if hold:
            description["h"] = self.handle(value)
        if isinstance(value, type):
            description["kind"] = "exception" if issubclass(value, BaseException) else "class"
            description["mro"], description["own"] = bases(value)
            description["names"] = _names(value)
            description["parameters"] = _parameters(value)
            members = getattr(value, "__members__", None) if _is_enum(value) else None
            if hold and members is not None:
                description["members"] = {name: encode(member, self.encode) for name, member in dict(members).items()}
            return description
        if type(value) not in _FUNCTIONS or getattr(value, "__dict__", None):
            description["kind"] = "object"
        flags = getattr(getattr(value, "__code__", None), "co_flags", 0)
        description["async"] = type(flags) is int and bool(flags & _COROUTINE_FLAG)
        return description

    def get(self, description: Any, plain: Any = None, *_: Any) -> Any:
        """Return the object for the handle `description`. For a function or object of the test, the result is a stub."""
        if plain is iter:
            return self._going_on(*description)
        if type(description) is not dict:
            return self.held[description]
        number = description["callback"]
        known = self._callbacks.get(number)
        if known is None and "special" in description:
            known = make_stub(lambda *args, **kwargs: self.call_back(number, args, kwargs), description)
            self.stub_numbers[id(known)] = number
        elif known is None:
            known = _callback(self.call_back, description)
        self._callbacks[number] = known
        return known

    def _going_on(self, number: int, begun: list[Any]) -> Any:
        """Iterate over an iterator of the test: first the items that were sent, then one request per item."""
        yield from begun
        while True:
            try:
                yield self.call_back(number, (), {})
            except StopIteration:
                return

    def perform(self, op: str, number: int, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Perform the operation `op` on object `number` and return its result.

        Args:
            op: name of the operation: a key of `_OPERATIONS`, or `derive` or `steps`.
            number: the object's number.
            args: positional arguments of the operation.
            kwargs: keyword arguments of the operation.
        """
        if op == "derive":
            name, members, others = args
            return self.derive(self.held[number], name, members, others, kwargs)
        if op == "steps":
            return self.take(number, *args)
        return _OPERATIONS[op](self.held[number], *args, **kwargs)

    def derive(self, base: type, name: str, members: dict[str, list[Any]], others: list[type], options: dict[str, Any]) -> int:
        """Make the program's counterpart of a class that the test derives from the program's class `base`. Return its number.

        Args:
            base: the program's class.
            name: name of the test's class.
            members: what the test's class defines: name -> a list of the kind of member (such as `function`) and its parts: the
                functions that implement it, or its value.
            others: further base classes that belong to the program.
            options: keyword arguments of the class statement.
        """
        body: dict[str, Any] = {"__module__": self._module}
        for key, (how, *parts) in members.items():
            if how == "function":
                body[key], is_abstract = parts
                if is_abstract:
                    body[key].__isabstractmethod__ = True
            else:
                body[key] = _MADE_AS[how](*parts)
        bases = [
            one for one in (base, *others) if not any(issubclass(other, one) for other in (base, *others) if other is not one)
        ]
        most = max(map(type, bases), key=lambda kind: len(kind.__mro__))
        made = most(name, tuple(bases), body, **options)
        number = _derived[made] = self.number(made)
        return number


_MADE_AS: dict[str, Callable[..., Any]] = {"property": property, "static": staticmethod, "value": lambda value: value}


def _shape(kind: type) -> list[str]:
    """Return the names that the program's classes define for instances of a class; properties start with an `@`."""
    bases = [base for base in kind.__mro__ if _OWN.get(base.__name__) is not base]
    names = {name for base in bases for name, value in vars(base).items() if type(value) is _FUNCTIONS[0]}
    names |= {f"@{name}" for base in bases for name, value in vars(base).items() if isinstance(value, property)}
    names |= {name for base in bases for name in vars(base).keys() & {"__init_subclass__"}}
    return sorted(names | ({"__hash__"} if kind.__hash__ is not None else set()))


def _callback(call_back: Any, description: dict[str, Any]) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return call_back(description["callback"], args, kwargs)

    async def function_async(*args: Any, **kwargs: Any) -> Any:
        return call_back(description["callback"], args, kwargs, awaited=True)

    made = function_async if description["async"] else function
    made.__name__ = made.__qualname__ = description["name"]
    made.__doc__ = description["doc"]
    made.__module__ = "__main__"
    return made


def _attributes(value: Any) -> dict[str, Any] | None:
    attributes: dict[str, Any] = {}
    try:
        fields = getattr(type(value), "_fields", None)
        if isinstance(value, tuple) and fields:
            return dict(zip(fields, value, strict=False))
        if (own := getattr(value, "__dict__", None)) is not None:
            attributes.update(own)
        for base in type(value).__mro__[:-1]:
            slots = base.__dict__.get("__slots__", ())
            for name in (slots,) if type(slots) is str else slots:
                if name[:2] != "__" and hasattr(value, name):
                    attributes[name] = getattr(value, name)
    except BaseException:
        return None
    return attributes if attributes or hasattr(value, "__dict__") else None


def _parameters(kind: type) -> list[str] | None:
    """Return the names of a constructor's parameters, in order; None if unknown."""
    try:
        fields = getattr(kind, "_fields", None)
        if issubclass(kind, tuple) and fields is not None:
            return [str(name) for name in fields]
        for name in ("__init__", "__new__"):
            code = getattr(getattr(kind, name), "__code__", None)
            if code is not None:
                names = list(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _REST_FLAG)])
                if code.co_flags & _REST_FLAG:  # moved to its position in a call
                    names.insert(code.co_argcount - 1, f"*{names.pop()}")
                if code.co_flags & _NAMED_REST_FLAG:
                    names.append(f"**{code.co_varnames[len(names) + 1]}")
                return names
    except BaseException:
        return None
    return []


def _below(kind: type, base: type) -> type:
    """Return the class before `base` in the MRO: `super` of it starts with `base`."""
    bases = kind.__mro__
    return bases[bases.index(base) - 1]


def _signature(value: Any) -> list[list[Any]]:
    """Return name, kind, whether there is a default, and the default, of each parameter."""
    import inspect

    parameters = inspect.signature(value).parameters.values()
    return [[p.name, int(p.kind), p.default is not p.empty, None if p.default is p.empty else p.default] for p in parameters]


def _content(value: Any) -> Any:
    """Return items, one more than are read where there may be no end of them, as of an object with `__getitem__` alone."""
    if hasattr(value, "keys"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118
    return list(itertools.islice(value, special_methods.MAX_ITEMS + 1))


def _operate(value: Any, name: str, other: Any, is_right: bool) -> Any:
    do = divmod if name == "divmod" else getattr(_operator, f"{name}_" if name in ("and", "or") else name)
    return do(other, value) if is_right else do(value, other)


def _left(mro: list[str] | None, message: str) -> tuple[Any, ...]:
    """Return the arguments of `__exit__`, with an exception of the same class names as the test's."""
    if mro is None:
        return None, None, None
    error = rebuild_exception({"mro": mro, "message": message, "raised": -1})
    return type(error), error, None


def _plain_value(value: Any) -> Any:
    """Convert a value to the plain type that its class derives from."""
    for kind in type(value).__mro__:
        if kind in PLAIN:
            make: Any = {str: str.__str__, int: int.__int__, float: float.__float__}.get(kind, kind)
            return make(value)
    raise TypeError(f"{type(value).__name__} derives from no plain type")


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "attr": getattr,
    "property": lambda kind, name, value: getattr(super(_below(type(value), kind), value), name),
    "dir": lambda value: sorted(name for name in dir(value) if type(name) is str),
    "signature": lambda value: _signature(value),
    "set": setattr,
    "call": lambda value, /, *args, **kwargs: value(*args, **kwargs),
    "method": lambda value, name, /, *args, **kwargs: getattr(value, name)(*args, **kwargs),
    "len": len,
    "str": str,
    "repr": repr,
    "format": format,
    "iter": iter,
    "inherited": lambda kind, name, value, /, *args, **kwargs: getattr(kind, name)(value, *args, **kwargs),
    "new": lambda kind, /, *args, **kwargs: kind.__new__(kind, *args, **kwargs),
    "reversed": reversed,
    "shape": _shape,
    "next": next,
    "content": _content,
    "contains": lambda value, item: item in value,
    "item": lambda value, key: value[key],
    "setitem": lambda value, key, item: value.__setitem__(key, item),
    "delitem": lambda value, key: value.__delitem__(key),
    "exit": lambda value, mro, message: bool(value.__exit__(*_left(mro, message))),
    "aexit": lambda value, mro, message: value.__aexit__(*_left(mro, message)),
    "delattr": delattr,
    "operate": _operate,
    "order": lambda value, name, other: getattr(_operator, name)(value, other),
    "plain": _plain_value,
    "copy": lambda value: copy.copy(value),
    "deepcopy": lambda value: copy.deepcopy(value),
    "round": round,
    "trunc": lambda value: value.__trunc__(),
    "ceil": lambda value: value.__ceil__(),
    "floor": lambda value: value.__floor__(),
    "anext": lambda value: value.__anext__(),
    "await": _awaited,
    **{name: getattr(builtins, name) for name in ("abs", "int", "float", "complex", "bool", "hash")},
    **{name: getattr(_operator, name) for name in ("neg", "pos", "invert", "index")},
}
