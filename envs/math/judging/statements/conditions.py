r"""Compares conditions after a formula: `f(x) = cx,\ c \in \mathbb{R}`, `x + 2, x \ne 2`, `f(x) = x \text{ for all } x`.

A condition is a membership, a bound or an exclusion of one name that occurs in the formula, or words that say what the name
ranges over. It follows a value or an equation, after a comma, in parentheses or after `for`, `where`, `with`.

A condition of the gold may be missing in the answer only if it says that a name is real, or an integer. If the gold has no
other conditions, the answer may add conditions that only say that the formula holds wherever it makes sense:
- it says that a name is real, or an integer;
- it says that a count begins at 0 or 1;
- its bound or excluded point is where a formula of the question or the answer is not defined (`x \ne 2` under `x - 2`);
- the question states it.

All other conditions are part of the claim, in the gold and in the answer.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from verigym.envs.math.build import ZERO, literal, rebuild
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.question import edges_of, formulas, mentions
from verigym.envs.math.judging.statements.statements import is_equation
from verigym.envs.math.tree import (
    Comparator,
    Group,
    Listing,
    Matrix,
    NamedSet,
    Node,
    Phrase,
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
    held = {condition for condition in wanted if not condition.free}
    if held and held != {condition for condition in given if not condition.free}:
        return gold, answer, integers
    if not held and not all(condition.free or _is_natural(condition, two, question) for condition in given):
        return gold, answer, integers
    return one, two, integers


def split(node: Node) -> tuple[Node, tuple[Condition, ...]]:
    """Split `node` into the claimed formula and the conditions on names in the formula.

    `node` itself and no conditions are returned if there are none, or if one of them is on a name that is not in the formula.
    """
    conditions: list[Condition] = []
    core = node
    while isinstance(core, Listing | Phrase):
        rest, condition = _last(core)
        if condition is None and isinstance(core, Listing) and isinstance(core.items[0], Phrase):
            rest, condition = _listed(core.items[1:], core), _condition(core.items[0])
        if rest is None or condition is None:
            break
        core = rest
        conditions.append(condition)
    return (core, tuple(conditions)) if conditions and all(_applies(one, core) for one in conditions) else (node, ())


def _last(node: Listing | Phrase) -> tuple[Node | None, Condition | None]:
    if isinstance(node, Listing):
        return _listed(node.items[:-1], node), _condition(node.items[-1])
    return node.parts[0], _spoken(node.parts[1:])


def _listed(items: tuple[Node, ...], node: Listing) -> Node | None:
    return None if not items else items[0] if len(items) == 1 else Listing(items, node.joiner)


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
        case Relation((bound, Symbol(name) as left), (sign,)) if sign in _MIRRORED and not symbols(bound):
            return Condition(name, Relation((left, bound), (_MIRRORED[sign],)))
        case Phrase(parts):
            return _spoken(parts)
    return None


def _spoken(parts: tuple[Node, ...]) -> Condition | None:
    """Read `for all n >= 1`, `where c is a constant`, `for some integer k`, `c is an integer`."""
    words = ""
    if isinstance(parts[0], Text):
        words = parts[0].words.strip(" ,").casefold()
        if not words or not _BEFORE.fullmatch(words):
            return None
        parts = parts[1:]
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


def _is_natural(condition: Condition, core: Node, question: str) -> bool:
    """Return whether a condition says no more than that the formula makes sense."""
    relation = condition.relation
    if relation is None or mentions(question, relation) or (condition.kind.isalpha() and condition.kind in question.lower()):
        return True
    sign, bound = relation.comparators[0], relation.sides[1]
    if sign == "in":
        return condition.kind in _WHOLE and condition.name in COUNTS
    value = rational(bound)
    if condition.name in COUNTS and any(sign == one and value == start for one, start in _STARTS):
        return True
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
