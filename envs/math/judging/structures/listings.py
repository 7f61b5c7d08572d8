"""Compares lists, sets and tuples of values. A single value is a list of length one."""

from __future__ import annotations

from verigym.envs.math.build import rebuild
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.names import is_function_name, renaming
from verigym.envs.math.judging.question import mentions
from verigym.envs.math.judging.readings import Item, Reading, cycles
from verigym.envs.math.judging.statements.congruences import same_congruences
from verigym.envs.math.judging.statements.statements import Same, is_equation, same_equations, same_statements
from verigym.envs.math.judging.structures.chains import same_chain
from verigym.envs.math.judging.structures.structures import same_structure
from verigym.envs.math.judging.texts import CHOICES, choice_of, labelled
from verigym.envs.math.tree import Ellipsis, Group, NamedSet, Node, Number, Relation, Symbol, Text, Verdict, symbols

MAX_PAIRS = 4_000


def same_lists(case: Case, gold: Reading, answer: Reading, same: Same) -> Verdict:
    """Compare the listed values of `gold` and `answer`; `same` compares two values."""
    gold, answer = cycles(gold), cycles(answer)
    one, two = gold.items, answer.items
    if len(one) == len(two) == 1:
        if gold.brackets != answer.brackets and NamedSet("empty") in (one[0].node, two[0].node):
            return case.refuse("the set of the empty set is not empty")
        return same_item(case, one[0], two[0], same)
    if len(one) == 1:
        return _instead_of_one(case, one[0], answer, same)
    if len(two) == 1:
        return _instead_of_many(case, gold, two[0], same)
    if any(isinstance(item.node, Ellipsis) for item in (*one, *two)):
        return _in_order(case, one, two, same)
    names, others = [item.name for item in one], [item.name for item in two]
    if {gold.joiner, answer.joiner} == {"and", "or"} and all(isinstance(item.node, Symbol | Text) for item in one):
        return case.refuse(f"{answer.joiner!r} where {gold.joiner!r} is asked")
    if _are_other_choices(gold, answer):
        return case.refuse("choices where values are asked, one of several, or a choice and the value of another choice")
    if None not in names and len(set(names)) > 1:
        return _by_name(case, gold, answer, same)
    if case.policy.order == "gold" and not gold.brackets:
        verdict = _in_order(case, one, two, same)
        return verdict if verdict != "different" else case.decided("order", False, "another order")
    if set(names) == {None} and None not in others:
        two = tuple(item._replace(name=None) for item in two)
        if len({_stem(name) for name in others}) > 1 and case.policy.name != "any":
            # `a = 1, b = 2` for `1, 2`: of several things, so in the order in which they are asked; a set is of one thing.
            verdict = "different" if gold.brackets else _in_order(case, one, two, same)
            return verdict if verdict != "different" else case.decided("name", False, "names of several things")
        answer = answer._replace(items=two)
    return _any_order(case, gold, answer, same)


def _are_other_choices(gold: Reading, answer: Reading) -> bool:
    """Return whether values have choices' letters before them, some of them only, or where the gold's are no choices.

    Choices joined by `or` are no list of all.
    """
    if answer.joiner == "or" and gold.joiner == "comma" and all(choice_of(item.node) for item in (*gold.items, *answer.items)):
        return True
    if _half_labelled(answer):
        return not _half_labelled(gold)
    named = any(labelled(item.node) or choice_of(item.node) for item in gold.items)
    return not named and all(labelled(item.node) for item in answer.items)


def _half_labelled(reading: Reading) -> bool:
    """Return whether some of the values have a choice's letter before them and others have not: `A, B: 1`."""
    return len({labelled(item.node) is not None for item in reading.items}) > 1


def _stem(name: Node | None) -> Node | str | None:
    """Return a name without its index: x of x_1."""
    return name.name.split("_")[0] if isinstance(name, Symbol) else name


