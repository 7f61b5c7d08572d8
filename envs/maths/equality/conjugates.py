r"""Bars: `\bar{z}` is a conjugate, but `\bar{x}` a mean and `\overline{A}` a complement, which must not vanish."""

from __future__ import annotations

from verigym.envs.maths.equality.rebuild import rebuild
from verigym.envs.maths.tree import Call, Constant, Node, Symbol, symbols, walk

COMPLEX_NAMES = frozenset("z w omega zeta".split())
"""Names of complex numbers, where i or a function of complex numbers occurs."""
_AT_TIMES = COMPLEX_NAMES | {"alpha", "beta"}
_IMAGINARY = Constant("i")


def with_conjugates(a: Node, b: Node) -> tuple[Node, Node]:
    r"""Return both trees with the bars over real names as unknowns of their own.

    `\bar{x}` becomes a symbol, and a bar over a formula an unknown function, unless i or a name of complex numbers occurs.
    """
    parts = [part for node in (a, b) for part in walk(node)]
    if not any(isinstance(part, Call) and part.name == "conj" for part in parts) or _IMAGINARY in parts:
        return a, b
    return rebuild(a, _barred), rebuild(b, _barred)


def _barred(part: Node) -> Node:
    match part:
        case Call("conj", (Symbol(name),)) if name not in _AT_TIMES:
            return Symbol(f"bar {name}")
        case Call("conj", (of,)) if (names := symbols(of)) and not names & _AT_TIMES:
            return Call("bar", (of,))
    return part


def complex_names(a: Node, b: Node) -> frozenset[str]:
    """Return the symbols that may stand for complex numbers: by their names, or because they are conjugated."""
    found = {part.name for node in (a, b) for part in walk(node) if isinstance(part, Symbol)} & COMPLEX_NAMES
    for node in (a, b):
        for part in walk(node):
            match part:
                case Call("conj", (Symbol(name),)):
                    found.add(name)
                case Call("conj", (of,)):
                    found |= symbols(of) & _AT_TIMES
    return frozenset(found)
