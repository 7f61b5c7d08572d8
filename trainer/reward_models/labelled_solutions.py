"""Solutions with labelled steps, and how they are read from JSON Lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter, ValidationError

from verigym.envs.contract.errors import UsageError
from verigym.envs.contract.schema import Prompt, canonical_json, sha256_hex
from verigym.envs.process.steps import Ends, Splitting
from verigym.trainer.reward_models.pairs import prompt_of, rows_of

Estimate = Literal["hard", "soft"]
_SPLIT: TypeAdapter[Splitting | Ends] = TypeAdapter(Splitting | Ends)


@dataclass(frozen=True)
class LabelledSolution:
    """A solution as a list of steps, each labelled with the probability that it is right."""

    prompt: Prompt
    steps: tuple[str, ...]
    labels: tuple[float | None, ...]
    """Label of each step: a probability in [0, 1], for hard labels 0 or 1. None: unknown; the step is not trained on."""

    def __post_init__(self) -> None:
        """Refuse a solution that cannot be trained on."""
        if not self.steps or len(self.steps) != len(self.labels):
            raise UsageError(f"a labelled solution has {len(self.steps)} steps and {len(self.labels)} labels; give one a step")
        for number, label in enumerate(self.labels):
            if label is not None and not 0 <= label <= 1:
                raise UsageError(f"label {number} is {label}; give a probability in [0, 1], or None where it is unknown")

    @property
    def digest(self) -> str:
        """Return a hash of all fields."""
        return sha256_hex(canonical_json([self.prompt.key, list(self.steps), list(self.labels)]))


def estimates(right: tuple[int, ...], scored: tuple[int, ...], how: Estimate) -> tuple[float | None, ...]:
    """Return each step's label, estimated from its roll-outs; None for a step none of whose roll-outs has a verdict.

    A roll-out is a completion that continues after the step. `hard` gives 1 if at least one roll-out was right, else 0; `soft`
    gives the share of right ones (Math-Shepherd, arXiv 2312.08935, section 3.3.2).

    Args:
        right: for each step, how many of the scored roll-outs were right.
        scored: for each step, how many roll-outs have a verdict.
        how: `hard` or `soft`.
    """
    pairs = zip(right, scored, strict=True)
    if how == "hard":
        return tuple(float(good > 0) if count else None for good, count in pairs)
    return tuple(good / count if count else None for good, count in pairs)


def read_labels(path: Path, how: Estimate) -> list[LabelledSolution]:
    """Read labelled solutions from JSON Lines.

    A line has `prompt` (a text or messages), `steps` and the labels. The labels are given either as the counts `right` and
    `scored`, which the stage `step-labels` writes, or as `labels`: one number in [0, 1] per step, null where it is unknown.

    Args:
        path: the file.
        how: how a label is estimated from counts; see `estimates`.

    Raises:
        UsageError: the file cannot be read, is empty, or a line does not fit; the message names file, line and field.
    """
    return [_solution(row, place, how) for place, row in rows_of(path, "prompt, steps and right with scored, or labels")]


def _solution(row: Mapping[str, Any], place: str, how: Estimate) -> LabelledSolution:
    prompt = Prompt(messages=prompt_of(row, place), environment="", references={})
    steps = row.get("steps")
    if not isinstance(steps, list) or not steps or not all(isinstance(step, str) and step.strip() for step in steps):
        raise UsageError(f"{place}: field 'steps' must be a list of texts, at least one and none blank")
    if not all(_is_text(step) for step in steps):
        raise UsageError(f"{place}: field 'steps' holds half a surrogate pair, which is no Unicode text")
    if "labels" in row and ("right" in row or "scored" in row):
        raise UsageError(f"{place}: fields 'labels' and 'right' both say how good the steps are; give one of them")
    if "labels" in row:
        labels = _labels(row["labels"], len(steps), place)
    else:
        right, scored = (_counts(row, field, len(steps), place) for field in ("right", "scored"))
        if any(good > count for good, count in zip(right, scored, strict=True)):
            raise UsageError(f"{place}: field 'right': more roll-outs were right than field 'scored' has")
        labels = estimates(right, scored, how)
    return LabelledSolution(prompt, tuple(step.strip() for step in steps), labels)


def _labels(value: Any, count: int, place: str) -> tuple[float | None, ...]:
    fits = isinstance(value, list) and len(value) == count
    if not fits or not all(one is None or (_is_number(one) and 0 <= one <= 1) for one in value):
        raise UsageError(f"{place}: field 'labels' must be a list of {count} numbers from 0 to 1, null for unknown, one a step")
    return tuple(None if one is None else float(one) for one in value)


def _counts(row: Mapping[str, Any], field: str, count: int, place: str) -> tuple[int, ...]:
    value = row.get(field)
    if not isinstance(value, list) or len(value) != count or not all(type(one) is int and 0 <= one <= 10**6 for one in value):
        raise UsageError(f"{place}: field {field!r} must be a list of {count} counts, one a step")
    return tuple(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and (isinstance(value, int) or math.isfinite(value))


def _is_text(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def splits_of(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the rule by which the steps in the files were split, as `{"split": rule}`, or {} if no line names a rule.

    Raises:
        UsageError: a rule is unknown, or lines name different rules, so that no single rule would split all solutions.
    """
    found: dict[str, Any] = {}
    for path in paths:
        for place, row in rows_of(path, "split"):
            if "split" in row:
                how = _split(row["split"], place)
                found[canonical_json(how)] = how
    if len(found) > 1:
        raise UsageError(f"data: steps were cut in {len(found)} ways ({', '.join(sorted(found))}); train on one at a time")
    return {"split": next(iter(found.values()))} if found else {}


def _split(value: Any, place: str) -> Any:
    try:
        _SPLIT.validate_python(value)
    except ValidationError:
        fits = False
    else:
        fits = bool(value) and all(end and _is_text(end) for end in value)
    if not fits:
        names = ", ".join(get_args(Splitting))
        raise UsageError(f"{place}: field 'split' must be one of {names}, or a list of texts after which a step ends")
    return value
