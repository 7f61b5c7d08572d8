"""Compares values with parts: tuples, intervals with symbolic ends, sets in expressions, matrices and vectors."""

from __future__ import annotations

from verigym.envs.math.build import single
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.matrices import evaluate_matrix
from verigym.envs.math.judging.case import Case, all_of
from verigym.envs.math.judging.choices import same_choice
from verigym.envs.math.judging.readings import is_singleton
from verigym.envs.math.judging.scalars import same_scalar
from verigym.envs.math.judging.statements.statements import Same
from verigym.envs.math.judging.structures.vectors import in_components
from verigym.envs.math.judging.texts import choice_of, labelled, says_nothing, says_set, without_letters
from verigym.envs.math.tree import (
    Add,
    Call,
    Ellipsis,
    Group,
    Listing,
    Matrix,
    Mul,
    NamedSet,
    Node,
    Phrase,
    Relation,
    SetBuilder,
    SetOp,
    Text,
    Verdict,
    children,
    walk,
)  # fmt: skip

_OPEN = {"]": "(", "<": "("}
_CLOSE = {"[": ")", ">": ")"}


def same_structure(case: Case, gold: Node, answer: Node, same: Same) -> Verdict:
    """Compare two values element by element, or as scalars if they have no elements. `same` compares two elements."""
    if gold == answer:
        return "same"
    chosen = same_choice(case, gold, answer, same)
    if chosen is not None:
        return chosen
    if isinstance(gold, Call) and isinstance(answer, Call) and gold.name == answer.name == "cases":
        return _cases(case, gold, answer, same)
    gold, answer = in_components(case, gold, answer)
    if _is_matrix(gold) or _is_matrix(answer):
        return _matrices(case, gold, answer, same)
    if is_singleton(gold) is not is_singleton(answer):
        return case.refuse("a set of one element where the element is asked, or the other way round")
    gold, answer = single(gold), single(answer)
    if isinstance(gold, Group | Listing) or isinstance(answer, Group | Listing):
        if isinstance(gold, Group) and isinstance(answer, Group):
            return _groups(case, gold, answer, same)
        if isinstance(gold, Listing) and isinstance(answer, Listing):
            return same(case, gold, answer)
        several = isinstance(gold, Group | Listing)
        return case.refuse("a value where several are asked" if several else "several values where one is asked")
    if isinstance(gold, Phrase) and isinstance(answer, Phrase) and len(gold.parts) == len(answer.parts):
        return all_of(same(case, one, two) for one, two in zip(gold.parts, answer.parts, strict=True))
    if labelled(gold, lists=True) or labelled(answer, lists=True):
        return _labelled(case, gold, answer, same)
    if isinstance(gold, Add | Mul) and Ellipsis() in children(gold):
        return _series(case, gold, answer, same)
    return _sets(case, gold, answer, same) if _is_set(gold) or _is_set(answer) else same_scalar(case, gold, answer)


def _is_set(node: Node) -> bool:
    if isinstance(node, Relation):
        return set(node.comparators) != {":"}
    return isinstance(node, SetOp | SetBuilder | NamedSet)


def _sets(case: Case, gold: Node, answer: Node, same: Same) -> Verdict:
    """Compare sets that are no sets of reals, as they are written."""
    pairs = ((gold, answer), (answer, gold))
    if any((says_nothing(one) and two == NamedSet("empty")) or says_set(one, two) for one, two in pairs):
        return case.decided("words", case.policy.words == "loose", "words where a set is asked")
    if isinstance(gold, SetOp) and isinstance(answer, SetOp) and gold.op == answer.op:
        return _set_operations(case, gold, answer, same)
    if isinstance(gold, SetBuilder) and isinstance(answer, SetBuilder):
        parts = ((gold.element, answer.element), (gold.condition, answer.condition))
        return all_of(same(case, one, two) for one, two in parts)
    return case.refuse("a statement or a set where the other is a value")


def _labelled(case: Case, gold: Node, answer: Node, same: Same) -> Verdict:
    """Compare `(E) 12`, where the letter and the value both choose, with one of them, or with a letter of unknown text."""
    left, right = labelled(gold, lists=True), labelled(answer, lists=True)
    chosen, given = (pair[0] if pair else choice_of(node) for pair, node in ((left, gold), (right, answer)))
    if chosen is not None and given is not None:
        if chosen != given:
            return case.refuse("another choice")
        return case.refuse("a choice and several values") if right and isinstance(right[1], Listing) else "same"
    return same(case, *without_letters(gold, answer))


def _series(case: Case, gold: Node, answer: Node, same: Same) -> Verdict:
    """Compare `1 + 2 + ... + n` term by term: what the dots stand for is not known."""
    one, two = children(gold), children(answer)
    if type(gold) is not type(answer) or len(one) != len(two):
        return case.refuse("another series")
    return all_of(same(case, left, right) for left, right in zip(one, two, strict=True))


