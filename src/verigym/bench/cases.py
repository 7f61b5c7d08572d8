r"""Makes benchmark cases from the rows of a labelled file: gold, answer, completion to grade, and expected verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from verigym.datasets_cfg.fields import MISSING, Extraction, FieldProblem, describe, extract_gold, find
from verigym.envs import UsageError
from verigym.envs.contract.errors import did_you_mean
from verigym.grade.reading.labels import read_flag
from verigym.grade.reading.records import BadRow, InputRow

Level = Literal["answer", "completion", "completion_unboxed"]
LEVELS: tuple[Level, ...] = get_args(Level)
DEFAULT_LEVEL_COLUMN, DEFAULT_POLICY_COLUMN = "level", "policy"


class CaseColumns(BaseModel):
    """Names of the input columns that hold the parts of a case, such as its gold and its answer.

    A name with dots, such as `a.b`, is read as a path into nested values, unless the input has a column of exactly this name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gold: str = "gold"
    answer: str = "pred"
    label: str = "expected"
    level: str | None = None
    """Column that says how the answer is written (one of `LEVELS`); by default the column `level`, if the input has it."""
    policy: str | None = None
    """Column that marks cases whose label is a matter of taste; by default the column `policy`, if the input has it."""
    prompt: str | None = None
    """Column that holds the question; None if the input has none, and the question is then empty."""
    all_level: Level | None = None
    """Every answer is written like this; no column is read."""
    all_label: bool | None = None
    """Every answer is right, or wrong; no column is read."""
    gold_extract: Extraction | None = None
    """How the gold is extracted from the text in its column; None to take the whole text as the gold."""

    def settled(self, names: Sequence[str], sample: Sequence[Mapping[str, Any]], source: str) -> CaseColumns:
        """Return these columns with the default ones filled in, after checking them against the first rows.

        Args:
            names: the column names that the input has.
            sample: the first rows.
            source: name of the input, for the message.

        Raises:
            UsageError: a column is neither in `names` nor in any row of `sample`; the message suggests the nearest name.
        """
        for column in self.used():
            if column not in names and all(find(row, column) is MISSING for row in sample):
                raise UsageError(f"{source} has no column {column!r}{did_you_mean(column, names)}")
        level = self.level or (DEFAULT_LEVEL_COLUMN if DEFAULT_LEVEL_COLUMN in names else None)
        policy = self.policy or (DEFAULT_POLICY_COLUMN if DEFAULT_POLICY_COLUMN in names else None)
        return self.model_copy(update={"level": None if self.all_level else level, "policy": policy})

    def used(self) -> list[str]:
        """Return the names of all columns that are read, each once."""
        label = self.label if self.all_label is None else None
        level = self.level if self.all_level is None else None
        read = [self.gold, self.answer, label, level, self.policy, self.prompt]
        return list(dict.fromkeys(column for column in read if column is not None))


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled answer."""

    row: int
    line: int | None
    golds: tuple[str, ...]
    answer: str
    """As it stands in the file; what a callable gets."""
    completion: str
    """Text for graders that read completions: at level `answer`, the answer in a box (see `boxed`); at other levels, the file's
    text."""
    expected: bool
    level: Level
    policy: bool
    question: str = ""

    @property
    def group(self) -> str:
        """The group of the result table in which this case is counted."""
        unboxed = self.level == "completion_unboxed"
        if self.policy:
            return "policy, unboxed" if unboxed else "policy"
        return "unboxed, extract=last" if unboxed else "answers"


def boxed(text: str) -> str:
    r"""Return `\boxed{text}`, without dollar signs around `text`; return `text` itself if it contains a box already."""
    if r"\boxed" in text:
        return text
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == "$":
        bare = bare.strip("$")
    return rf"\boxed{{{bare}}}"


def make_case(row: InputRow, columns: CaseColumns) -> Case | BadRow:
    """Return the case that `row` holds; if a field is missing or invalid, a BadRow that names the field."""
    try:
        level = _level(row.data, columns)
        answer = _text(row.data, columns.answer)
        return Case(
            row=row.number,
            line=row.line,
            golds=_golds(row.data, columns),
            answer=answer,
            completion=boxed(answer) if level == "answer" else answer,
            expected=_flag(row.data, columns.label) if columns.all_label is None else columns.all_label,
            level=level,
            policy=columns.policy is not None and _flag(row.data, columns.policy, missing=False),
            question="" if columns.prompt is None else _text(row.data, columns.prompt),
        )
    except FieldProblem as problem:
        return BadRow(row.number, row.line, problem.field, str(problem))


def _level(data: Mapping[str, Any], columns: CaseColumns) -> Level:
    if columns.all_level is not None or columns.level is None:
        return columns.all_level or "answer"
    value = find(data, columns.level)
    for level in LEVELS:
        if value == level:
            return level
    given = describe(value) if value is MISSING or value is None else f"is {str(value)[:40]!r}"
    raise FieldProblem(columns.level, f"{given}; expected {', '.join(LEVELS)} (--level sets one for all rows)")


def _golds(data: Mapping[str, Any], columns: CaseColumns) -> tuple[str, ...]:
    column = columns.gold
    value = find(data, column)
    if columns.gold_extract is not None:
        value = extract_gold(value, columns.gold_extract, column)
    golds = tuple(_as_text(one, column) for one in (value if isinstance(value, list) else [value]))
    if not golds or not all(gold.strip() for gold in golds):
        raise FieldProblem(column, "is empty; expected the right answer, or a list of them")
    return golds


def _text(data: Mapping[str, Any], column: str) -> str:
    return _as_text(find(data, column), column)


def _as_text(value: Any, column: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    raise FieldProblem(column, f"{describe(value)}; expected text or a number")


def _flag(data: Mapping[str, Any], column: str, *, missing: bool | None = None) -> bool:
    value = find(data, column)
    if missing is not None and (value is MISSING or value is None or value == ""):
        return missing
    return read_flag(value, column)