def same_item(case: Case, gold: Item, answer: Item, same: Same) -> Verdict:
    """Compare one value with one value, or one statement with one statement, using `same`."""
    if gold.node == answer.node:
        return "same"
    answer = _arranged(case, gold, answer)
    stated = isinstance(answer.node, Relation) and is_equation(answer.node)
    if isinstance(gold.node, Relation) and is_equation(gold.node):
        if stated:
            return _equations(case, gold, answer, same)
        if gold.name is None and case.policy.chains == "equal":
            return case.refuse("a value where an equation is asked")
        if gold.name is not None and answer.name is None and case.policy.name == "required":
            return case.decided("name", False, "the name is missing")
        return same_chain(case, gold.value, answer, same)
    if stated:
        if answer.name is not None and (isinstance(gold.value, Symbol) or _names_choices(gold.value, answer.name)):
            return case.refuse("an equation where a name is asked")
        return same_chain(case, gold.value, answer, same)
    if gold.name != answer.name and None not in (gold.name, answer.name) and case.policy.name != "any":
        return case.decided("name", False, "another name than the gold's")
    congruent = same_congruences(case, gold.value, answer.value, same)
    if congruent is not None:
        return congruent
    if isinstance(gold.node, Relation) and isinstance(answer.node, Relation):
        if ":" not in gold.node.comparators + answer.node.comparators:
            return same_statements(case, gold.node, answer.node, same)
    return same_structure(case, gold.value, answer.value, same)


def _names(item: Item) -> frozenset[Node]:
    """Return the letters that a chain says to be one value: x and y in x = y = 1."""
    if not isinstance(item.name, Symbol) or isinstance(item.value, Symbol):
        return frozenset()
    return frozenset((item.name, *(side for side in item.sides[:-1] if isinstance(side, Symbol))))


def _alike(case: Case, gold: Item, answer: Item, same: Same) -> Verdict:
    """Compare x = y = 1 with a chain that has to name the same letters."""
    names = _names(answer)
    if _names(gold) != names:
        return case.refuse("other names than the gold's")
    return same_chain(case, gold.value, answer._replace(sides=tuple(side for side in answer.sides if side not in names)), same)


def _equations(case: Case, gold: Item, answer: Item, same: Same) -> Verdict:
    assert isinstance(gold.node, Relation) and isinstance(answer.node, Relation)
    if len(_names(gold)) > 1:
        return _alike(case, gold, answer, same)
    if gold.name is None or answer.name is None:
        return same_equations(case, gold.node, answer.node)
    free = case.policy.name != "required"
    if same_structure(case, gold.name, answer.name, same) == "same" or (free and is_function_name(gold.name, answer.name)):
        return same_chain(case, gold.value, answer, same)
    renamed = renaming(gold.name, answer.name) if free else {}
    if renamed and all(symbols(side).isdisjoint(symbols(gold.name) - symbols(answer.name)) for side in answer.sides):
        sides = tuple(rebuild(side, lambda part: renamed.get(part, part)) for side in answer.sides)
        return same_chain(case, gold.value, answer._replace(sides=sides), same)
    if case.policy.name == "any":
        verdict = same_chain(case, gold.value, answer, same)
        if verdict == "same":
            case.note("name=any")
        return verdict
    if len(gold.node.sides) == len(answer.node.sides) == 2 and same_equations(case, gold.node, answer.node) == "same":
        return "same"
    return case.decided("name", False, "another name than the gold's")


def _instead_of_one(case: Case, gold: Item, answer: Reading, same: Same) -> Verdict:
    """Compare several values where one is asked: right for a tuple, or if they are one value said twice."""
    if answer.joiner == "or":  # one value, said in two ways
        verdict = all_of(same_item(case, gold, item, same) for item in answer.items)
        return case.refuse(f"{len(answer.items)} values where one is asked") if verdict == "different" else verdict
    if isinstance(gold.value, Group) and gold.value.opening in "(<" and answer.brackets != "{":
        if case.policy.brackets == "required" and answer.brackets != "tex{":
            return case.decided("brackets", False, "the brackets are missing")
        return same_structure(case, gold.value, as_tuple(answer, names_of(gold), case.question), same)
    if _letters(gold.value) == [item.value for item in answer.items]:
        return "same"
    return case.refuse(f"{len(answer.items)} values where one is asked")


