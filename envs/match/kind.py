"""Definition of a kind: the reference's fields, and functions that check a reference, judge an answer and write a gold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field, JsonValue

from verigym.envs.contract.schema import Reference

Where = Literal["boxed", "tag", "fence", "label", "all"]


class MatchReference(Reference):
    """What an answer is compared with, and how."""

    kind: str
    """The way of comparing: exact, normalised, numeric, choice, list, json, regex, sql, sudoku, queens, chess."""
    answer: JsonValue = None
    """The right answer. For exact, normalised and numeric, a list holds alternatives, each of which is right. For sql, the
    right query."""
    choices: tuple[str, ...] = ()
    """choice: the texts that the letters A, B, C... stand for."""
    by: Literal["either", "letter", "text"] = "either"
    """choice: whether an answer has to give the letter, the text, or either of them."""
    tolerance: float = Field(0.0, ge=0, allow_inf_nan=False)
    """numeric, list: how far a number may be off."""
    relative_tolerance: float = Field(0.0, ge=0, lt=1, allow_inf_nan=False)
    """numeric, list: how far a number may be off, as a fraction of the right number. The larger of `tolerance` and this one
    counts."""
    ordered: bool = True
    """list, sql: whether the order of items or rows matters."""
    setups: tuple[str, ...] = ()
    """sql: scripts that each fill a database; the answer must be right on all of them."""
    pattern: str | None = None
    """regex: what the whole answer must fit, in RE2's syntax."""
    puzzle: str | None = None
    """sudoku: 16 or 81 cells row by row, 0 or . for an empty one. chess: the position as FEN."""
    size: int | None = None
    """queens: the side of the board."""
    goal: Literal["legal", "mate", "best"] = "legal"
    """chess: any legal move, a move that mates, or one of the moves in `answer`."""
    example: str | None = None
    """regex, sudoku: a right answer, which serves as the gold."""


class Verdict(NamedTuple):
    """The verdict on an answer. `right` is None if there is no answer of the kind asked for.

    `limit` tells whether judging hit a limit.
    """

    right: bool | None
    reason: str
    limit: bool = False


@dataclass(frozen=True)
class Kind:
    """A way of comparing."""

    uses: frozenset[str]
    """Fields of the reference that this kind reads; all others must keep their defaults."""
    check: Callable[[MatchReference], None]
    """Raises UsageError where the reference cannot be judged by."""
    judge: Callable[[MatchReference, str], Verdict]
    """Compares an answer without surrounding white space with the reference; raises EnvironmentFailure if the grader fails."""
    gold: Callable[[MatchReference], str | None]
    """Returns the answer that is right."""
    where: tuple[Where, ...] = ("boxed", "tag")
    """Where the answer is looked for, in this order, if the option `answer_in` is None."""
    needs: Callable[[], None] | None = None
    """Raises EnvironmentFailure where a package is absent."""
    tags: tuple[str, ...] = ()
    """Languages of its fenced blocks. A block with one of these tags outranks all others, such as the output of the query."""
