"""Compares an answer with a gold, by the gold's type: values, lists, sets, tuples, intervals, statements, matrices, words.

The answer must make exactly the gold's claim: all elements are required, and nothing may be added, hedged or taken back.
The reason of a verdict names the first mismatch and the options that decided.
"""

from __future__ import annotations

from typing import NamedTuple

from verigym.envs.math.judging.case import Case, Symbolic
from verigym.envs.math.judging.choices import is_contradicted
from verigym.envs.math.judging.guards.copied import is_copied
from verigym.envs.math.judging.guards.echo import REPEATS, hands_back
from verigym.envs.math.judging.guards.equations import is_restated
from verigym.envs.math.judging.guards.factored import is_less_factored
from verigym.envs.math.judging.guards.leftovers import leaves_step
from verigym.envs.math.judging.guards.unworked import is_unworked
from verigym.envs.math.judging.guards.worked import leaves_arithmetic, leaves_matrices, leaves_residue
from verigym.envs.math.judging.notations import written_as
from verigym.envs.math.judging.parameters import settled
from verigym.envs.math.judging.policy import Policy
from verigym.envs.math.judging.readings import read
from verigym.envs.math.judging.real_sets.sets import same_sets
from verigym.envs.math.judging.remarks import without_remarks
from verigym.envs.math.judging.scalars import same_scalar
from verigym.envs.math.judging.statements.conditions import without_conditions
from verigym.envs.math.judging.statements.congruences import is_foreign
from verigym.envs.math.judging.structures.listings import same_lists
from verigym.envs.math.judging.structures.vectors import in_components
from verigym.envs.math.judging.texts import names_choices, without_letters
from verigym.envs.math.tree import Add, Clock, Constant, Group, InBase, Listing, Node, Number, Relation, Symbol, Text, Verdict

# Nodes that hold no list, statement or `\pm`.
_PLAIN = (Number, Symbol, Constant, Text, InBase, Clock)
_WORDS = {
    "exact": "equal (exact)",
    "canonical": "equal (canonical)",
    "probed": "equal (probed)",
    "symbolic": "equal (symbolic)",
    "limit": "equal",
}


class Judgement(NamedTuple):
    """The verdict on one answer. `correct` is None if no tier could decide."""

    correct: bool | None
    reason: str
    tier: str
    guarded: bool = False
    """Whether the answer repeats the question or leaves work to be done. If so, no further tier is tried."""


def judge_answer(
    gold: Node, answer: Node, policy: Policy, *, question: str = "", seed: str = "", symbolic: Symbolic | None = None
) -> Judgement:
    """Compare `answer` with `gold` and return the verdict.

    Args:
        gold: the correct answer.
        answer: the answer to judge.
        policy: options for what counts as the same answer.
        question: the task's text. It tells which names, units and conditions are given, and an answer must not merely repeat
            it.
        seed: seed of the points for numerical comparison.
        symbolic: compares values that no cheaper tier can decide, once everything else matches.
    """
    if type(gold) is Number and type(answer) is Number:
        if gold.value == answer.value:
            if policy.unsimplified == "accept" and (gold.style == answer.style or policy.echo == "accept"):
                return Judgement(True, _WORDS["exact"], "exact")
        elif not policy.tolerance and gold.value.denominator == answer.value.denominator == 1:
            return Judgement(False, "not equal: another value", "exact")
    count = _count(answer)
    if count > max(policy.max_values, _count(gold)):
        return Judgement(False, f"refused: {count} values, over {policy.max_values}", "limit")
    case = Case(policy, question, seed)
    pair: tuple[Node, Node]
    if isinstance(gold, _PLAIN) and isinstance(answer, _PLAIN):
        pair, verdict = (gold, answer), same(case, gold, answer)
    else:
        gold, answer = written_as(gold, without_remarks(gold, answer, question), question)
        pair, verdict = _same_settled(case, gold, answer)
    if verdict == "unknown" and symbolic is not None and case.work.left > 0:
        case = case.asking(symbolic)
        verdict = same(case, *pair)
    notes = "".join(f"; {note}" for note in case.notes)
    if verdict == "different":
        return Judgement(False, f"not equal: {case.refusal or 'another value'}{notes}", case.tier)
    gold, answer, _ = without_conditions(gold, answer, question)  # which the question may state, too
    guarded = _guarded(case, gold, answer)
    if verdict == "unknown":
        return Judgement(None, "no tier could tell it from a wrong answer" + notes, case.tier, bool(guarded))
    if guarded:
        return Judgement(False, guarded + notes, case.tier, True)
    return Judgement(True, _WORDS[case.tier] + notes, case.tier)


