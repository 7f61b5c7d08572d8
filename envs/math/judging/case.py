"""`Case`, the shared state of comparing one answer with a gold: policy, comparison of values, notes and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from verigym.envs.math.equality.budget import ANSWER_WORK, WorkBudget
from verigym.envs.math.equality.numbers.exactly import rational
from verigym.envs.math.equality.values import Equality, compare_values
from verigym.envs.math.judging.policy import Policy
from verigym.envs.math.tree import (
    Clock,
    Div,
    Ellipsis,
    Group,
    Listing,
    NamedSet,
    Node,
    Phrase,
    PlusMinus,
    Quantity,
    Relation,
    SetBuilder,
    SetOp,
    Text,
    Verdict,
    symbols,
    walk,
)  # fmt: skip

Symbolic = Callable[[Node, Node], Verdict]

MAX_SYMBOLIC = 12
_VALUELESS = (Clock, Ellipsis, Group, Listing, NamedSet, Phrase, PlusMinus, Relation, SetBuilder, SetOp, Text)
_TIERS = ("exact", "canonical", "probed", "symbolic", "limit")


class Case:
    """The state shared by all comparisons of one answer. A case serves one call in one thread.

    Args:
        policy: options for what counts as the same answer.
        question: the task's text. An expression that the question asks for counts as the name of the result, not as a claim:
            the left side of `x^2 = 5`, if the question asks for x^2.
        seed: seed of the points for numerical comparison.
        symbolic: compares two values that no cheaper tier can decide; None leaves them unknown.
        work: the budget of work for the answer.
    """

    def __init__(
        self,
        policy: Policy,
        question: str = "",
        seed: str = "",
        symbolic: Symbolic | None = None,
        work: WorkBudget | None = None,
    ) -> None:
        self.policy = policy
        self.question = question
        self.symbolic = symbolic
        self.seed = seed
        self.work = WorkBudget(ANSWER_WORK) if work is None else work
        self.notes: list[str] = []
        self.refusal = ""
        self._tier = 0
        self._known: dict[tuple[Node, Node], Verdict] = {}
        self._open: dict[tuple[Node, Node], Equality] = {}
        self._symbolic_calls = 0

    @property
    def tier(self) -> str:
        """The most expensive tier used so far."""
        return _TIERS[self._tier]

    def values(self, gold: Node, answer: Node) -> Verdict:
        """Compare the values of `gold` and `answer`, two scalars or expressions, without regard to the policy."""
        equality = self._open.get((gold, answer)) if self._open else None
        if equality is None:
            equality = compare_values(gold, answer, self.seed, self.work)
            if equality.verdict == "unknown":
                self._open[gold, answer] = equality
        if equality.how == "exact":
            return equality.verdict
        verdict: Verdict = self._known.get((gold, answer)) or equality.verdict
        self._tier = max(self._tier, _TIERS.index(equality.how))
        if verdict == "unknown" and not (is_expression(gold, self.work) and is_expression(answer, self.work)):
            verdict = "different"  # they have no values and are written differently
        if equality.how == "limit" and not (symbols(gold) or symbols(answer)):
            return verdict  # numbers too large for our tiers are too large for SymPy
        if verdict == "unknown" and self.symbolic is not None and self._symbolic_calls < MAX_SYMBOLIC:
            self._symbolic_calls += 1
            verdict = self.symbolic(gold, answer)
            self._tier = max(self._tier, _TIERS.index("symbolic"))
        self._known[gold, answer] = verdict
        return verdict

    def lenient(self) -> Case:
        """Return a copy of this case that accepts unsimplified values, to compare the inner sides of a chain of equations."""
        if self.policy.unsimplified == "accept":
            return self
        policy = self.policy.model_copy(update={"unsimplified": "accept"})
        case = Case(policy, self.question, self.seed, self.symbolic, self.work)
        case._open = self._open
        return case

    def asking(self, symbolic: Symbolic) -> Case:
        """Return a new case for the same answer, in which `symbolic` decides the comparisons that this case left unknown."""
        case = Case(self.policy, self.question, self.seed, symbolic, self.work)
        case._open = self._open
        return case

    def note(self, policy: str) -> None:
        """Store `policy`, the option that decided the comparison and its value, such as `percent=gold`."""
        if policy not in self.notes:
            self.notes.append(policy)

    def refuse(self, reason: str) -> Verdict:
        """Return "different" and store `reason`, unless an earlier reason is stored."""
        self.refusal = self.refusal or reason
        return "different"

    def decided(self, option: str, accept: bool, reason: str) -> Verdict:
        """Return "same" if `accept`, else "different" with `reason`, and record that `option` decided.

        Args:
            option: the name of an option of the policy.
            accept: whether the policy accepts the answer.
            reason: why the answer is rejected.
        """
        self.note(f"{option}={getattr(self.policy, option)}")
        if not accept:
            self.refusal = reason
        return "same" if accept else "different"


def is_expression(node: Node, work: WorkBudget) -> bool:
    """Return whether `node` is a formula with a value: it has no words, lists, statements or divisions by 0."""
    return not any(_is_valueless(part, work) for part in walk(node))


def _is_valueless(node: Node, work: WorkBudget) -> bool:
    if isinstance(node, Quantity):
        return node.unit != "degree"
    return isinstance(node, _VALUELESS) or (isinstance(node, Div) and rational(node.bottom, work) == 0)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Return "same" if all `verdicts` are "same", "different" if any is "different", else "unknown".

    It stops at the first "different".
    """
    combined: Verdict = "same"
    for verdict in verdicts:
        if verdict == "different":
            return verdict
        if verdict == "unknown":
            combined = verdict
    return combined
