r"""Answers that hand the question back: 17*23 and 23 * 17 * 1 are no answer to "What is 17*23?", though equal to 391.

A part of the question counts as handed back when the answer holds it, reordered or padded (`shapes.py`), and it has the
answer's value, so that the rest does nothing; when the answer is arithmetic with the question's numbers, or with pieces that
stand for them (34/2 for 17), and the gold is a plain number; and when a product was to be expanded, or a sum to be factored,
and it is not. Where the question is a computation with the gold's value, 17*23 or \sqrt{12}, neither is another one that
holds its numbers or multiples of them (34*46/4), nor one that is not worked out as far as people do (`reduced.py`). An
expression with numbers of its own (3 * 130 + 1) is somebody's work, and so is a closed form with powers, factorials or
binomials (2^10 - 1).
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from itertools import combinations

from verigym.envs.maths.equality.exactly import rational
from verigym.envs.maths.equality.values import compare_values
from verigym.envs.maths.equality.work import ANSWER_WORK, Work
from verigym.envs.maths.judging.exercises import computations, matrices
from verigym.envs.maths.judging.names import split_names
from verigym.envs.maths.judging.question import formulas, numbers_of, significant
from verigym.envs.maths.judging.reduced import divides, is_polynomial, is_power_of_ten, is_reduced
from verigym.envs.maths.judging.shapes import is_literal, is_plain, shape
from verigym.envs.maths.judging.unworked import claims, is_residue
from verigym.envs.maths.tree import (
    Add,
    Call,
    Div,
    Matrix,
    Mul,
    Neg,
    Node,
    Number,
    PlusMinus,
    Pow,
    Relation,
    Root,
    children,
    symbols,
    walk,
)  # fmt: skip

# These are in every text, and pad: + 0, * 1, the root of a square.
_PADDING = frozenset(map(Fraction, (0, 1, 2)))
_ONE = Number(Fraction(1))
_EXPAND = re.compile(r"\b(?:expan[ds]|multiply)", re.IGNORECASE)
_COUNTS = frozenset(("binom", "factorial", "doublefactorial", "perm"))
MAX_PARTS = 400
"""Larger answers are not searched for parts of the question."""
MAX_SPLIT = 6
"""Products of more factors are not searched for two that stand for the question's numbers."""
MAX_CHECKS = 8
"""So many parts of the question are compared with the answer by value."""


def hands_back(question: str, gold: Node, answer: Node, work: Work | None = None) -> bool:
    """Whether an answer, equal to the gold, holds a part of the question that was to be worked out."""
    if not question or (isinstance(gold, Relation) and split_names(gold.sides, question)[0] is None):
        return False  # an equation is equal to many, and is asked for as such
    found: list[tuple[Node, ...]] = []
    for sides in claims(answer, question):
        shapes = tuple(map(shape, sides))
        if not any(map(is_literal, shapes)):
            found.append(shapes)
    if not found:
        return False
    golds = tuple(shape(side) for sides in claims(gold, question) for side in sides)
    guard = _Guard(question, golds, Work(ANSWER_WORK) if work is None else work)
    return any(all(map(guard.hands_back, shapes)) for shapes in found)