def brackets(group: Group) -> tuple[str, str]:
    """Return the brackets of `group`, with those of vectors `<0,1>` and of French intervals `]0,1[` turned into parentheses."""
    return _OPEN.get(group.opening, group.opening), _CLOSE.get(group.closing, group.closing)


def _groups(case: Case, gold: Group, answer: Group, same: Same) -> Verdict:
    if len(gold.items) != len(answer.items) and not {gold.opening, answer.opening} <= {"{", "tex{"}:
        return case.refuse(f"{len(answer.items)} elements where {len(gold.items)} are asked")
    if {gold.opening, answer.opening} <= {"{", "tex{"}:
        return same(case, gold, answer)
    pair = {brackets(gold), brackets(answer)}
    if len(pair) > 1 and pair != {("(", ")"), ("tex{", "}")}:
        return case.refuse("other brackets")
    return all_of(same(case, one, two) for one, two in zip(gold.items, answer.items, strict=True))


def _set_operations(case: Case, gold: SetOp, answer: SetOp, same: Same) -> Verdict:
    if len(gold.parts) != len(answer.parts):
        return case.refuse("another number of sets")
    if gold.op == "difference":
        return all_of(same(case, one, two) for one, two in zip(gold.parts, answer.parts, strict=True))
    left = list(answer.parts)
    for part in gold.parts:
        match = next((index for index, other in enumerate(left) if same(case, part, other) == "same"), None)
        if match is None:
            return case.refuse("another set")
        del left[match]
    return "same"


def _cases(case: Case, gold: Call, answer: Call, same: Same) -> Verdict:
    """Compare the cases of a function, whose order does not matter."""
    if len(gold.args) != len(answer.args):
        return case.refuse("another number of cases")
    left, doubtful = list(answer.args), False
    for row in gold.args:
        verdicts = [_case(case, row, other, same) for other in left]
        if "same" in verdicts:
            del left[verdicts.index("same")]
        elif "unknown" in verdicts:
            doubtful = True
        else:
            return case.refuse("another case")
    return "unknown" if doubtful else "same"


def _case(case: Case, gold: Node, answer: Node, same: Same) -> Verdict:
    one, two = map(_value_and_condition, (gold, answer))
    if len(one) != len(two):
        return "different"
    return all_of(same(case, left, right) for left, right in zip(one, two, strict=True))


def _value_and_condition(row: Node) -> tuple[Node, ...]:
    """Split a case, without the comma behind the value and the `if` before the condition."""
    match row:
        case Phrase((value, Phrase((Text("if" | "If" | "for" | "when" | "where"), condition)))):
            return value, condition
        case Phrase((value, Text("if" | "If" | "for" | "when" | "where"), condition)):
            return value, condition
        case Phrase(parts):
            return parts
    return (row,)


def _is_matrix(node: Node) -> bool:
    return isinstance(node, Matrix) or (
        not isinstance(node, Group | Listing) and any(isinstance(p, Matrix) for p in walk(node))
    )


def _matrices(case: Case, gold: Node, answer: Node, same: Same) -> Verdict:
    one, two = _as_matrix(gold, case.work), _as_matrix(answer, case.work)
    if one is None and two is None:
        return same_scalar(case, gold, answer)  # determinants
    if one is None or two is None:
        return case.refuse("no matrix" if two is None else "a matrix where a value is asked")
    if isinstance(gold, Group) or isinstance(answer, Group):
        flat = [tuple(cell for row in matrix.rows for cell in row) for matrix in (one, two)]
        vectors = all(min(len(matrix.rows), len(matrix.rows[0])) == 1 for matrix in (one, two))
        if vectors:
            if case.policy.vectors == "written":
                return case.decided("vectors", False, "a vector in another form")
            one, two = Matrix((flat[0],)), Matrix((flat[1],))
    if (len(one.rows), len(one.rows[0])) != (len(two.rows), len(two.rows[0])):
        return case.refuse("a matrix of another size")
    cells = [pair for rows in zip(one.rows, two.rows, strict=True) for pair in zip(*rows, strict=True)]
    return all_of(same(case, left, right) for left, right in cells)


def _as_matrix(node: Node, work: WorkBudget) -> Matrix | None:
    """Return matrices, worked out where they are in a formula; tuples as rows, and lists of lists."""
    node = single(node) if not (isinstance(node, Group) and len(node.items) == 1) else node.items[0]
    if isinstance(node, Matrix):
        return node
    if isinstance(node, Group):
        if node.opening + node.closing not in ("()", "[]", "<>") or not node.items:
            return None
        rows = [item.items for item in node.items if isinstance(item, Group) and item.opening in "(["]
        if len(rows) == len(node.items) and len({len(row) for row in rows}) == 1:
            return Matrix(tuple(rows))
        return Matrix((node.items,))
    return evaluate_matrix(node, work)
