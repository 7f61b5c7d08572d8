"""Decides whether two expressions are equal, from cheap to costly: exact values, canonical forms, many digits at points.

The verdict "different" is certain under these conventions: variables are real unless i occurs; a variable that the gold uses as
an integer is an integer; roots of odd degree of negative numbers are real; a point counts only if both sides are defined there.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal, NamedTuple

from verigym.envs.math.build import literal, rebuild
from verigym.envs.math.equality import matrices
from verigym.envs.math.equality.budget import TooMuch, Undecided, WorkBudget
from verigym.envs.math.equality.canonical import Canonical, difference
from verigym.envs.math.equality.conjugates import with_conjugates
from verigym.envs.math.equality.indices import with_indices
from verigym.envs.math.equality.numbers import numeric
from verigym.envs.math.equality.numbers.evaluate import Evaluation
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.numbers.numeric import Arithmetic, Value
from verigym.envs.math.equality.polynomial import decisive
from verigym.envs.math.equality.probing import points
from verigym.envs.math.equality.probing.points import free_symbols
from verigym.envs.math.equality.probing.probe import PROBE_WORK, Probe
from verigym.envs.math.tree import MAX_HEIGHT, Constant, Div, Mul, Neg, Node, Number, Symbol, Verdict, children, walk

MAX_NODES = 2000
"""Maximum number of nodes; larger trees are not compared."""
_NODE_WORK = 30
"""Units for walking through a tree a few times, for each node."""
CANONICAL_WORK = 150_000
"""Units of work for both canonical forms, about 20 ms."""
VALUE_WORK = 600_000
"""Units of work for one comparison with all its tiers, about 75 ms."""
CONSTANT_WORK = 300_000
"""Units of work for one approximation."""


class Equality(NamedTuple):
    """A verdict on two expressions, and the tier that gave it."""

    verdict: Verdict
    how: Literal["exact", "canonical", "probed", "symbolic", "limit"]


_SAME = Equality("same", "exact")
_DIFFERENT = Equality("different", "exact")
_LIMIT = Equality("unknown", "limit")
_UNKNOWN = Equality("unknown", "probed")


def compare_values(gold: Node, answer: Node, seed: str = "", work: WorkBudget | None = None) -> Equality:
    """Return whether two scalar expressions have the same value: "same", "different", or "unknown" if undecided. Never raises.

    Args:
        gold: the first expression; its use of a variable decides whether the variable is an integer.
        answer: the second expression.
        seed: seed of the points at which variables are evaluated; the points depend on both expressions as well.
        work: the caller's budget, of which at most `VALUE_WORK` is used. Without it, a budget of that size is used.
    """
    one, two = _literal(gold), _literal(answer)
    if one is not None and two is not None:
        return _SAME if one == two else _DIFFERENT
    if not (_fits(gold) and _fits(answer)):
        return _LIMIT
    if gold == answer:
        return _SAME
    return _within(_compare, gold, answer, seed, work)


def _within(
    tier: Callable[[Node, Node, str, WorkBudget], Equality], a: Node, b: Node, seed: str, work: WorkBudget | None
) -> Equality:
    share = WorkBudget(VALUE_WORK) if work is None else work.share(VALUE_WORK)
    try:
        share.spend(_NODE_WORK * (_count(a) + _count(b)))
        return tier(a, b, seed, share)
    except (TooMuch, RecursionError, OverflowError, MemoryError):
        return _LIMIT
    except Undecided:
        return _UNKNOWN
    finally:
        if work is not None:
            work.settle(share)


def _compare(a: Node, b: Node, seed: str, work: WorkBudget) -> Equality:
    one, two = rational(a, work), rational(b, work)
    if one is not None and two is not None:
        return _SAME if one == two else _DIFFERENT
    infinite = [_has_infinity(node) for node in (a, b)]
    if any(infinite):
        return _infinities(a, b, infinite)
    a, b = _prepared(a, b, work)
    canonical = _canonical(work)
    try:
        apart = difference(canonical.form(a, {}), canonical.form(b, {}), canonical.atoms)
    except Undecided:
        pass
    else:
        if not apart:
            return Equality("same", "canonical")
        if decisive(canonical.atoms, apart):
            return Equality("different", "canonical")
    finally:
        work.settle(canonical.work)
    share = work.share(PROBE_WORK)
    try:
        with numeric.LOCK:
            return Equality(Probe(a, b, points.fingerprint(a, b, seed), share).equal(), "probed")
    finally:
        work.settle(share)


def _prepared(a: Node, b: Node, work: WorkBudget) -> tuple[Node, Node]:
    return with_conjugates(*with_indices(matrices.write_out(a, work), matrices.write_out(b, work)))


def _canonical(work: WorkBudget) -> Canonical:
    return Canonical(work.share(CANONICAL_WORK))


def _literal(node: Node) -> Fraction | None:
    """Return the value of a number with or without a sign, the most frequent answer, at once."""
    if type(node) is Number:
        return node.value
    if type(node) is Neg and type(node.of) is Number:
        return -node.of.value
    return None


def _count(node: Node) -> int:
    return sum(1 for _ in walk(node))


def _fits(node: Node) -> bool:
    """Tell whether a tree is small and shallow enough to be walked by recursion."""
    count, level = 0, [node]
    for _ in range(MAX_HEIGHT):
        count += len(level)
        if count > MAX_NODES:
            return False
        level = [child for one in level for child in children(one)]
        if not level:
            return True
    return False


def _has_infinity(node: Node) -> bool:
    return any(part == Constant("infinity") for part in walk(node))


def _infinities(a: Node, b: Node, infinite: list[bool]) -> Equality:
    signs = [_infinite_sign(node) for node in (a, b)]
    if all(infinite):
        if None in signs:
            return _UNKNOWN
        return _SAME if signs[0] == signs[1] else _DIFFERENT
    return _DIFFERENT if signs[0 if infinite[0] else 1] is not None else _UNKNOWN


def _infinite_sign(node: Node) -> int | None:
    """Return the sign of an infinity with a sign or a rational factor before it."""
    match node:
        case Constant("infinity"):
            return 1
        case Neg(of):
            sign = _infinite_sign(of)
            return None if sign is None else -sign
        case Mul((factor, rest)) | Mul((rest, factor)):
            number, sign = rational(factor), _infinite_sign(rest)
            if number and sign is not None:
                return sign if number > 0 else -sign
    return None


def proportional(gold: Node, answer: Node, seed: str = "", work: WorkBudget | None = None) -> Equality:
    """Return whether `gold` = c * `answer` for a nonzero constant c, so that `gold = 0` and `answer = 0` are the same equation.

    The verdict is "unknown" if either expression has no variables or is zero everywhere. The arguments are those of
    `compare_values`.
    """
    if not (_fits(gold) and _fits(answer)):
        return _LIMIT
    return _within(_proportional, gold, answer, seed, work)


def _proportional(a: Node, b: Node, seed: str, work: WorkBudget) -> Equality:
    if not free_symbols(a) or not free_symbols(b) or _has_infinity(a) or _has_infinity(b):
        return _UNKNOWN
    a, b = _prepared(a, b, work)
    canonical = _canonical(work)
    try:
        one, two = canonical.form(a, {}), canonical.form(b, {})
        if not one.top or not two.top:
            return _UNKNOWN if not one.top and not two.top else Equality("different", "canonical")
        left = canonical.atoms.multiply(one.top, two.bottom)
        right = canonical.atoms.multiply(two.top, one.bottom)
        lead = max(left)
        if lead in right:
            ratio = Fraction(left[lead]) / right[lead]
            if left == canonical.atoms.scale(right, ratio):
                return Equality("same", "canonical")
        kinds = {canonical.atoms.listed[atom].kind for poly in (left, right) for term in poly for atom, _ in term}
        if kinds <= {"symbol"}:
            return Equality("different", "canonical")
    except Undecided:
        pass
    finally:
        work.settle(canonical.work)
    share = work.share(PROBE_WORK)
    try:
        with numeric.LOCK:
            return Equality(_constant_ratio(a, b, points.fingerprint(a, b, seed), share), "probed")
    finally:
        work.settle(share)


def _constant_ratio(a: Node, b: Node, seed: str, work: WorkBudget) -> Verdict:
    """Compare a / b with its value at one point: the point's symbols are replaced by literals."""
    names = sorted(free_symbols(a) | free_symbols(b))
    whole = points.integer_names(a, b).intersection(names)
    ratio = Div(a, b)
    nodes = _count(ratio)
    for point in points.real_points(names, whole, f"{seed}/ratio"):
        literals: dict[str, Node] = {name: literal(value) for name, value in point.items()}

        def placed(part: Node, literals: dict[str, Node] = literals) -> Node:
            return literals.get(part.name, part) if isinstance(part, Symbol) else part

        work.spend(nodes * _NODE_WORK)
        fixed = rebuild(ratio, placed)
        try:
            value = Evaluation(Arithmetic(192, work, real=True), seed).value(fixed, {})
        except TooMuch:
            raise
        except Undecided:
            continue
        if not value[1]:
            continue
        return Probe(ratio, fixed, seed, work, (a, b)).equal()
    return "unknown"


