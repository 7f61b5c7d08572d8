"""Reads the labels in an input file: yes or no, from a person or another verifier, for each completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verigym.datasets_cfg.fields import MISSING, FieldProblem, describe, find

_WORDS = {
    **dict.fromkeys(("true", "1", "1.0", "yes", "correct", "right"), True),
    **dict.fromkeys(("false", "0", "0.0", "no", "incorrect", "wrong"), False),
}


def read_flag(value: Any, column: str) -> bool:
    """Return the truth value that `value` spells, such as yes, 1 or correct.

    Raises:
        FieldProblem: `value` is no such spelling.
    """
    known = value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
    if known is None or isinstance(value, list | dict):
        given = describe(value) if value is MISSING or value is None else f"is {str(value)[:40]!r}"
        raise FieldProblem(column, f"{given}; expected true or false (or 1, 0, yes, no, correct, incorrect, right, wrong)")
    return known


def labels_of(row: Mapping[str, Any], column: str, samples: int) -> list[bool | None]:
    """Return the label of each completion of `row`, None for a completion without one.

    Args:
        row: the row that was read.
        column: the column with one label, or with a list of one label per completion.
        samples: number of completions in the row.

    Raises:
        FieldProblem: a label is neither yes nor no, or the number of labels differs from `samples`.
    """
    value = find(row, column)
    if value is MISSING or value is None or value == "":
        return [None] * samples
    given = value if isinstance(value, list) else [value]
    if len(given) != samples:
        what = f"is a list of {len(given)}" if isinstance(value, list) else "is one label"
        raise FieldProblem(column, f"{what}, and the row has {samples} completions; expected a list with one for each")
    return [None if one is None or one == "" else read_flag(one, column) for one in given]
