"""Names of Python's special methods and the operations that they stand for, used by both processes, test and program."""

from __future__ import annotations

MAX_ITEMS = 100_000
"""Largest number of items read from an object, because an object with `__getitem__` alone may have endless items."""
UNARY = {
    "__abs__": "abs",
    "__neg__": "neg",
    "__pos__": "pos",
    "__invert__": "invert",
    "__int__": "int",
    "__float__": "float",
    "__complex__": "complex",
    "__index__": "index",
    "__bool__": "bool",
    "__hash__": "hash",
    "__trunc__": "trunc",
    "__ceil__": "ceil",
    "__floor__": "floor",
}
"""Operations on one object: special method -> operation."""
_ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
BINARY = {f"__{name}__": (name, False) for name in _ARITHMETIC} | {f"__r{name}__": (name, True) for name in _ARITHMETIC}
"""Binary operators: special method -> operation, and whether the object is the right operand."""
IN_PLACE = {f"__i{name}__": f"i{name}" for name in _ARITHMETIC if name != "divmod"}
ORDER = {f"__{name}__": name for name in ("lt", "le", "gt", "ge")}
_OTHERS = (
    "__eq__ __call__ __len__ __iter__ __next__ __reversed__ __contains__ __getitem__ __setitem__ __delitem__ __enter__ "
    "__exit__ __aenter__ __aexit__ __aiter__ __anext__ __await__ __format__ __round__"
).split()
SPECIAL = frozenset((*UNARY, *BINARY, *IN_PLACE, *ORDER, *_OTHERS))


def of(kind: type) -> list[str]:
    """Return the sorted names of the special methods of `kind`. Of those inherited from `object`, only `__hash__` counts."""
    defined: dict[str, bool] = {}
    for base in type.__dict__["__mro__"].__get__(kind)[:-1]:
        for name in SPECIAL & base.__dict__.keys():
            defined.setdefault(name, base.__dict__[name] is not None)
    defined.setdefault("__hash__", True)  # inherited from `object`, unless a class sets it to None
    return sorted(name for name, present in defined.items() if present)
