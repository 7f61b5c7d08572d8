r"""Names that a solver is free to choose: the constant of integration, the integer in `2k\pi`; and connectives that commute."""

from __future__ import annotations

from verigym.envs.maths.equality.rebuild import rebuild
from verigym.envs.maths.judging.question import mentions
from verigym.envs.maths.judging.unworked import claims
from verigym.envs.maths.tree import (
    Add,
    Call,
    Constant,
    Listing,
    Mul,
    NamedSet,
    Neg,
    Node,
    Number,
    Phrase,
    Relation,
    Symbol,
    Text,
    children,
    symbols,
    walk,
)  # fmt: skip

_CONSTANTS = frozenset(("C", "c", "K", "k", "C_1", "c_1", "C_0", "c_0"))
_FACTORS = _CONSTANTS | {"A"}
_INTEGERS = frozenset("k n m l j N K t r".split())
_COMMUTE = frozenset(("and", "or", "xor", "iff"))
_BEFORE = frozenset(("where", "for", "with", "and", "for any integer", "for some integer", "for all integers", "for integer",
                     "for each integer", "for every integer", "for integers", "for all integer", "where integer"))  # fmt: skip
_AFTER = frozenset(("is an integer", "is any integer", "is integer", "an integer", "any integer", "integer"))


def settled(gold: Node, answer: Node, question: str) -> tuple[Node, Node]:
    r"""Return both trees with the answer's free names as the gold's, and without `k \in \mathbb{Z}`."""
    gold, integers = _without_domain(_sorted(gold))
    answer, others = _without_domain(_sorted(answer))
    if symbols(gold) == symbols(answer):
        return gold, answer
    wanted, given = _names(gold, question), _names(answer, question)
    old, new = given - wanted, wanted - given
    if len(old) == len(new) == 1:
        (before,), (after,) = old, new
        if not mentions(question, Symbol(before)) and _is_free(gold, after, question, integers | others):
            if _is_parameter(gold, after, integers | others) and before in _INTEGERS:
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
    """Put what is joined by `and`, `or` and their like in one order."""
    if any(isinstance(part, Call) and part.name in _COMMUTE for part in walk(node)):
        return rebuild(node, _in_order)
    return node


def _in_order(part: Node) -> Node:
    if not isinstance(part, Call) or part.name not in _COMMUTE:
        return part
    args = [one for arg in part.args for one in (arg.args if isinstance(arg, Call) and arg.name == part.name else (arg,))]
    return Call(part.name, tuple(sorted(args, key=repr)))


def _without_domain(node: Node) -> tuple[Node, frozenset[str]]:
    r"""Split off that a name is an integer: `, k \in \mathbb{Z}`, `where k is an integer`."""
    if isinstance(node, Listing) and len(node.items) > 1:
        name = _integer(node.items[-1])
        rest = node.items[:-1]
        if name and all(name in symbols(item) for item in rest) and not _bounds(rest, name):
            return (rest[0] if len(rest) == 1 else Listing(rest, node.joiner)), frozenset((name,))
    if isinstance(node, Phrase) and len(node.parts) > 1:
        value, *words = node.parts
        name = _spoken_integer(words)
        if name and name in symbols(value) and not _bounds((value,), name):
            return value, frozenset((name,))
    return node, frozenset()


def _bounds(nodes: tuple[Node, ...], name: str) -> bool:
    """Whether a name is what a set is of: `1 < x < 3` for integers x is another set."""
    return any(
        isinstance(part, Relation) and Symbol(name) in part.sides and set(part.comparators) != {"="}
        for node in nodes
        for part in walk(node)
    )


def _integer(node: Node) -> str:
    match node:
        case Relation((Symbol(name), NamedSet("Z") | Symbol("Z")), ("in",)):
            return name
        case Phrase((Symbol(name), Text(words))) if words.casefold() in _AFTER:
            return name
        case Phrase((Text(), *_)):
            return _spoken_integer(list(node.parts))
    return ""


def _spoken_integer(words: list[Node]) -> str:
    if isinstance(words[0], Text) and words[0].words.strip(" ,").casefold() in _BEFORE:
        spoken = words[0].words.strip(" ,").casefold()
        words = words[1:]
        if len(words) == 1 and isinstance(words[0], Symbol) and "integer" in spoken:
            return words[0].name
    if len(words) == 1:
        return _integer(words[0])
    return _integer(Phrase(tuple(words))) if len(words) == 2 and isinstance(words[0], Symbol) else ""


def _is_free(gold: Node, name: str, question: str, integers: frozenset[str]) -> bool:
    """Whether the gold chose the name itself: C always, another letter where the question does not speak of it."""
    return name[0] == "C" or name in integers or not mentions(question, Symbol(name))


def _is_parameter(gold: Node, name: str, integers: frozenset[str]) -> bool:
    r"""Whether a name counts periods: it is said to be an integer, or stands in a product with pi."""
    if name not in _INTEGERS:
        return False
    return bool(integers) or any(
        isinstance(part, Mul)
        and Symbol(name) in part.factors
        and Constant("pi") in part.factors
        and all(isinstance(factor, Number | Constant | Symbol) for factor in part.factors)
        for part in walk(gold)
    )


def _is_added(node: Node, name: str, question: str) -> bool:
    """Whether a name stands once in a tree, as a term of the sum that is claimed."""
    if name not in _CONSTANTS or sum(part == Symbol(name) for part in walk(node)) != 1:
        return False
    values = [sides[-1] for sides in claims(node, question)]
    return len(values) == 1 and isinstance(values[0], Add) and any(_is_term(term, name) for term in values[0].terms)


def _is_factor(node: Node, name: str, question: str) -> bool:
    """Whether a name stands once in a tree, as a factor of the product that is claimed: y = Ce^{2x}."""
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
