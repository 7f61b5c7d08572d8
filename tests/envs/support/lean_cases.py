"""The Lean cases of tests/cases/lean.jsonl, and the text of each that is compiled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from verigym.envs.lean.completion import Refused, read_submission

CASES = Path(__file__).parents[2] / "cases" / "lean.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def submission(case: dict[str, Any]) -> str | Refused:
    """Return what is read from a case's completion, or its submission as it is, with the repetition written out.

    A submission is what stands in the slot, past the reader of completions, which knows the statement and would refuse some
    that the judge must refuse by itself. Only its size is looked at.
    """
    if "completion" in case:
        return read_submission(case["completion"], case["mode"], statement=case["statement"], header=case["header"])
    text: str = case["submission"]
    if "repeat" in case:
        text = text.replace("{repeat}", case["repeat"]["text"] * case["repeat"]["times"])
        found = read_submission(text, case["mode"], unfenced=True)
        return found if isinstance(found, Refused) else text
    return text
