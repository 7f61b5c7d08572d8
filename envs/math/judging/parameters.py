r"""Unifies freely chosen names, such as a constant of integration or the k in `2k\pi`, and the order around `and` and `or`.

A family is the same whatever its parameters are called and wherever they are counted from: `(t, 2t)` for `(k, 2k)`, `f(x) = ax`
for `f(x) = cx`, `-n\pi` for `k\pi`, `\frac{(x+1)^2}{2} + C` for `\frac{x^2}{2} + x + C`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations

from verigym.envs.math.build import literal, minus, negative, rebuild
from verigym.envs.math.judging.guards.unworked import claims
from verigym.envs.math.judging.question import mentions, speaks_of
from verigym.envs.math.judging.statements.conditions import COUNTS, without_conditions
from verigym.envs.math.judging.statements.statements import is_equation
from verigym.envs.math.tree import (
    FUNCTIONS,
    Add,
    Call,
    Constant,
    Group,
    Listing,
    Mul,
    Neg,
    Node,
    Number,
    Relation,
    Symbol,
    children,
    symbols,
    walk,
)  # fmt: skip

_CONSTANTS = frozenset(("C", "c", "K", "k", "C_1", "c_1", "C_0", "c_0"))
_FACTORS = _CONSTANTS | {"A"}
_COMMUTE = frozenset(("and", "or", "xor", "iff"))
_FREE = re.compile(r"[A-DKa-dk](?:_(?:[0-9]|\{[0-9]\}))?")
_PERIODS = frozenset("klmn")
MAX_CONSTANTS = 3
_POINTS = (Fraction(1, 3), Fraction(7, 3), Fraction(-5, 3))


def settled(gold: Node, answer: Node, question: str) -> Iterator[tuple[Node, Node]]:
    """Yield pairs of the two trees to be compared, without implied conditions and with freely chosen names unified.

    A freely chosen name in `answer`, such as a constant of integration, is replaced by the gold's name. If there are several
    arbitrary constants, the pairs after the first assign the gold's names to them in other orders.
    """
    gold, answer, integers = without_conditions(_sorted(gold), _sorted(answer), question)
    pair = _renamed(gold, answer, question, integers)
    yield pair
    for names in (*_renamings(gold, answer, question), *_family_renamings(gold, answer, question)):
        yield gold, rebuild(answer, lambda part, names=names: names.get(part, part))  # type: ignore[misc]
    yield from _increases(*pair, question)
    for start in _starts(*pair, question, integers):
        yield gold, rebuild(pair[1], lambda part, start=start: start.get(part, part))  # type: ignore[misc]


def _family_renamings(gold: Node, answer: Node, question: str) -> Iterator[dict[Node, Node]]:
    """Yield assignments of the gold's names to the parameters of a family: a tuple in one letter, or a function of x."""
    wanted, given = _parameters(gold, question), _parameters(answer, question)
    old, new = sorted(given - wanted), sorted(wanted - given)
    if old and len(given) == len(wanted) <= MAX_CONSTANTS:
        for order in permutations(new):
            yield {Symbol(before): Symbol(after) for before, after in zip(old, order, strict=True)}


def _parameters(node: Node, question: str) -> frozenset[str]:
    """Return the names in a claim that can only be parameters, because the question does not speak of them."""
    sides = [side for claim in claims(node, question) for side in claim]
    match node:
        case Relation((Call(name, (Symbol(of),)), *values), _) if name not in FUNCTIONS and is_equation(node):
            names = frozenset[str]().union(*map(symbols, values)) - {of}  # f(x) = ax + b
            if not any(of in symbols(value) for value in values):
                return frozenset()
        case Group(_, _, parts) if len(parts) > 1:
            names = frozenset[str]().union(*map(symbols, sides))  # (k, 2k)
            if len(names) != 1 or sum(bool(symbols(part)) for part in parts) < 2:
                return frozenset()
        case _:
            names = frozenset[str]().union(*map(symbols, sides))  # 2^k
            if len(names) != 1 or not names <= COUNTS:
                return frozenset()
    return frozenset(name for name in names if not speaks_of(question, name))


def _increases(gold: Node, answer: Node, question: str) -> Iterator[tuple[Node, Node]]:
    """Yield two antiderivatives without their constants, which make good for any constant between them.

    What is yielded is by how much each increases from a point; there are several, as not every formula is defined at each.
    """
    bodies, names = [], set()
    for node in (gold, answer):
        claimed = list(claims(node, question))
        constants = [name for name in _CONSTANTS if _is_added(node, name, question)]
        if len(constants) != 1 or not _is_free(gold, constants[0], question, frozenset()) or len(claimed[0]) != 1:
            return
        (value,) = claimed[0]
        if not isinstance(value, Add):
            return
        rest = tuple(term for term in value.terms if not _is_term(term, constants[0]))
        bodies.append(rest[0] if len(rest) == 1 else Add(rest))
        names.add(symbols(bodies[-1]))
    (common,) = names if len(names) == 1 else (frozenset[str](),)
    if len(common) != 1:
        return
    (name,) = common
    for start in _POINTS:
        yield _increase(bodies[0], name, start), _increase(bodies[1], name, start)


def _increase(body: Node, name: str, start: Fraction) -> Node:
    return minus(body, rebuild(body, lambda part: literal(start) if part == Symbol(name) else part))


def _starts(gold: Node, answer: Node, question: str, integers: frozenset[str]) -> Iterator[dict[Node, Node]]:
    """Yield other ways to count periods: k may be -k, k + 1 or k - 1 as well."""
    names = _names(gold, question)
    inside = frozenset(name for part in walk(gold) if isinstance(part, Call) for name in symbols(part))  # a time, not a count
    for name in sorted(names & _names(answer, question) & _PERIODS - inside) if len(names) == 1 else ():
        if _is_parameter(gold, name, integers) and not speaks_of(question, name):
            one, count = Number(Fraction(1)), Symbol(name)
            for other in (negative(count), minus(count, one), minus(count, negative(one))):
                yield {count: other}