def _same_settled(case: Case, gold: Node, answer: Node) -> tuple[tuple[Node, Node], Verdict]:
    """Compare two trees under each renaming of free constants; return the first pair that is the same, else the first pair."""
    results: list[tuple[tuple[Node, Node], Verdict]] = []
    for pair in settled(gold, answer, case.question):
        results.append((pair, same(case, *pair)))
        if results[-1][1] == "same":
            return results[-1]
    return results[0]


def _guarded(case: Case, gold: Node, answer: Node, *, apart: bool = False) -> str:
    """Return why an answer that equals the gold is refused all the same; "" if it is not.

    Args:
        case: the comparison.
        gold: the correct answer.
        answer: the answer to judge.
        apart: whether both are components of `2(i + 3j)`, so that products in them are not written by the answer.
    """
    if names_choices(gold, answer):  # listed choices may be copied
        return ""
    gold, answer = without_letters(gold, answer)
    components = in_components(case, gold, answer)
    if components[1] is not answer and (refusal := _guarded(case, *components, apart=not isinstance(answer, Add))):
        return refusal
    if case.policy.unworked != "accept" and is_unworked(gold, answer, case.question):
        return f"refused: it is not worked out; unworked={case.policy.unworked}"
    if case.policy.unworked == "refuse":
        rounded = any(note.startswith(("decimals", "tolerance")) for note in case.notes)
        left = leaves_matrices(gold, answer, case.question) or leaves_step(gold, answer, case.question)
        if left or is_less_factored(case.question, gold, answer):
            return "refused: it is not worked out; unworked=refuse"
        arithmetic = not apart and leaves_arithmetic(gold, answer, case.question, case.work, rounded=rounded)
        if arithmetic or leaves_residue(gold, answer, case.question):
            return "refused: a number is asked, and this is arithmetic to be worked out; unworked=refuse"
    if is_foreign(case.question, gold, answer):
        return "refused: it speaks of another modulus than the question"
    if case.policy.echo == "refuse":
        repeats = is_copied(case.question, gold, answer) or is_restated(case.question, gold, answer, case.work)
        copied = REPEATS if repeats else hands_back(case.question, gold, answer, case.work)
        return f"refused: {copied}; echo=refuse" if copied else ""
    return ""


def same(case: Case, gold: Node, answer: Node) -> Verdict:
    """Compare the trees `gold` and `answer`, which may be of any type."""
    if gold == answer:
        return "same"
    if isinstance(gold, _PLAIN) and isinstance(answer, _PLAIN):
        return same_scalar(case, gold, answer)
    bare_gold, bare_answer = without_letters(gold, answer)
    if bare_answer is not answer and case.question and is_contradicted(case, answer, same):
        return case.refuse("another choice's letter")
    gold, answer = bare_gold, bare_answer
    as_sets = same_sets(case, gold, answer)
    if as_sets is not None:
        return as_sets
    return same_lists(case, read(gold, case.question), read(answer, case.question), same)


def _count(node: Node) -> int:
    """Return the number of values in a tree, through nested lists and statements."""
    match node:
        case Group(_, _, parts) | Listing(parts, _) | Relation(parts, _):
            return sum(map(_count, parts))
    return 1
