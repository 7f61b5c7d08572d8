r"""Refuses answers that repeat the question: `(x+1)(x+2)` if that is to be expanded, `\sqrt{12}` if that is to be simplified.

An answer repeats the question in these cases:
- It contains a part of the question, perhaps reordered or padded (`shapes.py`), and that part alone has the answer's value.
- A product was to be expanded, a sum to be factored or a fraction to be cancelled, and the answer does not do so.
- The question works with matrices, and the answer still does.

If the question itself is a computation with the gold as its result, such as `(3+4)^2` for 49, another computation such as `7^2`
is refused too. The answer then has to be a literal if it is rational, and otherwise worked out as far as people usually do
(`reduced.py`).
Unworked sums and products are refused by `worked.py`, whatever the question says.
"""

from __future__ import annotations

import re

from verigym.envs.math.equality.budget import ANSWER_WORK, WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.values import compare_values
from verigym.envs.math.judging.guards.reduced import (
    divides,
    is_factored,
    is_polynomial,
    is_power_of_ten,
    is_reduced,
    leaves_polynomials,
)
from verigym.envs.math.judging.guards.unworked import claims, is_residue
from verigym.envs.math.judging.names import split_names
from verigym.envs.math.judging.question import computations, formulas, matrices
from verigym.envs.math.judging.shapes import is_fraction, is_literal, is_plain, shape
from verigym.envs.math.tree import (
    Add,
    Call,
    Div,
    Matrix,
    Mul,
    Neg,
    Node,
    Pow,
    Relation,
    Root,
    children,
    symbols,
    walk,
)  # fmt: skip

_EXPAND = re.compile(r"\b(?:expan[ds]|multiply)", re.IGNORECASE)
_FORM = re.compile(r"\b(?:factor|expan[ds]|multiply)", re.IGNORECASE)
_TRANSCENDENTAL = frozenset("sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh exp ln log".split())
_OPERATIONS = (Add, Mul, Neg, Div, Pow, Root, Call)
MAX_PARTS = 400
"""Answers with more nodes are not searched for parts of the question."""
MAX_CHECKS = 8
"""At most this many parts of the question are compared with the gold by value."""


REPEATS = "it repeats the question"
COMPUTES = "the question computes this value, and so does the answer, in another way"


def hands_back(question: str, gold: Node, answer: Node, work: WorkBudget | None = None) -> str:
    """Return why `answer`, which equals `gold`, only repeats the question: `REPEATS` or `COMPUTES`, or "" if it does not.

    The cost is subtracted from the budget `work`, if given.
    """
    if not question or (isinstance(gold, Relation) and split_names(gold.sides, question)[0] is None):
        return ""  # an equation is equal to many, and is asked for as such
    work = WorkBudget(ANSWER_WORK) if work is None else work
    if _keeps_factor(question, gold, answer, work):
        return REPEATS
    golds = tuple(shape(side) for sides in claims(gold, question) for side in sides)
    suspects: list[tuple[Node, ...]] = []
    for sides in claims(answer, question):
        shapes = tuple(map(shape, sides))
        if not any(side in golds or is_literal(side) for side in shapes):
            suspects.append(shapes)
    if not suspects:
        return ""
    guard = _Guard(question, golds, work)
    for shapes in suspects:
        reasons = list(map(guard.hands_back, shapes))
        if all(reasons):
            return max(reasons, key=(COMPUTES, REPEATS).index)
    return ""