def _renamings(gold: Node, answer: Node, question: str) -> Iterator[dict[Node, Node]]:
    """Yield assignments of the gold's names to two or three constants: `Ae^x + Be^{-x}` for `C_1e^x + C_2e^{-x}`."""
    wanted = _constants(gold, question)
    given = _constants(answer, question) if 2 <= len(wanted) <= MAX_CONSTANTS else ()
    if not given or len(wanted) != len(given):
        return
    for order in permutations(wanted):
        if order != given:
            yield {Symbol(old): Symbol(new) for old, new in zip(given, order, strict=True)}


def _constants(node: Node, question: str) -> tuple[str, ...]:
    """Return the names in a claimed sum that can only be arbitrary constants.

    Each is a factor of one term or a term, once; the question speaks of none; and beside them there is a variable, for
    `2A + 3B` is a formula of two quantities.
    """
    if isinstance(node, Group | Listing):
        return ()
    values = [sides[-1] for sides in claims(node, question)]
    if len(values) != 1 or not isinstance(values[0], Add):
        return ()
    names: list[str] = []
    for term in values[0].terms:
        term = term.of if isinstance(term, Neg) else term
        factors = term.factors if isinstance(term, Mul) else (term,)
        names += [one.name for one in factors if isinstance(one, Symbol) and _FREE.fullmatch(one.name)]
    once = all(sum(part == Symbol(name) for part in walk(node)) == 1 for name in names)
    if not once or any(speaks_of(question, name) for name in names) or not symbols(values[0]) - set(names):
        return ()
    return tuple(sorted(names))


def _renamed(gold: Node, answer: Node, question: str, integers: frozenset[str]) -> tuple[Node, Node]:
    """Return both trees with the answer's only free name replaced by the gold's."""
    if symbols(gold) == symbols(answer):
        return gold, answer
    wanted, given = _names(gold, question), _names(answer, question)
    old, new = given - wanted, wanted - given
    if len(old) == len(new) == 1:
        (before,), (after,) = old, new
        if not mentions(question, Symbol(before)) and _is_free(gold, after, question, integers):
            if _is_parameter(gold, after, integers) and before in COUNTS:
                return gold, rebuild(answer, lambda part: Symbol(after) if part == Symbol(before) else part)
            if before in _CONSTANTS and _is_added(gold, after, question) and _is_added(answer, before, question):
                return gold, rebuild(answer, lambda part: _replaced(part, before, after))
            if before in _FACTORS and _is_factor(gold, after, question) and _is_factor(answer, before, question):
                return gold, rebuild(answer, lambda part: Symbol(after) if part == Symbol(before) else part)
    return gold, answer


def _names(node: Node, question: str) -> frozenset[str]:
    """Return the names in the values that are claimed: not the x of x = 5."""
    return frozenset(name for sides in claims(node, question) for side in sides for name in symbols(side))


def _sorted(node: Node) -> Node:
    """Sort the arguments of commuting connectives (`and`, `or`, `xor`, `iff`)."""
    if any(isinstance(part, Call) and part.name in _COMMUTE for part in walk(node)):
        return rebuild(node, _in_order)
    return node


def _in_order(part: Node) -> Node:
    if not isinstance(part, Call) or part.name not in _COMMUTE:
        return part
    args = [one for arg in part.args for one in (arg.args if isinstance(arg, Call) and arg.name == part.name else (arg,))]
    return Call(part.name, tuple(sorted(args, key=repr)))


def _is_free(gold: Node, name: str, question: str, integers: frozenset[str]) -> bool:
    """Return whether the gold chose a name freely: C always, other letters if the question does not mention them."""
    return name[0] == "C" or name in integers or not mentions(question, Symbol(name))


def _is_parameter(gold: Node, name: str, integers: frozenset[str]) -> bool:
    r"""Whether a name counts periods: it is said to be an integer, or stands in a product with pi."""
    if name not in COUNTS:
        return False
    return bool(integers) or any(
        isinstance(part, Mul)
        and Symbol(name) in part.factors
        and Constant("pi") in part.factors
        and all(isinstance(factor, Number | Constant | Symbol) for factor in part.factors)
        for part in walk(gold)
    )


def _is_added(node: Node, name: str, question: str) -> bool:
    """Return whether a name stands once in a tree, as a term of the sum that is claimed."""
    if name not in _CONSTANTS or sum(part == Symbol(name) for part in walk(node)) != 1:
        return False
    values = [sides[-1] for sides in claims(node, question)]
    return len(values) == 1 and isinstance(values[0], Add) and any(_is_term(term, name) for term in values[0].terms)


def _is_factor(node: Node, name: str, question: str) -> bool:
    """Return whether a name stands once in a tree, as a factor of the product that is claimed: y = Ce^{2x}."""
    if name not in _FACTORS or sum(part == Symbol(name) for part in walk(node)) != 1:
        return False
    values = [sides[-1] for sides in claims(node, question)]
    return len(values) == 1 and isinstance(values[0], Mul) and Symbol(name) in values[0].factors and len(symbols(values[0])) > 1


def _is_term(term: Node, name: str) -> bool:
    return (term.of if isinstance(term, Neg) else term) == Symbol(name)


def _replaced(part: Node, before: str, after: str) -> Node:
    if isinstance(part, Add) and any(_is_term(term, before) for term in children(part)):
        return Add(tuple(Symbol(after) if _is_term(term, before) else term for term in part.terms))
    return part
