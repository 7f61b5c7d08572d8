r"""Runs the tiers that follow equal spelling: compares an answer with each gold by trees, SymPy and, by option, Math-Verify."""

from __future__ import annotations

import re
from typing import NamedTuple

from pydantic import Field

from verigym.envs.contract.errors import EnvironmentFailure
from verigym.envs.isolated import client as symbolic
from verigym.envs.math.judging.compare import judge_answer
from verigym.envs.math.judging.golds import explain_gold, read_gold
from verigym.envs.math.judging.notations import natural_logarithms
from verigym.envs.math.judging.policy import Policy
from verigym.envs.math.judging.question import MAX_CHARS
from verigym.envs.math.judging.readings import read as listed
from verigym.envs.math.reading.spelling import spelled
from verigym.envs.math.symbolic.client import symbolic_equal
from verigym.envs.math.tree import Listing, Neg, Node, ParseError, Percent, Quantity, TooLarge, Verdict

MIN_SYMBOLIC_S = 0.05
_PERCENT = re.compile(r"per ?cent|%|\brate\b|chance|probability|\bodds\b|likely", re.IGNORECASE)


class Decision(NamedTuple):
    """The decision of the comparison tiers on one answer."""

    correct: bool
    reason: str
    limit: bool = False


class Answer(NamedTuple):
    """One answer, as text and as a tree.

    `extended` is the tree of the answer together with the words after its box, and None if there are no such words. `row` is
    the list of adjacent boxes that ends with the answer's box, and None if that box stands alone. `loose` tells whether other
    words stand between the boxes of the row, `offered` whether one of its values stands outside of the boxes.
    """

    text: str
    tree: Node | ParseError
    extended: Node | None = None
    row: Listing | None = None
    loose: bool = False
    offered: bool = False


class TierOptions(Policy):
    """Options of the comparison tiers."""

    symbolic: bool = True
    """Whether SymPy, in a separate process, compares values that the tiers before it cannot decide."""
    math_verify: bool = False
    """Whether Math-Verify, in a separate process, decides if no other tier can. The package has to be installed."""
    symbolic_timeout_s: float = Field(0.6, gt=0, le=600)
    """CPU seconds for all comparisons of one answer in separate processes. If this time does not suffice, the status is
    limit."""
    symbolic_memory_mb: int = Field(1024, ge=256)
    """Address space for one comparison."""


class Tiers:
    """Compares one answer with its golds. All comparisons share one time budget for separate processes."""

    def __init__(self, options: TierOptions, question: str, seed: str) -> None:
        self.options = options
        self.question = question
        self.seed = seed
        self.spent_s = 0.0
        self.limit = ""

    def decide(self, gold: str, answer: Answer) -> Decision:
        """Compare `answer` with `gold` and return the decision.

        Raises:
            EnvironmentFailure: the gold cannot be read, or a process fails.
        """
        tree = read_gold(gold, self.options.commas == "decimal")
        if isinstance(tree, ParseError):
            if spelled(gold) == spelled(answer.text):
                return Decision(True, "the gold's text")
            raise EnvironmentFailure("gold_invalid", explain_gold(gold) or f"the gold cannot be read: {tree}")
        several = answer.row is not None and len(listed(tree).items) > 1
        if answer.row is not None and answer.offered:  # of several values, all have to stand in boxes
            if not several and not self._says_again(gold, tree, answer.row):
                return Decision(False, "refused: another answer beside the box")
        elif answer.row is not None:
            if several or (answer.row.joiner == "or" and not answer.loose):
                return self._judge(gold, tree, answer.text, answer.row)
            if not answer.loose:
                return Decision(False, f"refused: {len(answer.row.items)} boxes in a row where one value is asked")
        if isinstance(answer.tree, ParseError):
            return Decision(False, f"the answer cannot be read: {answer.tree}", isinstance(answer.tree, TooLarge))
        if answer.extended is None:
            return self._judge(gold, tree, answer.text, answer.tree)
        # \boxed{50}\% is right where the question speaks of per cent and 50 is asked, and where 0.5 is. A unit after the box
        # counts where the gold has one, and \boxed{5} million is never 5.
        extended, wanted = (node.of if isinstance(node, Neg) else node for node in (answer.extended, tree))
        scaled = not isinstance(extended, Quantity | Percent)
        if isinstance(extended, Percent) and self.question and not _PERCENT.search(self.question[:MAX_CHARS]):
            scaled = True
        bare = None if scaled or isinstance(wanted, Quantity) else self._judge(gold, tree, answer.text, answer.tree)
        return bare if bare and bare.correct else self._judge(gold, tree, answer.text, answer.extended)

    def _says_again(self, gold: str, tree: Node, row: Listing) -> bool:
        r"""Return whether what stands beside a box is the same value: `\frac{72}{6}, or \boxed{12}`."""
        options = self.options.model_copy(update={"unworked": "accept", "echo": "accept"})
        return row.joiner == "or" and self._judge(gold, tree, "", row, options).correct

    def _judge(self, gold: str, tree: Node, answer: str, given: Node, options: TierOptions | None = None) -> Decision:
        symbolic = self._ask if self.options.symbolic else None
        given = natural_logarithms(tree, given, answer, self.question)
        decision = judge_answer(tree, given, options or self.options, question=self.question, seed=self.seed, symbolic=symbolic)
        if decision.correct is None and self.options.math_verify and not decision.guarded:
            return self._last_opinion(gold, answer)
        if decision.correct is None and self.limit:
            return Decision(False, self.limit, True)
        return Decision(bool(decision.correct), decision.reason, decision.tier == "limit" and not decision.correct)

    def _ask(self, gold: Node, answer: Node) -> Verdict:
        if self.limit:  # after one limit, no more time is spent on this answer
            return "unknown"
        try:
            return symbolic_equal(
                gold,
                answer,
                timeout_s=max(MIN_SYMBOLIC_S, self.options.symbolic_timeout_s - self.spent_s),
                memory_bytes=self.options.symbolic_memory_mb << 20,
                spend=self._spend,
            )
        except symbolic.SymbolicLimit as limit:
            self.limit = str(limit)
            return "unknown"

    def _spend(self, cpu_s: float) -> None:
        self.spent_s += cpu_s

    def _last_opinion(self, gold: str, answer: str) -> Decision:
        try:
            opinion = symbolic.compare(
                gold,
                answer,
                timeout_s=max(MIN_SYMBOLIC_S, self.options.symbolic_timeout_s - self.spent_s),
                memory_bytes=self.options.symbolic_memory_mb << 20,
                spend=self._spend,
            )
        except symbolic.SymbolicLimit as limit:
            return Decision(False, str(limit), True)
        return Decision(opinion.equal, "equal (Math-Verify)" if opinion.equal else "not equal (Math-Verify)")
