"""A grader's verdict on one case, and the tally of many."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, get_args

from verigym.bench.cases import Case

Kind = Literal["accepted", "rejected", "no_answer", "limit", "error"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Verdict(NamedTuple):
    """One grader's verdict on one case. Any kind other than `accepted` means that the answer gets no reward."""

    kind: Kind
    reason: str
    seconds: float

    @property
    def accepted(self) -> bool:
        """True if the grader accepted the answer as right."""
        return self.kind == "accepted"


class CaseGrader(Protocol):
    """Grades cases one at a time."""

    name: str

    def start(self) -> None:
        """Load the grader before anything is measured; raise UsageError if that is impossible."""

    def grade(self, case: Case) -> Verdict:
        """Return the verdict on `case`. Errors of the grader are verdicts; only KeyboardInterrupt may be raised."""

    def close(self) -> None:
        """End the grader's processes, if it has any."""


@dataclass(slots=True)
class Tally:
    """Counts and times of one grader over the cases of one group."""

    rows: int = 0
    right: int = 0
    """Cases labelled right."""
    false_negatives: int = 0
    """Labelled right and not accepted, whatever the reason."""
    false_positives: int = 0
    """Labelled wrong and accepted."""
    no_answers: int = 0
    errors: int = 0
    limits: int = 0
    agreed: int = 0
    """The verdict is the label's; an error never is."""
    seconds: array[float] = field(default_factory=lambda: array("d"))

    def add(self, case: Case, verdict: Verdict) -> None:
        """Add the grader's `verdict` on `case` to the counts."""
        self.rows += 1
        self.right += case.expected
        self.false_negatives += case.expected and not verdict.accepted
        self.false_positives += verdict.accepted and not case.expected
        self.no_answers += verdict.kind == "no_answer"
        self.errors += verdict.kind == "error"
        self.limits += verdict.kind == "limit"
        self.agreed += verdict.accepted == case.expected and verdict.kind != "error"
        self.seconds.append(verdict.seconds)

    @property
    def wrong(self) -> int:
        """Number of cases that are labelled wrong."""
        return self.rows - self.right

    def figures(self) -> dict[str, Any]:
        """Return the counts, the accuracy and the latency percentiles as a dictionary for JSON."""
        ordered = sorted(self.seconds)
        total = math.fsum(ordered)
        latency = {name: percentile(ordered, share) for name, share in (("median", 0.5), ("p95", 0.95), ("p99", 0.99))}
        return {
            "rows": self.rows,
            "labelled_right": self.right,
            "labelled_wrong": self.wrong,
            "false_negatives": self.false_negatives,
            "false_positives": self.false_positives,
            "no_answers": self.no_answers,
            "errors": self.errors,
            "limits": self.limits,
            "accuracy": self.agreed / self.rows if self.rows else None,
            "latency_s": {**latency, "max": ordered[-1] if ordered else None},
            "rows_per_second_and_core": self.rows / total if total else None,
        }


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the percentile at `share` (0 to 1) of the sorted values `ordered`; None if there are no values.

    This is the smallest of the values `v` such that at least the fraction `share` of all values is at most `v`.
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None
