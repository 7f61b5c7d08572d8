r"""Answers that hand the question back: 17*23 and 23 * 17 * 1 are no answer to "What is 17*23?", though equal to 391.

A part of the question counts as handed back when the answer holds it, reordered or padded (`shapes.py`), and it has the
answer's value, so that the rest does nothing; when the answer is arithmetic with the question's numbers and the gold is a
plain number; and when a product was to be expanded, or a sum to be factored, and it is not. An expression with numbers of its
own (3 * 130 + 1) is somebody's work, and so is a closed form with powers, factorials or binomials (2^10 - 1).
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import gcd

from verigym.envs.maths.equality.exactly import rational
from verigym.envs.maths.equality.values import compare_values
from verigym.envs.maths.equality.work import ANSWER_WORK, Work
from verigym.envs.maths.judging.names import split_names
from verigym.envs.maths.judging.question import Formulas, formulas, numbers_of, significant
from verigym.envs.maths.judging.shapes import is_plain, shape
from verigym.envs.maths.judging.unworked import claims
from verigym.envs.maths.tree import (
    FUNCTIONS,
    Add,
    Call,
    Clock,
    Constant,
    Div,
    InBase,
    Matrix,
    Mul,
    Neg,
    Node,
    Number,
    Percent,
    PlusMinus,
    Pow,
    Quantity,
    Relation,
    Root,
    Symbol,
    Text,
    children,
    symbols,
    walk,
)  # fmt: skip

# These are in every text, and pad: + 0, * 1, the root of a square.
_PADDING = frozenset(map(Fraction, (0, 1, 2)))
_COUNTS = frozenset(("binom", "factorial", "doublefactorial", "perm"))
MAX_PARTS = 400
"""Larger answers are not searched for parts of the question."""
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
    guard = _Guard(formulas(question), golds, Work(ANSWER_WORK) if work is None else work)
    return any(all(map(guard.hands_back, shapes)) for shapes in found)


def is_literal(node: Node) -> bool:
    """Whether nothing is left to work out: a number, a fraction in lowest terms, a name."""
    match node:
        case Neg(of) | Quantity(of, _) | Percent(of):
            return is_literal(of)
        case Div(Number(top, 0), Number(bottom, 0)) | Div(Neg(Number(top, 0)), Number(bottom, 0)):
            return top.denominator == bottom.denominator == 1 and gcd(int(top), int(bottom)) == 1
        case Call(name, _):
            return name not in FUNCTIONS
    return isinstance(node, Number | Symbol | Constant | Text | InBase | Clock)


class _Guard:
    """What one question holds, beside the values of one gold; all are shapes."""

    def __init__(self, found: Formulas, golds: tuple[Node, ...], work: Work) -> None:
        self.found = found
        self.work = work
        self.golds = golds
        self.known = frozenset(part for gold in golds for part in walk(gold))
        self.plain_gold = all(is_literal(gold) and rational(gold, work) is not None for gold in golds)

    def hands_back(self, side: Node) -> bool:
        if side in self.golds:
            return False
        return self._is_copied(side) or self._is_transcribed(side) or self._keeps_matrices(side) or self._keeps_form(side)

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
        if not self.plain_gold or self._is_form(side) or any(map(_is_closed_form, walk(side))):
            return False
        written = numbers_of(side)
        taken = [number for number in written if significant(number) in self.found.numbers]
        added = {number for number in written if significant(number) not in self.found.numbers}
        return len(taken) > 1 and added <= _PADDING and rational(side, self.work) is not None

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
        return bool(held) and not isinstance(side, Matrix) and all(one in self.found.shapes for one in held)

    def _keeps_form(self, side: Node) -> bool:
        """Whether a product that was to be expanded still is one, or a sum that was to be factored."""
        if is_plain(side) or len(self.golds) != 1:
            return False
        wanted, given = _is_factored(self.golds[0]), _is_factored(side)
        if wanted is given:
            return False
        names = symbols(side)
        asked = [one for one in self.found.wholes if symbols(one) == names and isinstance(one, Add | Mul | Pow | Div | Neg)]
        equal = [one for one in asked[:MAX_CHECKS] if compare_values(side, one, work=self.work).verdict == "same"]
        return bool(equal) and all(_is_factored(one) is given for one in equal)


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