class _Guard:
    """What one question holds, beside the values of one gold; all are shapes."""

    def __init__(self, question: str, golds: tuple[Node, ...], work: Work) -> None:
        self.question = question
        self.found = formulas(question)
        self.work = work
        self.golds = golds
        self.known = frozenset(part for gold in golds for part in walk(gold))
        self.plain_gold = all(is_literal(gold) and rational(gold, work) is not None for gold in golds)

    def hands_back(self, side: Node) -> bool:
        if side in self.golds or (is_residue(side) and side not in self.found.wholes):
            return False
        checks = (self._is_copied, self._is_transcribed, self._is_computed, self._keeps_matrices, self._keeps_form)
        return any(check(side) for check in checks)

    def _is_copied(self, side: Node) -> bool:
        if side in self.found.shapes:
            return True
        parts = list(walk(side))
        if len(parts) > MAX_PARTS:
            return False
        copies = {part for part in parts if part in self.found.shapes and not is_literal(part)}
        for part in parts:
            if isinstance(part, Add | Mul):
                items = Counter(children(part))
                copies |= {one for one, wanted in self.found.joined if type(one) is type(part) and wanted <= items}
        checked = sorted(copies - self.known - {side}, key=repr)[:MAX_CHECKS]
        return any(compare_values(side, part, work=self.work).verdict == "same" for part in checked)

    def _is_transcribed(self, side: Node) -> bool:
        """Whether it is arithmetic with the question's numbers where a plain number is asked."""
        if not self.plain_gold or self._is_form(side):
            return False
        if not any(map(_is_closed_form, walk(side))) and rational(side, self.work) is not None:
            written = numbers_of(side)
            known = [number for number in written if significant(number) in self.found.numbers]
            # n(n + 1)/2 with the question's n: its neighbours are no numbers of the answerer's own
            known += [number for number in written if number not in known and self._is_neighbour(number, known)]
            if len(known) > 1 and all(number in known or number in _PADDING for number in written):
                return True
        taken = self._taken(side, whole=True)
        return taken is not None and taken > 1

    def _is_neighbour(self, number: Fraction, known: list[Fraction]) -> bool:
        return number.denominator == 1 and any(abs(number - one) == 1 and one not in _PADDING for one in known)

    def _taken(self, node: Node, *, whole: bool = False) -> int | None:
        """Count the question's numbers of which a tree is made up with `+ - * /`; None where it holds others.

        A part that has the value of one stands for it, whatever it is made of: 34/2 or 17!/16! for 17.
        """
        if isinstance(node, Neg):
            return self._taken(node.of, whole=whole)
        value = None if whole else rational(node, self.work)
        if value is not None:
            if significant(abs(value)) in self.found.numbers:
                return 1
            if abs(value) in _PADDING or significant(abs(value)) == 1:
                return 0
        if isinstance(node, Div) and node.top == _ONE:
            return self._taken(node.bottom)
        parts = _operands(node)
        if len(parts) < 2:
            return None
        counts = [self._taken(part) for part in parts]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts):
            return sum(known)
        return self._split(parts, Add if isinstance(node, Add) else Mul)

    def _split(self, parts: list[Node], operation: type[Add] | type[Mul]) -> int | None:
        """Count two numbers of the question where the parts fall into two heaps that stand for them: 34 * 23 / 2."""
        if not 2 < len(parts) <= MAX_SPLIT:
            return None
        wanted = self.found.numbers - _PADDING
        for size in range(1, len(parts) // 2 + 1):
            for chosen in combinations(range(len(parts)), size):
                heaps = [[part for place, part in enumerate(parts) if (place in chosen) is one] for one in (True, False)]
                values = [rational(heap[0] if len(heap) == 1 else operation(tuple(heap)), self.work) for heap in heaps]
                if all(value is not None and significant(abs(value)) in wanted for value in values):
                    return 2
        return None

    def _is_computed(self, side: Node) -> bool:
        """Whether the question is a computation, and the answer another one instead of the gold's form or the like."""
        asked = [one for one in computations(self.question) if not is_literal(one)][:MAX_CHECKS]
        if len(self.golds) != 1 or not is_plain(side) or not asked or is_literal(side):
            return False
        gold = self.golds[0]
        if not is_reduced(gold, self.work) or (rational(gold, self.work) is not None and not self.plain_gold):
            return False
        asked = [one for one in asked if compare_values(gold, one, work=self.work).verdict == "same"]
        if not asked:
            return False
        if not self.plain_gold:
            return not is_reduced(side, self.work)
        if any(isinstance(one, Div) and self._is_form(one) for one in asked):  # a fraction to be reduced
            return True
        closed = any(_is_closed_form(part) for one in asked for part in walk(one))
        if self._is_form(side) or is_power_of_ten(side):
            return False
        if not closed and _is_closed_form(side) and all(map(is_literal, children(side))):
            return False
        if isinstance(side, Add) and any(isinstance(part, Pow) for part in walk(side)):  # 20^2 - 3^2
            return True
        return closed or any(self._is_multiple(part, one) for one in asked for part in walk(side) if part is not side)

    def _is_multiple(self, part: Node, asked: Node) -> bool:
        """Whether a part of an answer is a multiple of a number in a computation."""
        value = rational(part, self.work)
        if not value:
            return False
        numbers = {significant(number) for number in numbers_of(asked)} - _PADDING
        return any((value / number).denominator == 1 for number in numbers)

    def _is_form(self, side: Node) -> bool:
        """Whether numbers are commonly left in this form: a fraction where the gold is one."""
        side = side.of if isinstance(side, Neg) else side
        match side:
            case Div(Number() | Neg(Number()), Number() | Neg(Number())):
                return any((rational(gold, self.work) or Fraction(0)).denominator > 1 for gold in self.golds)
        return not isinstance(side, Add | Mul | Div | Pow | Root | Call)

    def _keeps_matrices(self, side: Node) -> bool:
        """Whether it works with the question's matrices instead of having done so."""
        held = [part for part in walk(side) if isinstance(part, Matrix)]
        shown = matrices(self.question)
        return not isinstance(side, Matrix) and any(one in shown or one in self.found.shapes for one in held)

    def _keeps_form(self, side: Node) -> bool:
        """Whether a product that was to be expanded still is one, or a sum that was to be factored or simplified."""
        if is_plain(side) or len(self.golds) != 1:
            return False
        gold = self.golds[0]
        names = symbols(gold)
        asked = [one for one in self.found.wholes if symbols(one) == names and isinstance(one, Add | Mul | Pow | Div | Neg)]
        equal = [one for one in asked[:MAX_CHECKS] if compare_values(side, one, work=self.work).verdict == "same"]
        if not equal or gold in equal:
            return False
        wanted, given = _is_factored(gold), _is_factored(side)
        if wanted is not given and all(_is_factored(one) is given for one in equal):
            return True
        if is_reduced(gold, self.work) and not is_reduced(side, self.work):
            return True
        if is_polynomial(gold) and divides(side):
            return True
        if is_polynomial(gold) and isinstance(side, Add) and _EXPAND.search(self.question) and any(map(_is_factored, equal)):
            return any(map(_is_factored, walk(side))) and not any(map(_is_factored, walk(gold)))
        return not wanted and any(_is_factored(one) and _sums(one) & _sums(side) - _sums(gold) for one in equal)


def _sums(node: Node) -> set[Node]:
    """Return the sums in a tree that are factors, with their negatives."""
    found: set[Node] = set()
    for part in walk(node):
        if isinstance(part, Mul | Pow | Neg):
            found |= {one for one in children(part) if isinstance(one, Add) and not is_plain(one)}
    return found | {shape(Neg(one)) for one in found}


def _operands(node: Node) -> list[Node]:
    """Return the terms of a sum, or the factors of a product or quotient with divisors as fractions."""
    match node:
        case Add(terms):
            return list(terms)
        case Mul(factors):
            return [inner for factor in factors for inner in (_operands(factor) if isinstance(factor, Div) else (factor,))]
        case Div(top, bottom) if top != _ONE:
            under = [Div(_ONE, factor) for factor in _operands(bottom) if isinstance(bottom, Mul)] or [Div(_ONE, bottom)]
            return [*(_operands(top) if isinstance(top, Mul) else [top]), *under]
    return []


def _is_closed_form(node: Node) -> bool:
    """Whether numbers are commonly left in this form, 2^10 - 1 or 6!/2; or it stands for two values."""
    if isinstance(node, Pow):
        exponent = node.exponent.of if isinstance(node.exponent, Neg) else node.exponent
        return not (isinstance(exponent, Number) and exponent.value in _PADDING)
    return isinstance(node, PlusMinus) or (isinstance(node, Call) and node.name in _COUNTS)


def _is_factored(node: Node) -> bool:
    """Whether a tree is a product of two or more factors with variables, one of them a sum."""
    while isinstance(node, Neg | Div):
        node = node.of if isinstance(node, Neg) else node.top
    factors = [factor for factor in (node.factors if isinstance(node, Mul) else (node,)) if not is_plain(factor)]
    sums = [factor for factor in factors if isinstance(factor.base if isinstance(factor, Pow) else factor, Add)]
    return bool(sums) and (len(factors) > 1 or isinstance(factors[0], Pow))