class _Guard:
    """The formulas of one question and the values of one gold, as shapes."""

    def __init__(self, question: str, golds: tuple[Node, ...], work: WorkBudget) -> None:
        self.question = question
        self.formulas = formulas(question)
        self.work = work
        self.golds = golds
        self.known = frozenset(part for gold in golds for part in walk(gold))

    def hands_back(self, side: Node) -> str:
        if is_residue(side) and side not in self.formulas.wholes:
            return ""
        if self._is_copied(side):
            return REPEATS
        if self._is_computed(side):
            return COMPUTES
        return REPEATS if self._keeps_matrices(side) or self._keeps_form(side) else ""

    def _is_copied(self, side: Node) -> bool:
        if side in self.formulas.shapes:
            return True
        parts = list(walk(side))
        if len(parts) > MAX_PARTS:
            return False
        copies = {part for part in parts if part in self.formulas.shapes and not is_literal(part)}
        checked = sorted(copies - self.known - {side}, key=repr)[:MAX_CHECKS]
        # The answer may hold the part in something that cannot be evaluated: \max(E, E).
        whole = self.golds[0] if len(self.golds) == 1 else side
        return any(compare_values(whole, part, work=self.work).verdict == "same" for part in checked)

    def _is_computed(self, side: Node) -> bool:
        """Return whether the question is a computation of the gold, and the answer another one."""
        exercises = [one for one in computations(self.question) if not is_literal(one)][:MAX_CHECKS]
        if len(self.golds) != 1 or not isinstance(side, _OPERATIONS) or not is_plain(side) or not exercises:
            return False
        gold = self.golds[0]
        if not is_reduced(gold, self.work):
            return False
        exercises = [one for one in exercises if compare_values(gold, one, work=self.work).verdict == "same"]
        if not exercises or rational(gold, self.work) is None:
            # \sin 75^\circ for \cos 15^\circ, where the gold has roots
            calls = not any(map(_is_transcendental, walk(gold))) and any(map(_is_transcendental, walk(side)))
            return bool(exercises) and (calls or not is_reduced(side, self.work))
        fractions = is_fraction(side) and not any(map(is_fraction, exercises))  # 2/4 for 1/4 + 1/4, not for 6/12
        return is_literal(gold) and not (fractions or is_literal(side) or is_power_of_ten(side))

    def _keeps_matrices(self, side: Node) -> bool:
        """Return whether it works with the question's matrices instead of having done so."""
        held = [part for part in walk(side) if isinstance(part, Matrix)]
        shown = matrices(self.question)
        return not isinstance(side, Matrix) and any(one in shown or one in self.formulas.shapes for one in held)

    def _keeps_form(self, side: Node) -> bool:
        """Return whether a product that was to be expanded still is one, or a sum that was to be factored or simplified."""
        if is_plain(side) or len(self.golds) != 1:
            return False
        gold = self.golds[0]
        names = symbols(gold)
        wholes = [one for one in self.formulas.wholes if symbols(one) == names and isinstance(one, Add | Mul | Pow | Div | Neg)]
        equal = [one for one in wholes[:MAX_CHECKS] if compare_values(side, one, work=self.work).verdict == "same"]
        if not equal or gold in equal:
            return False
        wanted, given = is_factored(gold), is_factored(side)
        # Of a quotient or a factorial that was to be simplified, n^2 + n and n(n + 1) are both results.
        open_form = _FORM.search(self.question) is None and all(divides(one) or leaves_polynomials(one) for one in equal)
        if wanted is not given and all(is_factored(one) is given for one in equal) and not open_form:
            return True
        if is_reduced(gold, self.work) and not is_reduced(side, self.work):
            return True
        if is_polynomial(gold) and (divides(side) or leaves_polynomials(side)):
            return True
        if is_polynomial(gold) and isinstance(side, Add) and _EXPAND.search(self.question) and any(map(is_factored, equal)):
            return any(map(is_factored, walk(side))) and not any(map(is_factored, walk(gold)))
        return not wanted and any(is_factored(one) and _sums(one) & _sums(side) - _sums(gold) for one in equal)


def _is_transcendental(node: Node) -> bool:
    return isinstance(node, Call) and node.name in _TRANSCENDENTAL


def _sums(node: Node) -> set[Node]:
    """Return the sums in a tree that are factors, with their negatives."""
    sums: set[Node] = set()
    for part in walk(node):
        if isinstance(part, Mul | Pow | Neg):
            sums |= {one for one in children(part) if isinstance(one, Add) and not is_plain(one)}
    return sums | {shape(Neg(one)) for one in sums}


def _keeps_factor(question: str, gold: Node, answer: Node, work: WorkBudget) -> bool:
    """Return whether all sides hold a fraction with a factor to cancel, where the question's was to be cancelled to the gold.

    The trees count as they are written: a shape has common factors cancelled.
    """
    if not is_polynomial(gold) or not any(map(_cancels, walk(answer))):
        return False
    wholes = [one for one in formulas(question).wholes if divides(one) and symbols(one) == symbols(gold)][:MAX_CHECKS]
    if not any(compare_values(shape(gold), one, work=work).verdict == "same" for one in wholes):
        return False
    return all(any(map(_cancels, walk(side))) for sides in claims(answer, question) for side in sides)


def _cancels(node: Node) -> bool:
    """Return whether a fraction has a factor with variables above and below."""
    if not isinstance(node, Div):
        return False
    over, under = (set(part.factors if isinstance(part, Mul) else (part,)) for part in map(shape, (node.top, node.bottom)))
    return any(not is_plain(one) for one in over & under)
