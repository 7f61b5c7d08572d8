"""Verdicts that a file brings along: yes or no, by a person or another verifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verigym.datasets_cfg.fields import MISSING, FieldProblem, describe, find

_WORDS = {
    **dict.fromkeys(("true", "1", "1.0", "yes", "correct", "right"), True),
    **dict.fromkeys(("false", "0", "0.0", "no", "incorrect", "wrong"), False),
}


def read_flag(value: Any, column: str) -> bool:
    """Return a yes or no in any of its spellings.

    Raises:
        FieldProblem: it is none.
    """
    known = value if isinstance(value, bool) else _WORDS.get(str(value).strip().lower())
    if known is None or isinstance(value, list | dict):
        given = describe(value) if value is MISSING or value is None else f"is {str(value)[:40]!r}"
        raise FieldProblem(column, f"{given}; expected true or false (or 1, 0, yes, no, correct, incorrect, right, wrong)")
    return known


def labels_of(row: Mapping[str, Any], column: str, samples: int) -> list[bool | None]:
    """Return the label of each completion of a row; None where there is none.

    Args:
        row: what was read.
        column: holds one label, or a list of one for each completion.
        samples: completions of the row.

    Raises:
        FieldProblem: a label is neither yes nor no, or there are not as many as completions.
    """
    value = find(row, column)
    if value is MISSING or value is None or value == "":
        return [None] * samples
    given = value if isinstance(value, list) else [value]
    if len(given) != samples:
        what = f"is a list of {len(given)}" if isinstance(value, list) else "is one label"
        raise FieldProblem(column, f"{what}, and the row has {samples} completions; expected a list with one for each")
    return [None if one is None or one == "" else read_flag(one, column) for one in given]