def _instead_of_many(case: Case, gold: Reading, answer: Item, same: Same) -> Verdict:
    """Compare one value where several are asked: right if it is a tuple of them in the gold's order."""
    value, wanted = answer.value, len(gold.items)
    if _letters(value) == [item.value for item in gold.items]:
        return "same"
    names = names_of(answer)
    if names and gold.brackets != "{":
        answer = arranged(answer, tuple(item.name for item in gold.items if item.name) or usual_order(names, case.question))
        value = answer.value
    if isinstance(value, Group) and len(value.items) == wanted and gold.brackets != "{":
        listlike = value.opening in ("(", "<") or (value.opening == "[" and wanted > 2)
        if listlike and case.policy.brackets == "required":
            return case.decided("brackets", False, "brackets that the gold has not")
        if listlike:
            return _in_order(case, gold.items, tuple(Item(item, None, (item,)) for item in value.items), same)
    return case.refuse(f"one value where {wanted} are asked")


def _arranged(case: Case, gold: Item, answer: Item) -> Item:
    """Return a named tuple in the order of the gold's names, or where the gold has none in the usual one."""
    names = names_of(answer)
    return arranged(answer, names_of(gold) or usual_order(names, case.question)) if names else answer


def _letters(node: Node) -> list[Node]:
    """Return the choices in `AC`, in the order of the alphabet."""
    name = node.name if isinstance(node, Symbol) else ""
    return [Symbol(letter) for letter in name] if len(name) > 1 and list(name) == sorted(set(name) & CHOICES) else []


def _names_choices(gold: Node, name: Node) -> bool:
    """Return whether `A = B` is said where a choice is asked."""
    return choice_of(gold) is not None and isinstance(name, Symbol) and name.name in CHOICES


def _in_order(case: Case, gold: tuple[Item, ...], answer: tuple[Item, ...], same: Same) -> Verdict:
    if len(gold) != len(answer):
        return case.refuse(f"{len(answer)} values where {len(gold)} are asked")
    return all_of(same_item(case, one, two, same) for one, two in zip(gold, answer, strict=True))


def _by_name(case: Case, gold: Reading, answer: Reading, same: Same) -> Verdict:
    """Compare values whose names differ: by name where the answer has names, else in the order written."""
    names = {item.name: item for item in answer.items}
    if len(gold.items) != len(answer.items):
        return case.refuse(f"{len(answer.items)} values where {len(gold.items)} are asked")
    if set(names) == {None}:
        if answer.brackets == "{":
            if len({_stem(item.name) for item in gold.items}) > 1:
                return case.refuse("a set where values of several things are asked")
            return _any_order(case, gold._replace(items=tuple(item._replace(name=None) for item in gold.items)), answer, same)
        return _in_order(case, gold.items, answer.items, same)
    if len(names) == len(answer.items) and all(item.name in names for item in gold.items):
        return all_of(same_item(case, item, names[item.name], same) for item in gold.items)
    if case.policy.name == "any":
        case.note("name=any")
        return _in_order(case, gold.items, answer.items, same)
    return _any_order(case, gold, answer, same)


