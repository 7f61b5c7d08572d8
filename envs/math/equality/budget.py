"""A budget of work, counted in operations and not by the clock: the same tree meets the same limit on every machine."""

from __future__ import annotations

from typing import Any

ANSWER_WORK = 1_500_000
"""Units for all comparisons of one judged answer, about 0.2 s: what a caller gives that compares many values."""


class Undecided(Exception):
    """The value of a tree cannot be told here."""


class Unsupported(Undecided):
    """The tree holds something that this tier does not compute."""


class Undefined(Undecided):
    """The tree has no value: a division by zero, a logarithm of zero."""


class TooMuch(Undecided):
    """The tree needs numbers that are too large or more work than is allowed."""


class WorkBudget:
    """What may still be spent. One unit is a tenth to a fifth of a microsecond.

    Shares of one budget also share what is `known` about nodes (by id; an entry keeps its node alive, so that ids stay unique).
    """

    __slots__ = ("allowed", "known", "left")

    def __init__(self, units: int, known: dict[int, Any] | None = None) -> None:
        """Allow that many units."""
        self.allowed = self.left = units
        self.known: dict[int, Any] = {} if known is None else known

    @property
    def used(self) -> int:
        """Return what was spent."""
        return self.allowed - self.left

    def share(self, units: int) -> WorkBudget:
        """Return a budget of its own, no larger than what is left; `settle` takes off what was used."""
        return WorkBudget(max(min(units, self.left), 0), self.known)

    def settle(self, share: WorkBudget) -> None:
        """Take off what a share has used."""
        self.left -= share.used

    def spend(self, units: int) -> None:
        """Take units, or raise `TooMuch`."""
        self.left -= units
        if self.left < 0:
            raise TooMuch("the budget of work is spent")
