"""Budgets of work, counted in operations instead of time, so that a tree meets the same limit on every machine."""

from __future__ import annotations

from typing import Any

ANSWER_WORK = 1_500_000
"""Units for all comparisons of one answer, about 0.2 s."""


class Undecided(Exception):
    """The value of a tree cannot be determined."""


class Unsupported(Undecided):
    """The tree has a node that this tier does not compute."""


class Undefined(Undecided):
    """The tree has no value: a division by zero, a logarithm of zero."""


class TooMuch(Undecided):
    """The tree needs numbers that are too large or more work than is allowed."""


class WorkBudget:
    """Remaining work, in units of a tenth to a fifth of a microsecond.

    Shares of a budget also share `known` facts about nodes, by id; an entry keeps its node alive, so that ids stay unique.
    """

    __slots__ = ("allowed", "known", "left")

    def __init__(self, units: int, known: dict[int, Any] | None = None) -> None:
        """Start with `units` units."""
        self.allowed = self.left = units
        self.known: dict[int, Any] = {} if known is None else known

    @property
    def used(self) -> int:
        """Return the units spent."""
        return self.allowed - self.left

    def share(self, units: int) -> WorkBudget:
        """Return a separate budget of at most the units left; pass it to `settle` afterwards."""
        return WorkBudget(max(min(units, self.left), 0), self.known)

    def settle(self, share: WorkBudget) -> None:
        """Subtract the units that a share has used."""
        self.left -= share.used

    def spend(self, units: int) -> None:
        """Spend units; raise `TooMuch` if they are not left."""
        self.left -= units
        if self.left < 0:
            raise TooMuch("the budget of work is spent")
