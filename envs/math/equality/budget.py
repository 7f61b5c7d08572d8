"""Budgets of work, counted in operations instead of time, so that a tree meets the same limit on every machine."""

from __future__ import annotations

from typing import Any

ANSWER_WORK = 1_500_000
"""Units for all comparisons of one answer, about 0.2 s."""


class Undecided(Exception):
    """Base of the errors for a tree whose value cannot be determined."""


class Unsupported(Undecided):
    """The tree contains a node that this tier cannot compute."""


class Undefined(Undecided):
    """The tree has no value, for instance because of a division by zero or a logarithm of zero."""


class TooMuch(Undecided):
    """The tree needs numbers that are too large, or more work than the budget allows."""


class WorkBudget:
    """The remaining work, in units of 0.1 to 0.2 microseconds.

    A budget and all budgets made from it by `share` use the same dict `known`. It caches facts about nodes, by the node's id.
    Each entry also holds its node, so that the id is not reused.
    """

    __slots__ = ("allowed", "known", "left")

    def __init__(self, units: int, known: dict[int, Any] | None = None) -> None:
        """Start with `units` units."""
        self.allowed = self.left = units
        self.known: dict[int, Any] = {} if known is None else known

    @property
    def used(self) -> int:
        """Return the number of units spent."""
        return self.allowed - self.left

    def share(self, units: int) -> WorkBudget:
        """Return a separate budget of `units`, or of the units left if there are fewer. Pass the result to `settle`."""
        return WorkBudget(max(min(units, self.left), 0), self.known)

    def settle(self, share: WorkBudget) -> None:
        """Subtract the units that `share`, a budget made by `share()`, has used."""
        self.left -= share.used

    def spend(self, units: int) -> None:
        """Subtract `units` from the budget. Raise `TooMuch` if there are not enough left."""
        self.left -= units
        if self.left < 0:
            raise TooMuch("the budget of work is spent")
