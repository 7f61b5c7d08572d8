r"""Compares congruences, such as `x \equiv 2 \pmod 5` with the name x, or `2 \pmod 5` without a name."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import NamedTuple

from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.numbers.remainders import remainder
from verigym.envs.math.judging.case import Case, all_of, is_expression
from verigym.envs.math.judging.names import is_name
from verigym.envs.math.judging.question import MAX_CHARS, mentions, numbers_in
from verigym.envs.math.judging.statements.statements import Same
from verigym.envs.math.tree import Call, Node, Relation, Verdict, symbols, walk

_DIVISION = re.compile(
    r"(?:\\[pb]?mod\b|\bmod(?:ulo)?\b|\bdivi(?:ded|sion) by\b)"
    r"[\s$({\\]*(?:(\d{1,18}(?:,\d{3})*)(?!\d|\.\d|\s*[\^!*/+]|\s*\\(?:cdot|times)))?",
    re.IGNORECASE,
)
_LAST_DIGITS = re.compile(
    r"\b(?:(units?'?s?|ones|final|last) digit|(?:last|final) (two|three|four|five|six|[2-9]) digits|"
    r"(tens|hundreds|thousands) digit)\b",
    re.IGNORECASE,
)
_DIGITS = {word: count for count, word in enumerate("two three four five six".split(), 2)} | {
    "tens": 2, "hundreds": 3, "thousands": 4,
}  # fmt: skip
_CHAIN = frozenset(("=", "equiv"))


class Congruence(NamedTuple):
    """A congruence such as x = 2 (mod 5): the sides before the last (x), the last side (`mod(2, 5)`) and the modulus (5)."""

    names: tuple[Node, ...]
    residue: Node
    modulus: Node


def congruence(node: Node) -> Congruence | None:
    """Return the congruence or the residue that `node` denotes; None for any other tree."""
    match node:
        case Call("mod", (_, modulus)):
            return Congruence((), node, modulus)
        case Relation((*names, residue, Call("modulus", (modulus,))), comparators) if _CHAIN.issuperset(comparators):
            return Congruence(tuple(names), residue, modulus)
        case Relation((*names, Call("mod", (_, modulus)) as residue), comparators) if _CHAIN.issuperset(comparators):
            return Congruence(tuple(names), residue, modulus) if "equiv" in comparators else None
    return None


def _links_hold(case: Case, node: Node) -> bool:
    r"""Whether all links of `2^{10} = 1024 \equiv 24 \pmod{100}` that are equations hold; the first side may be a name."""
    if not isinstance(node, Relation) or "=" not in node.comparators:
        return True
    links = zip(node.sides, node.sides[1:], node.comparators, strict=False)
    equations = [(left, right) for left, right, sign in links if sign == "="]
    named = node.comparators[0] == "=" and rational(node.sides[0], case.work) is None
    return all(case.values(left, right) == "same" for left, right in equations[named:])


def _is_true(case: Case, side: Node, claim: Congruence) -> bool:
    """Return whether a number is what it is said to be, modulo the modulus; true of what is no number but a name for one.

    A formula with letters is a name where the question speaks of it; a number that cannot be worked out is not believed.
    """
    residue = claim.residue.args[0] if isinstance(claim.residue, Call) and claim.residue.name == "mod" else claim.residue
    rest, modulus = rational(residue, case.work), rational(claim.modulus, case.work)
    if symbols(side) or not is_expression(side, case.work):
        return is_name(side, case.question) or mentions(case.question, side)
    if rest is None or not modulus:
        return True
    value: Fraction | int | None = rational(side, case.work)
    if value is None and modulus.denominator == 1:
        value = remainder(side, abs(int(modulus)), case.work)
    if value is None:
        return False
    apart = value - rest
    # 1/3 is 4 modulo 11: 1/3 - 4 = -11/3
    return apart % modulus == 0 or (modulus.denominator == 1 and apart.numerator % modulus == 0)


def same_congruences(case: Case, gold: Node, answer: Node, same: Same) -> Verdict | None:
    """Compare two congruences, or a gold that is a value with the residue of an answer that is a congruence.

    Args:
        case: the state of the comparison.
        gold: the correct answer.
        answer: the answer to judge.
        same: compares two trees.

    Returns:
        The verdict. None if `answer` is not a congruence, or if `gold` is a plain value and `answer` only a residue such as
        `17 mod 5`, which is a value too.
    """
    left, right = congruence(gold), congruence(answer)
    if right is None or (left is None and not right.names):
        return None  # 17 mod 5 is a value
    sides = right.names if left is None else [name for name in right.names if not symbols(name)]
    if not all(_is_true(case, name, right) for name in sides) or not _links_hold(case, answer):
        return case.refuse("a congruence that does not hold")
    if left is None:
        known = all(rational(name, case.work) is not None for name in right.names[1:])
        return case.values(gold, right.residue) if known else None
    if case.values(left.modulus, right.modulus) != "same":
        return case.refuse("another modulus")
    if left.names and right.names and len(left.names) != len(right.names):
        return case.refuse("another congruence")
    if left.names and not right.names and case.policy.name == "required":
        return case.decided("name", False, "the name is missing")
    if case.values(left.residue, right.residue) != "same":
        return case.refuse("another residue")
    return all_of(same(case, one, two) for one, two in zip(left.names, right.names, strict=False))


def is_foreign(question: str, gold: Node, answer: Node) -> bool:
    r"""Return whether `answer` has another modulus than `question`, as `3 \pmod 7` if a remainder modulo 10 is asked for.

    If the question names several moduli, their least common multiple is allowed too. If it names none and asks `how many`, only
    the numbers that occur in the question are allowed as moduli. Any modulus is allowed if the question names one that is not a
    plain number, or if `gold` itself has a modulus.
    """
    given = {modulus for part in walk(answer) if (modulus := _modulus(part)) is not None}
    if not given or any(_modulus(part) is not None for part in walk(gold)):
        return False
    moduli = _moduli_of(question)
    if not moduli:
        return moduli is not None and "how many" in question.lower() and not given <= set(numbers_in(question[:MAX_CHARS]))
    return not given <= moduli | {Fraction(lcm(*map(int, moduli)))}


def _modulus(node: Node) -> Fraction | None:
    match node:
        case Call("modulus", (modulus,)) | Call("mod", (_, modulus)):
            return rational(modulus)
    return None


@lru_cache(maxsize=256)
def _moduli_of(question: str) -> frozenset[Fraction] | None:
    """Return the moduli that a question names; None where one of them cannot be told."""
    text = question[:MAX_CHARS]
    divisors = [match.group(1) for match in _DIVISION.finditer(text)]
    if None in divisors:
        return None
    counts = [_digit_count(*match.groups()) for match in _LAST_DIGITS.finditer(text)]
    return frozenset(Fraction(one.replace(",", "")) for one in divisors) | {Fraction(10**count) for count in counts}


def _digit_count(one: str | None, many: str | None, place: str | None) -> int:
    if one:
        return 1
    word = (many or place or "").casefold()
    return int(word) if word.isdigit() else _DIGITS[word]
