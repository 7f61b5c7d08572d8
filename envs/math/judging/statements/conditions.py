r"""Compares conditions after a formula: `f(x) = cx,\ c \in \mathbb{R}`, `x + 2, x \ne 2`, `f(x) = x \text{ for all } x`.

A condition is a membership, a bound or an exclusion of one name that occurs in the formula, or words that say what the name
ranges over. It follows a value or an equation, after a comma, in parentheses or after `for`, `where`, `with`.

A condition of the gold may be missing in the answer only if it says that a name is real, or an integer, or that the index of a
sequence is a natural number. If the gold has no other conditions, the answer may add conditions that only say that the formula
holds wherever it makes sense:
- it says that a name is real, or an integer;
- it says that a count begins at 0 or 1, and the gold does not say that it is any integer;
- its bound or excluded point is where a formula of the question or the answer is not defined (`x \ne 2` under `x - 2`);
- the question states it, or is about positive numbers of this kind.

All other conditions are part of the claim, in the gold and in the answer.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from verigym.envs.math.build import ZERO, literal, rebuild
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.question import edges_of, formulas, mentions, speaks_of
from verigym.envs.math.judging.statements.statements import is_equation
from verigym.envs.math.tree import (
    Call,
    Comparator,
    Constant,
    Ellipsis,
    Group,
    Listing,
    Matrix,
    Mul,
    NamedSet,
    Node,
    Number,
    Phrase,
    PlusMinus,
    Relation,
    SetBuilder,
    SetOp,
    Symbol,
    Text,
    symbols,
    walk,
)  # fmt: skip

COUNTS = frozenset("k n m l j N K t r".split())
"""Names that count: periods, terms, roots."""
_MIRRORED: dict[Comparator, Comparator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
_STARTS = ((">=", 0), (">=", 1), (">", 0), (">", -1))
_RANGE = "real|complex|integers?|constants?|numbers?|natural|positive|non-?negative|values?|parameters?|arbitrary|fixed"
_BEFORE = re.compile(rf"(?:where|for|with|and|when|if|forall)?(?: ?\b(?:all|any|every|each|some|an?|of|{_RANGE}))*")
_AFTER = re.compile(rf"(?:(?:is|are|be) )?(?:an?y? )?(?:{_RANGE})(?: (?:{_RANGE}))*")
_POSITIVE = re.compile(r"([RQZN])[\^_]\{?(?:\+|>0)\}?|positive")
_WHOLE = frozenset(("Z", "N", "Z^+", "Z_+", "N^+", "N^*", "N_+", "Z_{+}", "Z^*"))


class Condition(NamedTuple):
    """A condition on one name, such as `k >= 0` or "k is an integer".

    The name is the left side of `relation`. `relation` is None if the name may have every integer value (kind "integer") or
    every value (kind "").
    """

    name: str
    relation: Relation | None
    kind: str = ""

    @property
    def free(self) -> bool:
        """Whether the condition allows the name every real value, or every integer."""
        return self.relation is None and self.kind in ("", "integer")


def without_conditions(gold: Node, answer: Node, question: str) -> tuple[Node, Node, frozenset[str]]:
    """Return both trees without conditions that can be taken for granted, and the names that a condition says are integers.

    Args:
        gold: the correct answer.
        answer: the answer to judge.
        question: the task's text.
    """
    (one, wanted), (two, given) = split(gold), split(answer)
    integers = frozenset(condition.name for condition in (*wanted, *given) if condition.kind == "integer")
    if not wanted and not given:
        return gold, answer, integers
    held = {condition for condition in wanted if not (condition.free or _is_index(condition, one))}
    if held and held != {condition for condition in given if not (condition.free or _is_index(condition, two))}:
        return gold, answer, integers
    every = any(condition.kind == "integer" for condition in wanted)
    periods = frozenset() if wanted or every else _periods(one, question)
    for condition in () if held else given:
        if not (condition.free or _is_natural(condition, two, question, every or condition.name in periods)):
            return gold, answer, integers
    return one, two, integers


def split(node: Node) -> tuple[Node, tuple[Condition, ...]]:
    """Split `node` into the claimed formula and the conditions on names in the formula.

    `node` itself and no conditions are returned if there are none, or if one of them is on a name that is not in the formula.
    """
    if not isinstance(node, Listing | Phrase):
        return node, ()
    items, conditions = _cut(_clauses(node))
    while items and isinstance(items[0], Phrase) and (condition := _condition(items[0])):  # for all c, f(x) = cx
        items, conditions = items[1:], [*conditions, condition]
    left = any(isinstance(item, Phrase) and isinstance(item.parts[0], Text) for item in items)  # of some elements only
    if not items or not conditions or left:
        return node, ()
    core = items[0] if len(items) == 1 else Listing(items, node.joiner if isinstance(node, Listing) else "comma")
    names = [condition.name for condition in conditions]
    once = len(set(names)) == len(names)
    return (core, tuple(conditions)) if once and all(_applies(one, core) for one in conditions) else (node, ())


def _clauses(node: Node) -> tuple[Node, ...]:
    """Return the elements of a list; what is said of an element, as in `f(x) = cx for all c`, is one by itself."""
    if isinstance(node, Listing):
        return tuple(clause for item in node.items for clause in _clauses(item))
    if isinstance(node, Phrase) and len(node.parts) > 1 and not isinstance(node.parts[0], Text):
        first, *rest = node.parts
        if len(rest) == 1 and isinstance(rest[0], Relation | Group):  # x^2 (x > 0)
            return *_clauses(first), rest[0]
        if _spoken(tuple(rest)) or (len(rest) > 1 and isinstance(rest[0], Text) and _begins(rest[0])):
            return *_clauses(first), rest[0] if len(rest) == 1 else Phrase(tuple(rest))
    return (node,)


def _cut(items: tuple[Node, ...]) -> tuple[tuple[Node, ...], list[Condition]]:
    """Return the elements before the last conditions, and the conditions."""
    conditions: list[Condition] = []
    while items:
        items, found = _last(items)
        if not found:
            break
        conditions += found
    return items, conditions


def _last(items: tuple[Node, ...]) -> tuple[tuple[Node, ...], list[Condition]]:
    r"""Return the elements before the last condition, and this for each of its names: `a, b \in R`, `for constants a, b`."""
    if counted := _counted(items):
        return counted
    last = items[-1]
    if isinstance(last, Group) and last.opening == "(":
        rest, conditions = _cut(last.items)
        return (items[:-1], conditions) if not rest else (items, [])
    condition = _condition(last)
    rest = items if condition is None else items[:-1]
    names: list[str] = []
    shared = condition is None or condition.relation is None or condition.relation.sides[0] == Symbol(condition.name)
    while shared and rest and isinstance(rest[-1], Symbol) and rest[-1].name not in (*names, condition and condition.name):
        names.append(rest[-1].name)
        rest = rest[:-1]
    match rest[-1:]:
        case (Phrase((Text() as words, Symbol(name))),) if _begins(words) and shared and (names or condition):
            condition = condition or _ranging(name, _said(words))
            names.append(name)
            rest = rest[:-1]
    if condition is None:
        return items, []
    return rest, [condition, *(_of(condition, name) for name in names if name != condition.name)]


def _of(condition: Condition, name: str) -> Condition:
    """Return the same condition on another name."""
    if condition.relation is None:
        return condition._replace(name=name)
    relation = Relation((Symbol(name), *condition.relation.sides[1:]), condition.relation.comparators)
    return condition._replace(name=name, relation=relation)


def _counted(items: tuple[Node, ...]) -> tuple[tuple[Node, ...], list[Condition]] | None:
    r"""Read a count at the end, `k = 0, 1, 2, \ldots` or `k = 0, \pm 1, \pm 2, \ldots`."""
    if items[-1] != Ellipsis():
        return None
    start = next((at for at in range(len(items) - 2, -1, -1) if not isinstance(items[at], Number | PlusMinus)), 0)
    first = items[start]
    if isinstance(first, Phrase) and isinstance(first.parts[0], Text) and len(first.parts) == 2 and _begins(first.parts[0]):
        first = first.parts[1]
    match first:
        case Relation((Symbol(name), bound), ("=",)):
            more = items[start + 1 : -1]
            signed = all(isinstance(item, PlusMinus) for item in more)
            begin = rational(bound)
            values = [rational(item.of if isinstance(item, PlusMinus) else item) for item in more]
            if begin is None or not values or values != [begin + step for step in range(1, len(values) + 1)]:
                return None
            if not signed:
                return items[:start], [Condition(name, Relation((Symbol(name), bound), (">=",)))]
            if begin == 0:
                return items[:start], [Condition(name, None, "integer")]
    return None


def _condition(node: Node) -> Condition | None:
    match node:
        case Relation((Symbol(name), NamedSet("Z") | Symbol("Z")), ("in",)):
            return Condition(name, None, "integer")
        case Relation((Symbol(name), NamedSet("R" | "C")), ("in",)):
            return Condition(name, None)
        case Relation((Symbol(name), NamedSet() | Symbol() as where), ("in",)):
            return Condition(name, node, where.name)
        case Relation((Symbol(name), bound), (sign,)) if sign in _MIRRORED and not symbols(bound):
            return Condition(name, node)
        case Relation((low, Symbol(name), high), (_, _)) if _is_between(node) and not symbols(low) | symbols(high):
            return Condition(name, node)
        case Relation((bound, Symbol(name) as left), (sign,)) if sign in _MIRRORED and not symbols(bound):
            return Condition(name, Relation((left, bound), (_MIRRORED[sign],)))
        case Relation((Call("abs", (Symbol(name),)), bound), (sign,)) if sign in _MIRRORED and not symbols(bound):
            return Condition(name, node)
        case Phrase(parts):
            return _spoken(parts)
    return None


def _is_between(node: Node) -> bool:
    return isinstance(node, Relation) and set(node.comparators) in ({"<"}, {"<="}, {"<", "<="})


def _said(words: Text) -> str:
    return words.words.strip(" ,").casefold()


def _begins(words: Text) -> bool:
    """Whether words begin a condition, such as `for all`."""
    return bool(_said(words)) and _BEFORE.fullmatch(_said(words)) is not None


def _spoken(parts: tuple[Node, ...]) -> Condition | None:
    """Read `for all n >= 1`, `where c is a constant`, `for some integer k`, `c is an integer`."""
    words = ""
    if isinstance(parts[0], Text):
        if not _begins(parts[0]):
            return None
        words, parts = _said(parts[0]), parts[1:]
        if len(parts) == 1 and isinstance(parts[0], Phrase):
            parts = parts[0].parts
    match parts:
        case (Symbol(name),) if words:
            return _ranging(name, words)
        case (Symbol(name), Text(phrase)) if _AFTER.fullmatch(phrase.strip(" ,.").casefold()):
            return _ranging(name, f"{words} {phrase.casefold()}")
        case (Relation() as relation,) if words:
            return _condition(relation)
    return None


def _ranging(name: str, words: str) -> Condition:
    narrows = re.search(r"positive|non-?negative|natural", words)
    if narrows:
        return Condition(name, Relation((Symbol(name), ZERO), (">=" if "neg" in narrows.group() else ">",)), narrows.group())
    return Condition(name, None, "integer" if "integer" in words else "")


def _applies(condition: Condition, core: Node) -> bool:
    """Return whether a formula says something of a name, and is no set of its values, which a condition would narrow."""
    items = core.items if isinstance(core, Listing) else (core,)
    if not any(condition.name in symbols(item) for item in items):
        return False
    if condition.free:
        name = Symbol(condition.name)
        return not any(isinstance(part, Relation) and name in part.sides and not is_equation(part) for part in walk(core))
    return all(map(_is_formula, items)) and not any(_is_solved_for(condition.name, item) for item in items)


def _is_formula(node: Node) -> bool:
    if isinstance(node, Relation):
        return is_equation(node)
    return not isinstance(node, Group | Listing | SetOp | SetBuilder | NamedSet | Text | Phrase | Matrix)


def _is_solved_for(name: str, item: Node) -> bool:
    if not isinstance(item, Relation):
        return False
    return any(side == Symbol(name) and not any(name in symbols(other) for other in item.sides if other != side)
               for side in item.sides)  # fmt: skip


def _is_index(condition: Condition, core: Node) -> bool:
    """Return whether a condition says that the index of a sequence is a natural number: `a_n = 2^n, n >= 1`."""
    indexed = [side for side in core.sides if isinstance(side, Symbol)] if isinstance(core, Relation) else []
    if not any(side.name.endswith((f"_{condition.name}", f"_{{{condition.name}}}")) for side in indexed):
        return False
    relation = condition.relation
    return condition.kind in _WHOLE or (relation is not None and len(relation.sides) == 2 and _is_start(relation))


def _is_domain(condition: Condition, question: str) -> bool:
    """Return whether a condition says that a name is positive, where the question is about positive numbers of this kind."""
    relation = condition.relation
    over = _POSITIVE.fullmatch(condition.kind)
    if over is None and (relation is None or relation.comparators != (">",) or rational(relation.sides[1]) != 0):
        return False
    words, letters = {"Q": ("rational", "Q"), "Z": ("integer", "Z"), "N": ("integer", "ZN")}.get(
        (over[1] if over else "") or "R", ("(?:real|rational|integer)", "RQZ")
    )
    sets = rf"\\mathbb *\{{?[{letters}]\}}? *[\^_] *\{{? *(?:\+|> *0)"
    return re.search(rf"positive {words}|{sets}", question) is not None


def _periods(core: Node, question: str) -> frozenset[str]:
    r"""Return the names that count periods, and so are any integer: factors of pi that the question does not speak of."""
    products = [part for part in walk(core) if isinstance(part, Mul) and Constant("pi") in part.factors]
    names = frozenset(name for part in products for name in symbols(part)) & COUNTS
    return frozenset(name for name in names if not speaks_of(question, name))


def _is_start(relation: Relation) -> bool:
    value = rational(relation.sides[1])
    return any(relation.comparators[0] == one and value == start for one, start in _STARTS)


def _is_natural(condition: Condition, core: Node, question: str, every: bool) -> bool:
    """Return whether a condition says no more than that the formula makes sense; `every`: the gold has every integer."""
    relation = condition.relation
    if (
        relation is None
        or mentions(question, relation)
        or _is_domain(condition, question)
        or (condition.kind.isalpha() and condition.kind in question.lower())
    ):
        return True
    if len(relation.sides) > 2:
        return False
    sign, bound = relation.comparators[0], relation.sides[1]
    counts = condition.name in COUNTS and not every and not (condition.name in "rt" and speaks_of(question, condition.name))
    if sign == "in":
        return condition.kind in _WHOLE and counts
    if isinstance(relation.sides[0], Call):
        return False  # |r| < 1, which the question does not state
    if counts and _is_start(relation):
        return True
    value = rational(bound)
    if value is None:
        return False
    # A divisor excludes a point; a root or a logarithm begins there, on the side where what it is of is positive.
    beyond = value + (1 if sign in (">", ">=") else -1)
    for edge, bounds in (edge for tree in (*formulas(question).trees, core) for edge in edges_of(tree)):
        if bounds is not (sign == "!=") and condition.name in symbols(edge) and _at(edge, condition.name, value) == 0:
            inside = _at(edge, condition.name, beyond) if bounds else None
            if not bounds or (inside is not None and inside > 0):
                return True
    return False


def _at(edge: Node, name: str, value: Fraction) -> Fraction | None:
    return rational(rebuild(edge, lambda part: literal(value) if part == Symbol(name) else part))