def approximation(node: Node, digits: int = 30, work: WorkBudget | None = None) -> Fraction | None:
    """Return a fraction that approximates the real constant `node` with a relative error below 10 ** -digits.

    The cost is subtracted from the budget `work`, if given.

    Returns:
        The fraction; None if `node` is not a real constant.
    """
    exact = rational(node, work)
    if exact is not None:
        return exact
    value = _constant(node, digits, work)
    if value is None or len(value) == 2 or abs(value[2]) > 100_000:
        return None
    mantissa = -value[1] if value[0] else value[1]
    return Fraction(mantissa << value[2]) if value[2] >= 0 else Fraction(mantissa, 1 << -value[2])


def _constant(node: Node, digits: int, work: WorkBudget | None) -> Value | None:
    if digits > 1000 or not _fits(node) or free_symbols(node):
        return None
    share = WorkBudget(CONSTANT_WORK) if work is None else work.share(CONSTANT_WORK)
    precision = digits * 4 + 2 * numeric.SLACK
    try:
        node = matrices.write_out(node, share)
        with numeric.LOCK:
            for _ in range(3):
                arithmetic = Arithmetic(precision, share, real=False)
                value = Evaluation(arithmetic, "").value(node, {})
                spare = precision - 2 * numeric.SLACK - digits * 4
                if arithmetic.need + arithmetic.lost <= spare + 32:
                    return value
                precision += arithmetic.need + arithmetic.lost
                if precision > numeric.MAX_PRECISION:
                    return None
    except (Undecided, RecursionError, OverflowError, MemoryError):
        pass
    finally:
        if work is not None:
            work.settle(share)
    return None
