r"""Tells complex conjugates (`\bar{z}`) from other bars: a mean `\bar{x}` or complement `\overline{A}` becomes a new symbol."""

from __future__ import annotations

from collections.abc import Iterable

from verigym.envs.math.build import rebuild
from verigym.envs.math.tree import Call, Constant, Node, Symbol, symbols, walk

COMPLEX_NAMES = frozenset("z w omega zeta".split())
"""Names, with or without an index, that stand for complex numbers if one of the two trees contains i or a function of complex
numbers."""
_COMPLEX_CALLS = frozenset(["re", "im", "conj", "arg", "abs"])
_AT_TIMES = COMPLEX_NAMES | {"alpha", "beta"}
_IMAGINARY = Constant("i")


def with_conjugates(a: Node, b: Node) -> tuple[Node, Node]:
    r"""Return the trees `a` and `b` with each bar that is no complex conjugate replaced by an unknown.

    A symbol with a bar, such as `\bar{x}`, becomes a new symbol; a bar over a formula becomes an unknown function. A bar is a
    conjugate, and stays, if a usual name of complex numbers is under it. If i occurs in `a` or `b`, all bars stay.
    """
    parts = [part for node in (a, b) for part in walk(node)]
    if not any(isinstance(part, Call) and part.name == "conj" for part in parts) or _IMAGINARY in parts:
        return a, b
    return rebuild(a, _barred), rebuild(b, _barred)


def _barred(part: Node) -> Node:
    match part:
        case Call("conj", (Symbol(name),)) if not _among((name,), _AT_TIMES):
            return Symbol(f"bar {name}")
        case Call("conj", (of,)) if symbols(of) and not _among(symbols(of), _AT_TIMES):
            return Call("bar", (of,))
    return part


def complex_names(a: Node, b: Node) -> frozenset[str]:
    """Return the symbols in the trees `a` and `b` that stand for complex numbers.

    These are the symbols under a conjugation bar. If the trees contain i or a function of complex numbers, the symbols with a
    usual name of complex numbers are included.
    """
    parts = [part for node in (a, b) for part in walk(node)]
    if not any(part == _IMAGINARY or (isinstance(part, Call) and part.name in _COMPLEX_CALLS) for part in parts):
        return frozenset()
    names = _among({part.name for part in parts if isinstance(part, Symbol)}, COMPLEX_NAMES)
    for part in parts:
        match part:
            case Call("conj", (Symbol(name),)):
                names.add(name)
            case Call("conj", (of,)):
                names |= _among(symbols(of), _AT_TIMES)
    return frozenset(names)


def _among(names: Iterable[str], stems: frozenset[str]) -> set[str]:
    """Return the names that are one of `stems`, with an index or without."""
    return {name for name in names if name.partition("_")[0] in stems}
