r"""Which names stand for unknown functions: the y of `\frac{dy}{dx}`, the a_n of `\sum a_n`.

Taken for constants, they would make statements true that are not: every `\frac{dy}{dx}` would be zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from verigym.envs.math.tree import Call, Node, Symbol, symbols

_FUNCTIONS = frozenset("f g h F G H y u v".split())
"""Names that by themselves mean a function of the variable of an integral or a limit."""
_CONSTANTS = frozenset("a b c k m n p q A B C alpha beta gamma lambda mu omega phi theta".split())
"""Names that mean constants in what is derived, unless they are derived themselves: `\frac{da}{dt}`."""


def dependents(parts: Iterable[Node]) -> dict[str, frozenset[str]]:
    r"""Return the names that are functions, and of which variables, by the derivatives among the nodes of trees.

    What is derived and derived by (`\frac{dy}{dx}` beside `\frac{dx}{dy}`) is a function of nothing that could be named.
    """
    found: dict[str, frozenset[str]] = {}
    variables: set[str] = set()
    derived: set[str] = set()
    for part in parts:
        if not isinstance(part, Call) or part.name != "diff" or len(part.args) != 2 or not isinstance(part.args[1], Symbol):
            continue
        body, variable = part.args[0], part.args[1].name
        variables.add(variable)
        names = symbols(body) - {variable}
        derived.update({body.name} - {variable} if isinstance(body, Symbol) else ())
        for name in names if isinstance(body, Symbol) else names - _CONSTANTS:
            found[name] = found.get(name, frozenset()) | {variable}
    return {name: frozenset() if name in variables else of for name, of in found.items() if name not in variables - derived}


def hidden(body: Node, variable: str, bound: Collection[str]) -> bool:
    """Whether what is summed, integrated or has a limit holds a name that depends on the variable without saying how."""
    return any(
        name != variable
        and name not in bound
        and (name in _FUNCTIONS or variable in name.partition("_")[2].strip("{}").replace(",", ""))
        for name in symbols(body)
    )
