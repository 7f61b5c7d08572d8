"""Tuples with names, `(x, y) = (1, 2)`: the names say which value is whose, whatever their order."""

from __future__ import annotations

from verigym.envs.math.judging.question import mentions
from verigym.envs.math.judging.readings import Item, Reading
from verigym.envs.math.tree import Group, Node, Symbol


def names_of(item: Item) -> tuple[Node, ...]:
    """Return the names in `(x, y) = ...`; none of an item that is no named tuple."""
    if not isinstance(item.name, Group) or len(item.name.items) < 2 or len(set(item.name.items)) < len(item.name.items):
        return ()
    count = len(item.name.items)
    sides = (*item.sides, *item.rounded)
    alike = all(isinstance(side, Group) and side.opening == "(" and len(side.items) == count for side in sides)
    return item.name.items if alike else ()


def arranged(item: Item, wanted: tuple[Node, ...]) -> Item:
    """Return a named tuple with its names in another order."""
    names = names_of(item)
    if not names or names == wanted or set(names) != set(wanted):
        return item
    order = [names.index(name) for name in wanted]

    def moved(side: Node) -> Node:
        return Group("(", ")", tuple(side.items[place] for place in order)) if isinstance(side, Group) else side

    return item._replace(name=moved(item.name) if item.name else None, sides=tuple(map(moved, item.sides)),
                         rounded=tuple(map(moved, item.rounded)))  # fmt: skip


def usual_order(names: tuple[Node | None, ...], question: str) -> tuple[Node, ...]:
    """Return names in the order in which bare values are given: as the question has them, else letters in the alphabet's."""
    known = tuple(name for name in names if name is not None)
    letters = [name.name for name in known if isinstance(name, Symbol) and len(name.name.split("_")[0]) == 1]
    if len(letters) < len(names) or (question and mentions(question, Group("(", ")", known))):
        return known
    return tuple(sorted(known, key=lambda name: name.name if isinstance(name, Symbol) else ""))


def as_tuple(reading: Reading, wanted: tuple[Node, ...], question: str) -> Node:
    """Return listed values as a tuple: in the order of the wanted names, else of their own, else as written."""
    names = tuple(item.name for item in reading.items)
    items = reading.items
    if None not in names and len(set(names)) == len(names):
        by_name = {item.name: item for item in items}
        order = wanted if set(wanted) == set(names) else usual_order(names, question)
        items = tuple(by_name[name] for name in order)
    return Group("(", ")", tuple(item.value for item in items))
