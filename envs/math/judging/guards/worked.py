r"""Requires a worked-out number if the gold is one: `17 \cdot 23` and `\sqrt{144} + 5` are then refused.

The rule concerns the form of the answer alone. A rational number must be a numeral, perhaps with a sign, percent sign or unit:
- a literal (`-3`, `1\frac12`, `0.\overline3`, `4.5\cdot10^6`);
- a fraction of integers whose value is not an integer (`6/36`, not `36/6`);
- a power, factorial or binomial of literals (`2^{10}`, `10!`), or a fraction of these in lowest terms.

Any other number must be a closed form with no arithmetic left in it, such as `3 + 2\sqrt5` or `2\ln 3 - 1`. It has at most one
rational term in a sum and one rational factor in a product, numerals for all its rational parts, no like terms, no repeated
factor, no product or power of sums, and no quotient whose integer denominator divides the numerator.

If the gold itself is not worked out, as `9 \cdot 8`, the answer may have any form. Without a question the rule is not applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TypeGuard

from verigym.envs.math.build import rebuild
from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.judging.guards.reduced import goes_out, kind_of
from verigym.envs.math.judging.guards.unworked import claims, is_residue
from verigym.envs.math.judging.shapes import is_literal, shape
from verigym.envs.math.judging.statements.congruences import Congruence, congruence
from verigym.envs.math.judging.statements.statements import is_equation
from verigym.envs.math.tree import (
    BINDERS,
    FUNCTIONS,
    Add,
    Call,
    Constant,
    Div,
    Group,
    Listing,
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
    SetBuilder,
    SetOp,
    Symbol,
    symbols,
    walk,
)  # fmt: skip

_NUMERIC = (Number, Constant, Add, Mul, Neg, PlusMinus, Div, Pow, Root, Call, Percent, Quantity)
_CLOSED = frozenset(("factorial", "doublefactorial", "binom", "perm"))
_AT_ZERO = frozenset("sin cos tan sec arcsin arctan sinh cosh tanh exp".split())
_ONE = Number(Fraction(1))


def leaves_arithmetic(gold: Node, answer: Node, question: str, work: WorkBudget, *, rounded: bool = False) -> bool:
    """Return whether `answer`, which equals `gold`, has a number that is not worked out although the gold's numbers are.

    Args:
        gold: the correct answer.
        answer: the answer to judge.
        question: the task's text. A formula asked for there counts as a name.
        work: the budget for exact values.
        rounded: whether gold and answer are equal only up to rounding. A rational gold may then be the rounded form of an
            irrational number, so that the answer need not be a numeral.
    """
    if gold == answer or isinstance(answer, Number) or not question.strip():
        return False  # without a question a bare pair, to be compared
    if _is_rearranged(gold, answer):
        return False
    golds = [side for sides in _claimed(gold, question) for side in sides]
    rounds = [value for one in golds if (value := _value(one, work)) is not None]
    numbers = [one for one in golds if _is_number(one)]
    if not numbers or not all(is_worked_out(one, work) for one in numbers):
        return False
    exact = not rounded and len(numbers) == len(golds) and all(_value(one, work) is not None for one in numbers)
    # Letters in an answer may be units, or unit vectors, where the gold has some.
    bare = len(numbers) == len(golds) and not any(isinstance(part, Quantity | Group | Matrix) for part in walk(gold))
    if not any(_is_ratio(part) for part in walk(gold)):
        answer = rebuild(answer, lambda part: Div(*part.sides) if _is_ratio(part) else part)
    return any(not any(_answers(side, work, exact, bare) for side in sides) for sides in _claimed(answer, question, rounds))


def _is_rearranged(gold: Node, answer: Node) -> bool:
    """Return whether an equation of several names has names on both sides: `y = 1 - x` for x + y = 1 claims no number."""
    if not all(isinstance(one, Relation) and is_equation(one) and len(symbols(one)) > 1 for one in (gold, answer)):
        return False
    wanted, given = (Counter(part for part in walk(one) if isinstance(part, Symbol)) for one in (gold, answer))
    return isinstance(answer, Relation) and all(map(symbols, answer.sides)) and given <= wanted


def leaves_residue(gold: Node, answer: Node, question: str) -> bool:
    r"""Return whether `answer`, which equals `gold`, is a congruence whose residue is not worked out: `x \equiv 7^{100}`."""
    given, wanted = congruence(answer), congruence(gold)
    if given is None or not question.strip():
        return False
    return is_literal(_residue(wanted) if wanted else gold) and not is_literal(_residue(given))


def _residue(of: Congruence) -> Node:
    return of.residue.args[0] if isinstance(of.residue, Call) and of.residue.name == "mod" else of.residue


def leaves_matrices(gold: Node, answer: Node, question: str) -> bool:
    """Return whether `answer`, which equals `gold`, has matrix arithmetic left to do.

    This is so if the answer has more matrices than the gold, or raises a matrix to a power.
    """
    golds, sides = (node.sides if isinstance(node, Relation) else (node,) for node in (gold, answer))
    most = max(map(_matrices, golds))
    return bool(question.strip() and most) and not any(_matrices(side) <= most for side in sides)


def _matrices(node: Node) -> int:
    """Return how many matrices a tree holds; one with a power of a matrix holds more than any without."""
    powers = any(isinstance(part, Pow) and isinstance(part.base, Matrix) and not symbols(part.exponent) for part in walk(node))
    return sum(isinstance(part, Matrix) for part in walk(node)) + (1000 if powers else 0)


def _is_infinite(node: Node) -> bool:
    return _bare(node) == Constant("infinity")


def _is_ratio(node: Node) -> TypeGuard[Relation]:
    return isinstance(node, Relation) and node.comparators == (":",)


def _answers(side: Node, work: WorkBudget, exact: bool, bare: bool) -> bool:
    """Return whether a side of a chain is a number that is worked out, or something that this rule does not judge."""
    if _is_number(side):
        return is_worked_out(side, work) and not (exact and _value(side, work) is None and not _is_infinite(side))
    letters = (
        bool(symbols(side)) and not isinstance(side, Symbol) and all(isinstance(p, (*_NUMERIC, Symbol)) for p in walk(side))
    )
    vectors = isinstance(side, _NUMERIC) and any(
        isinstance(part, Group | Matrix) for part in walk(side)
    )  # a norm, a determinant
    return not (bare and (letters or vectors))


def _claimed(node: Node, question: str, golds: Sequence[Fraction] = ()) -> Iterator[tuple[Node, ...]]:
    """Yield the values that a tree states, each with all the sides of its chain: elements, ends, bounds.

    Of rounded sides count those that are the value before them, or one of `golds`.
    """
    match node:
        case Group(_, _, parts) | Listing(parts, _) | SetOp(_, parts):
            for part in parts:
                yield from _claimed(part, question, golds)
        case SetBuilder(_, condition):
            yield from _claimed(condition, question, golds)
        case Relation(sides, comparators) if "equiv" not in comparators and not is_equation(node):
            for side in sides:
                if not symbols(side):
                    yield from _claimed(side, question, golds)
        case Relation(sides, comparators) if "approx" in comparators:
            for claim in claims(node, question):
                first = len(claim) - (len(sides) - comparators.index("approx") - 1)
                last = rational(claim[first - 1]) if first > 0 else None
                rounded = claim[max(first, 0) :]
                yield (*claim[:first], *(side for side in rounded if first <= 0 or rational(side) in (last, *golds)))
        case _:
            yield from claims(node, question)


def _is_number(node: Node) -> bool:
    return all(
        isinstance(part, _NUMERIC) and not (isinstance(part, Call) and part.name not in FUNCTIONS) for part in walk(node)
    )


def _value(node: Node, work: WorkBudget) -> Fraction | None:
    """Return the exact value of a rational number, without its units."""
    if any(isinstance(part, Quantity | PlusMinus) for part in walk(node)):
        node = rebuild(node, lambda part: part.value if isinstance(part, Quantity) else part)
        node = rebuild(node, lambda part: part.of if isinstance(part, PlusMinus) else part)
    return rational(node, work)


def is_worked_out(node: Node, work: WorkBudget) -> bool:
    """Return whether the number `node` is worked out."""
    if isinstance(node, Number | Constant) or is_residue(node):
        return True
    if _value(node, work) is not None:
        return _is_numeral(node, work)
    if _is_known(node):
        return False
    match node:
        case Neg(of) | PlusMinus(of, _):
            return not isinstance(of, Neg | PlusMinus) and is_worked_out(of, work)
        case Quantity(of, _) | Percent(of):
            return is_worked_out(of, work)
        case Add(parts) | Mul(parts):
            return not _join(node, parts, work) and all(is_worked_out(part, work) for part in parts)
        case Div(top, bottom):
            return not goes_out(shape(top), shape(bottom)) and is_worked_out(top, work) and is_worked_out(bottom, work)
        case Pow(Constant("i"), _):
            return False
        case Pow(base, Number(value, 0)) if _is_sum(base) and value > 1:
            return False
        case Pow(base, exponent) | Root(base, exponent):
            return is_worked_out(base, work) and is_worked_out(exponent, work)
        case Call(name, args):
            return name in BINDERS or all(is_worked_out(arg, work) for arg in args)
    return True


def _is_known(node: Node) -> bool:
    """Return whether everyone knows the value of a power or function: e^0, e^1, arctan 0, ln 1."""
    match node:
        case Pow(_, Number(0 | 1)) | Call("ln" | "log", (Number(1) | Constant("e"), *_)):
            return True
        case Call(name, (Number(0),)):
            return name in _AT_ZERO
    return False


def _bare(term: Node) -> Node:
    return term.of if isinstance(term, Neg | PlusMinus) else term


def _join(node: Node, parts: tuple[Node, ...], work: WorkBudget) -> bool:
    """Return whether two terms of a sum, or two factors of a product, can still be combined."""
    if sum(_value(part, work) is not None for part in parts) > 1 or (isinstance(node, Mul) and sum(map(_is_sum, parts)) > 1):
        return True
    alike = [kind_of(shape(_bare(part))) if isinstance(node, Add) else part for part in parts]
    return len(set(alike)) < len(alike)


def _is_sum(node: Node) -> bool:
    """Return whether a factor is a sum, or a fraction of one: two of them are multiplied out."""
    node = _bare(node)
    return isinstance(_bare(node.top) if isinstance(node, Div) else node, Add)


def _is_numeral(node: Node, work: WorkBudget) -> bool:
    """Return whether a rational number is written in a usual final form."""
    match node:
        case Neg(of) | PlusMinus(of, _):
            return not isinstance(of, Neg | PlusMinus) and _is_numeral(of, work)
        case Quantity(of, _) | Percent(of):
            return _is_numeral(of, work)
        case Div(top, bottom):
            return _is_fraction(_bare(top), _bare(bottom), work)
    return isinstance(node, Number) or _is_closed(node)


def _is_fraction(top: Node, bottom: Node, work: WorkBudget) -> bool:
    if bottom == _ONE:
        return _is_integer(top) or _is_closed(top)
    if not all(_is_integer(part) or _is_closed(part) for part in (top, bottom)):
        return False
    value, over, under = (_value(part, work) for part in (Div(top, bottom), top, bottom))
    if value is None or over is None or under is None:
        return True
    if _is_closed(top) or _is_closed(bottom):
        return abs(value.numerator * under) == abs(value.denominator * over) and value.denominator == abs(under)
    return value.denominator > 1


def _is_closed(node: Node) -> bool:
    """Return whether a node is a power, factorial or binomial of literals, other than one that does nothing, as 17^1."""
    match node:
        case Pow(base, exponent):
            base, power = _bare(base), _bare(exponent)
            fraction = isinstance(base, Div) and _is_integer(_bare(base.top)) and _is_integer(base.bottom)
            if not (fraction or (isinstance(base, Number) and base.value not in (0, 1))) or not _is_integer(power):
                return False
            return exponent != _ONE and power.value > 0
        case Call(name, args) if name in _CLOSED:
            return all(_is_integer(arg) for arg in args)
    return False


def _is_integer(node: Node) -> TypeGuard[Number]:
    return isinstance(node, Number) and node.value.denominator == 1 and not node.decimals and node.style == "plain"
