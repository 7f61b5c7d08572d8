r"""Congruences: `x \equiv 2 \pmod 5` is a claim about one modulus; `2 \pmod 5` leaves out the name."""

from __future__ import annotations

from typing import NamedTuple

from verigym.envs.maths.equality.exactly import rational
from verigym.envs.maths.judging.case import Case, all_of
from verigym.envs.maths.judging.statements import Same
from verigym.envs.maths.tree import Call, Node, Relation
from verigym.envs.maths.verdict import Verdict


class Congruence(NamedTuple):
    """The sides that are congruent, the last of them as a residue `mod(r, m)`, and the modulus."""

    names: tuple[Node, ...]
    residue: Node
    modulus: Node


def congruence(node: Node) -> Congruence | None:
    """Read a congruence or a residue; None of anything else."""
    match node:
        case Call("mod", (_, modulus)):
            return Congruence((), node, modulus)
        case Relation((*names, residue, Call("modulus", (modulus,))), comparators) if set(comparators) == {"equiv"}:
            return Congruence(tuple(names), residue, modulus)
        case Relation((*names, Call("mod", (_, modulus)) as residue), comparators) if set(comparators) == {"equiv"}:
            return Congruence(tuple(names), residue, modulus)
    return None


def _is_true(case: Case, side: Node, claim: Congruence) -> bool:
    """Whether an integer is what it is said to be, modulo the modulus; true of a side that is no integer."""
    residue = claim.residue.args[0] if isinstance(claim.residue, Call) and claim.residue.name == "mod" else claim.residue
    value, rest, modulus = (rational(node, case.work) for node in (side, residue, claim.modulus))
    if value is None or rest is None or not modulus:
        return True
    return (value - rest) % modulus == 0


def same_congruences(case: Case, gold: Node, answer: Node, same: Same) -> Verdict | None:
    """Compare two congruences, or a value with the residue in one; None where neither side is a congruence."""
    left, right = congruence(gold), congruence(answer)
    if right is None or (left is None and not right.names):
        return None  # 17 mod 5 is a value
    if not all(_is_true(case, name, right) for name in right.names):
        return case.refuse("a congruence that does not hold")
    if left is None:
        return case.values(gold, right.residue) if len(right.names) == 1 else None
    if case.values(left.modulus, right.modulus) != "same":
        return case.refuse("another modulus")
    if left.names and right.names and len(left.names) != len(right.names):
        return case.refuse("another congruence")
    if left.names and not right.names and case.policy.name == "required":
        return case.decided("name", False, "the name is missing")
    if case.values(left.residue, right.residue) != "same":
        return case.refuse("another residue")
    return all_of(same(case, one, two) for one, two in zip(left.names, right.names, strict=False))
