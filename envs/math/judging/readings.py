r"""Reads a tree as a list of values with their names: `x = 1, 2`, `a = 4, b = 5`, `x \in {1, 2}`, `1 \pm \sqrt{2}`."""

from __future__ import annotations

from typing import NamedTuple

from verigym.envs.math.build import expand_plus_minus, single
from verigym.envs.math.judging.names import is_name, split_names
from verigym.envs.math.judging.statements.statements import is_equation
from verigym.envs.math.tree import Group, Listing, NamedSet, Node, PlusMinus, Relation, walk

_SETS = ("{", "tex{")


class Item(NamedTuple):
    r"""One value that an answer claims, with its name and the sides of its chain of equations.

    `x = 2 + 3 = 5` has the name x and two sides. Sides after an approximate equals sign are in `rounded`: 1.4 in
    `x \approx 1.4`.
    """

    node: Node
    name: Node | None = None
    sides: tuple[Node, ...] = ()
    rounded: tuple[Node, ...] = ()

    @property
    def value(self) -> Node:
        """The value claimed: the last side, if the item is a chain of equations."""
        return (self.sides or self.rounded)[-1]


class Reading(NamedTuple):
    """The list of values that an answer gives, and the brackets around them: none, set braces, or TeX's own braces."""

    items: tuple[Item, ...]
    brackets: str = ""
    joiner: str = "comma"


def read(node: Node, question: str = "") -> Reading:
    """Return the values that `node` lists. A tuple, an interval, a matrix or a statement is one value.

    `question` decides which sides of equations are names; see `is_name`.
    """
    if not (isinstance(node, Group) and node.opening == "{" and len(node.items) == 1 and _is_set(node.items[0])):
        node = single(node)
    if isinstance(node, Listing):
        return Reading(_named_alike([item for part in node.items for item in _items(part, question)]), "", node.joiner)
    if isinstance(node, Group) and node.opening in _SETS:
        return Reading(_elements(node, question), node.opening)
    inner = _named_set(node, question)
    if inner is not None:
        name, group = inner
        items = _elements(group, question)
        return Reading(tuple(item._replace(name=item.name or name) for item in items), group.opening)
    return Reading(_items(node, question))


def _is_set(node: Node) -> bool:
    return node == NamedSet("empty") or (isinstance(node, Group) and node.opening == "{")


def is_singleton(node: Node) -> bool:
    """Return whether `node`, an element of a set, is itself a set of one element."""
    return isinstance(node, Group) and node.opening == "{" and len(node.items) == 1


def _elements(group: Group, question: str) -> tuple[Item, ...]:
    """Return the elements of a set; those that are sets of one element stay sets."""
    return tuple(
        item
        for part in group.items
        for item in ((Item(part, None, (part,)),) if is_singleton(part) else _items(part, question))
    )


def _named_set(node: Node, question: str) -> tuple[Node, Group] | None:
    """Split `x = {1, 2}` and `x in {1, 2}`."""
    if isinstance(node, Relation) and node.comparators in (("=",), ("in",)):
        name, group = node.sides
        if isinstance(group, Group) and group.opening in _SETS and is_name(name, question):
            return name, group
    return None


def _items(node: Node, question: str) -> tuple[Item, ...]:
    if isinstance(node, Listing):
        return _named_alike([item for part in node.items for item in _items(part, question)])
    branches: tuple[Node, ...] = (node,)
    if any(isinstance(part, PlusMinus) for part in walk(node)):
        branches = expand_plus_minus(node)
    return tuple(dict.fromkeys(_item(single(branch), question) for branch in branches))


def _item(node: Node, question: str) -> Item:
    if not isinstance(node, Relation) or not is_equation(node):
        return Item(node, None, (node,))
    first = node.comparators.index("approx") + 1 if "approx" in node.comparators else len(node.sides)
    # What follows the first rounded side is rounded too.
    name, sides = split_names(node.sides, question)
    cut = first if name is None or name is not node.sides[0] else first - 1
    return Item(node, name, tuple(map(single, sides[:cut])), tuple(map(single, sides[cut:])))


def _named_alike(items: list[Item]) -> tuple[Item, ...]:
    """Give unnamed values the name of the value before them: `x = 1, 2`."""
    named = [item.name is not None for item in items]
    if len(items) > 1 and named[0] and not any(named[1:]):
        return tuple(item._replace(name=items[0].name) for item in items)
    return tuple(items)


def cycles(reading: Reading) -> Reading:
    """Return `reading` with a repeated series of names combined: `p = 5, q = 2; p = 7, q = 2` has the values (5, 2), (7, 2)."""
    names = [item.name for item in reading.items]
    period = len(dict.fromkeys(names))
    if (
        period < 2
        or len(names) == period
        or None in names
        or len(names) % period
        or names != names[:period] * (len(names) // period)
    ):
        return reading
    values = [item.value for item in reading.items]
    name = Group("(", ")", tuple(one for one in names[:period] if one is not None))
    rows = [Group("(", ")", tuple(values[start : start + period])) for start in range(0, len(values), period)]
    return reading._replace(items=tuple(Item(row, name, (row,)) for row in rows))