def _any_order(case: Case, gold: Reading, answer: Reading, same: Same) -> Verdict:
    """Pair every value of one side with one of the other.

    Values said twice count once, unless the gold says one twice, or is a set: 1, 2, 3, 3 without braces is none.
    """
    one = _once(gold.items)
    repeated = len(one) < len(gold.items) if gold.brackets != "{" else answer.brackets != "{"
    if repeated and gold.brackets != "{":
        one = list(gold.items)
    two = list(answer.items) if repeated else _once(answer.items)
    if len(one) != len(two):
        return case.refuse(f"{len(two)} values where {len(one)} are asked")
    left, right = _without_common(one, two)
    doubtful = False
    pairs = 0
    for item in left:
        verdicts: list[Verdict] = []
        for index, other in enumerate(right):
            pairs += 1
            if pairs > MAX_PAIRS or case.work.left <= 0:
                return "unknown"
            verdicts.append(same_item(case, item, other, same))
            if verdicts[-1] == "same":
                del right[index]
                break
        else:
            if "unknown" not in verdicts:
                return case.refuse("a value is missing")
            doubtful = True
    return "unknown" if doubtful else "same"


def _once(items: tuple[Item, ...]) -> list[Item]:
    return list({_key(item): item for item in reversed(items)}.values())[::-1]


def _key(item: Item) -> object:
    value = rational(item.value) if isinstance(item.value, Number) else None
    return (item.name, item.value if value is None else value) if len(item.sides) == 1 and not item.rounded else item


def _without_common(one: list[Item], two: list[Item]) -> tuple[list[Item], list[Item]]:
    """Take out what is in both lists as it is written."""
    keys: list[object] = [_key(item) for item in two]
    left: list[Item] = []
    for item in one:
        key = _key(item)
        if key in keys:
            keys[keys.index(key)] = None
        else:
            left.append(item)
    return left, [item for item, key in zip(two, keys, strict=True) if key is not None]


def names_of(item: Item) -> tuple[Node, ...]:
    """Return the names on the left of `(x, y) = ...`; an empty tuple if `item` is not a named tuple."""
    if not isinstance(item.name, Group) or len(item.name.items) < 2 or len(set(item.name.items)) < len(item.name.items):
        return ()
    count = len(item.name.items)
    sides = (*item.sides, *item.rounded)
    alike = all(isinstance(side, Group) and side.opening == "(" and len(side.items) == count for side in sides)
    return item.name.items if alike else ()


def arranged(item: Item, wanted: tuple[Node, ...]) -> Item:
    """Return the named tuple `item` with its names and values in the order `wanted`.

    It is returned unchanged if its names are not those in `wanted`.
    """
    names = names_of(item)
    if not names or names == wanted or set(names) != set(wanted):
        return item
    order = [names.index(name) for name in wanted]

    def moved(side: Node) -> Node:
        return Group("(", ")", tuple(side.items[place] for place in order)) if isinstance(side, Group) else side

    return item._replace(name=moved(item.name) if item.name else None, sides=tuple(map(moved, item.sides)),
                         rounded=tuple(map(moved, item.rounded)))  # fmt: skip


def usual_order(names: tuple[Node | None, ...], question: str) -> tuple[Node, ...]:
    """Return `names` in the order in which people list the values if they leave out the names.

    This is the order of the argument if `question` has the names as a tuple in this order, or if a name is not a single letter.
    In all other cases it is the alphabetical order.
    """
    known = tuple(name for name in names if name is not None)
    letters = [name.name for name in known if isinstance(name, Symbol) and len(name.name.split("_")[0]) == 1]
    if len(letters) < len(names) or (question and mentions(question, Group("(", ")", known))):
        return known
    return tuple(sorted(known, key=lambda name: name.name if isinstance(name, Symbol) else ""))


def as_tuple(reading: Reading, wanted: tuple[Node, ...], question: str) -> Node:
    """Return the values of `reading` as a tuple.

    If all values have names, and all names differ, the values are put in the order `wanted`. If `wanted` has other names, they
    are put in the usual order of their own names (`usual_order`). Values without names, or with repeated names, stay as
    written.
    """
    names = tuple(item.name for item in reading.items)
    items = reading.items
    if None not in names and len(set(names)) == len(names):
        by_name = {item.name: item for item in items}
        order = wanted if set(wanted) == set(names) else usual_order(names, question)
        items = tuple(by_name[name] for name in order)
    return Group("(", ")", tuple(item.value for item in items))
