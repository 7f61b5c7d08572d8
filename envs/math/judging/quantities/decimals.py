"""Decides when a decimal is accepted for a number that it only approximates: the options `decimals` and `tolerance`.

The arithmetic is exact. A decimal has as many digits as were written; if it is compared with another decimal, trailing zeros do
not count. The option `decimals` accepts a decimal for another number only if all digits of the decimal are right, with the last
one rounded. So changing any digit makes it wrong, and a short decimal is accepted only for its exact value.
"""

from __future__ import annotations

from fractions import Fraction

from verigym.envs.math.equality.budget import WorkBudget
from verigym.envs.math.equality.values import approximation
from verigym.envs.math.judging.case import Case
from verigym.envs.math.tree import Neg, Node, Number, Verdict

SIX = 6
DOUBLE = 15
EPSILON = Fraction(1, 2**52)
GUARD_DIGITS = 12
MAX_DIGITS = 200


def stands_for(case: Case, gold: Node, answer: Node) -> Verdict:
    """Return "same" if the policy accepts one of the different numbers `gold` and `answer` as an approximation of the other.

    Otherwise, return "different".
    """
    rule = case.policy.decimals
    if rule != "exact" and any(rounds_to(one, two, rule, case.work) for one, two in ((answer, gold), (gold, answer))):
        return case.decided("decimals", True, "")
    if case.policy.tolerance and _near(gold, answer, case.policy.tolerance, case.work):
        return case.decided("tolerance", True, "")
    return "different"


def rounds_to(decimal: Node, exact: Node, rule: str = "six", work: WorkBudget | None = None) -> bool:
    """Return whether the number `decimal` is `exact`, rounded.

    Args:
        decimal: a number written as a decimal.
        exact: the other number.
        rule: how many digits the decimal needs: `six`, or any other value for those of a double-precision float.
        work: the budget from which the cost is subtracted, if given.
    """
    written, other = decimal_of(decimal), decimal_of(exact)
    if written is None or (other is not None and other[1] <= written[1]):
        return False
    value, places = written
    if other is None:
        places = max(places, written_places(decimal))
    enough = places >= SIX and digits_of(value, places) >= SIX if rule == "six" else digits_of(value, places) >= DOUBLE
    if not enough or places > MAX_DIGITS:
        return False
    target = approximation(exact, digits_of(value, places) + GUARD_DIGITS, work)
    if target is None or target.denominator == 1:
        return False
    error = abs(target - value)
    double = digits_of(value, places) >= DOUBLE and error <= abs(target) * EPSILON
    return double or error * 2 <= Fraction(1, 10**places)


def written_places(node: Node) -> int:
    """Return the number of decimal places of `node`, with trailing zeros, if it is a plain literal; 0 for any other tree."""
    node = node.of if isinstance(node, Neg) else node
    return node.decimals if isinstance(node, Number) and node.style == "plain" else 0


def rounded_at(decimal: Node, exact: Node, work: WorkBudget | None = None, *, whole: bool = False) -> bool:
    """Return whether the number `decimal`, however short, is `exact` correctly rounded at its last digit.

    The cost is subtracted from the budget `work`, if given. With `whole`, the number may be a whole one.
    """
    written = decimal_of(decimal)
    number = decimal.of if isinstance(decimal, Neg) else decimal
    if written is None and whole and isinstance(number, Number) and number.value.denominator == 1:
        written = (number.value if number is decimal else -number.value), 0
    if written is None or written[1] > MAX_DIGITS:
        return False
    value, places = written
    target = approximation(exact, digits_of(value, places) + GUARD_DIGITS, work)
    return target is not None and value != 0 and abs(target - value) * 2 <= Fraction(1, 10**places)


def decimal_of(node: Node) -> tuple[Fraction, int] | None:
    """Return the value of `node`, a literal with a decimal point, and the number of its decimal places.

    Trailing zeros do not count. The literal may be signed. The result is None for whole numbers and for any other tree.
    """
    if isinstance(node, Neg):
        inner = decimal_of(node.of)
        return None if inner is None else (-inner[0], inner[1])
    if not isinstance(node, Number) or not node.decimals or node.style not in ("plain", "scientific"):
        return None
    value, places = node.value, 0
    while value.denominator != 1:
        if places >= MAX_DIGITS:
            return None
        value *= 10
        places += 1
    return (node.value, places) if places else None


def digits_of(value: Fraction, places: int) -> int:
    """Return the number of significant digits of `value`, written with `places` decimal places."""
    return len(str(abs(int(value * 10**places))).lstrip("0"))


def _near(gold: Node, answer: Node, tolerance: float, work: WorkBudget) -> bool:
    left, right = approximation(gold, work=work), approximation(answer, work=work)
    if left is None or right is None:
        return False
    return abs(left - right) <= Fraction(tolerance) * abs(left)
