"""Validates a data set before training: each row's gold must score the maximum.

From a row without a gold, only the prompt is made.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from verigym.datasets_cfg.golds import prose, taken, wants_short, way_out
from verigym.datasets_cfg.load import PromptDataset, RowError
from verigym.datasets_cfg.schema import DatasetConfig
from verigym.envs import Completion, Environment, Prompt, Score
from verigym.envs.grading import Grader


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that should not be trained on, and why."""

    row: int
    """Index of the row in the data set, from 0. Reports, as text and as JSON, count from 1."""
    field: str
    gold: str | None
    reason: str
    advice: str = ""
    """What the environment's audit finds wrong with the row's reference, and what to do."""

    def describe(self, source: str) -> str:
        """Return one line about the row of `source`: its position, its gold, why it fails and what to do."""
        gold = "" if self.gold is None else f"gold {json.dumps(self.gold, ensure_ascii=False)}: "
        advice = f"; {self.advice}" if self.advice else ""
        return f"{source}, row {self.row + 1}, field {self.field}: {gold}{self.reason}{advice}"


TEXT_END = 60
MAX_LISTED = 10
"""Maximum number of failures for which each row is shown. If there are more, each cause is shown once."""
ROWS_NAMED = 5
_OF_ONE_ROW = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[-+]?\d[\d.,/]*""")
"""Quoted texts and numbers, which differ between rows that fail for one cause."""


def causes(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Group `failures` by cause, and return the groups, the most frequent cause first.

    Two failures have the same cause if they are about the same field and have the same message apart from quoted texts and
    numbers.
    """
    by_cause: dict[tuple[str, ...], list[Failure]] = {}
    for failure in failures:
        words = (_OF_ONE_ROW.sub("...", text) for text in (failure.reason, failure.advice))
        by_cause.setdefault((failure.field, *words), []).append(failure)
    return sorted(by_cause.values(), key=lambda alike: -len(alike))


def failure_lines(failures: Sequence[Failure], source: str) -> list[str]:
    """Return the lines that report `failures`: one for each failure if there are few.

    If there are many, there is one line for each cause, with its count and its first rows.
    """
    if len(failures) <= MAX_LISTED:
        return [failure.describe(source) for failure in failures]
    lines = []
    for alike in causes(failures):
        more = ", ".join(str(failure.row + 1) for failure in alike[1 : 1 + ROWS_NAMED])
        dots = ", ..." if len(alike) > 1 + ROWS_NAMED else ""
        others = f" (likewise rows {more}{dots})" if more else ""
        lines.append(f"{len(alike):,} rows{others}: {alike[0].describe(source)}" if others else alike[0].describe(source))
    return lines


def setting_at_fault(config: DatasetConfig, report: Report) -> tuple[str, str] | None:
    """Return, as (section, name), the field of the description that makes all rows fail.

    Return None if not all rows fail for the same cause, or if no field explains it.
    """
    alike = causes(report.failures)
    if report.rows < 2 or len(alike) != 1 or len(alike[0]) != report.rows:
        return None
    column, reason = alike[0][0].field, alike[0][0].reason
    for name, source in config.reference.items():
        if source.column == column and source.extract and f"no gold is found by {source.extract!r}" in reason:
            return "reference", name
    for name, part in config.texts.items():
        if part.column == column and any(f"does not hold {mark!r}" in reason for mark in (part.after, part.before)):
            return "texts", name
    if column in config.columns and f"expected {config.columns[column]}" in reason:
        return "columns", column
    return None


def whole_text_line(report: Report, mendable: bool) -> str:
    """Return a message about golds that are whole texts; empty if there are none.

    Args:
        report: the result of the validation.
        mendable: True to propose a value for `extract`, which is possible if the description's `reference` says which column
            holds the gold.
    """
    if not report.whole_texts:
        return ""
    row, text = report.whole_texts[0]
    said = (
        f"the gold of {len(report.whole_texts):,} of {report.rows:,} rows is a whole text, taken word for word: only the same "
        f"words are right. That of row {row + 1} ends in {text.rstrip()[-TEXT_END:]!r}"
    )
    golds = [gold for _, gold in report.whole_texts]
    way = way_out(golds) if mendable else None
    if way is None:
        return said
    shown = next(answer for gold in golds if (answer := taken(gold, way[0])) is not None)
    return f"{said}; `extract: {way[0]}` takes an answer out of {way[1]:,} of these {len(golds):,}, such as {shown[:40]!r}"


@dataclass(slots=True)
class Report:
    """The result of a validation; rows are in order."""

    dataset: str
    split: str
    grader: str
    rows: int
    source: str = ""
    """The file or repository that the rows are read from."""
    failures: list[Failure] = field(default_factory=list)
    remarks: list[Failure] = field(default_factory=list)
    """Rows whose gold scores the maximum although the environment's method `audit` finds fault with the reference."""
    whole_texts: list[tuple[int, str]] = field(default_factory=list)
    """(row, gold) of each row with a whole text as gold, although the environment compares short answers."""
    without_gold: int = 0
    """Number of rows without a gold, if the description allows such rows. For each of them it was only checked that its prompt
    is made, twice with the same key."""

    def rows_as_json(self) -> Iterator[str]:
        """Yield each failure and each remark as one line of JSON."""
        for kind, rows in (("failure", self.failures), ("remark", self.remarks)):
            for one in rows:
                yield json.dumps({"kind": kind, "source": self.source, **asdict(one), "row": one.row + 1}, ensure_ascii=False)

    @property
    def passed(self) -> int:
        """Number of golds that score the maximum."""
        return self.rows - self.without_gold - len(self.failures)


def validate(dataset: PromptDataset, grader: Grader, on_row: Callable[[int], None] = lambda done: None) -> Report:
    """Check that the gold of each row scores the maximum in the environment; return a report of the rows where it does not.

    Args:
        dataset: the rows.
        grader: a grader that has the data set's environment.
        on_row: called with the number of rows done, for a progress bar.
    """
    environment = dataset.environment
    report = Report(dataset.config.name, dataset.split, environment.grader, len(dataset), dataset.source)
    columns = dataset.config.gold or "(none)"
    short = wants_short(environment)
    waiting: deque[tuple[int, str, str]] = deque()

    def golds() -> Iterator[tuple[Prompt, Completion]]:
        for row in range(len(dataset)):
            try:
                prompt = dataset[row]
            except RowError as error:
                report.failures.append(Failure(row, error.field, None, error.reason))
                continue
            report.whole_texts.extend((row, text) for text in (prose(environment, prompt)[:1] if short else ()))
            gold, advice = environment.gold(prompt), _audit(environment, prompt)
            if gold is None and dataset.config.golds != "all":
                if dataset[row].key == prompt.key:
                    report.without_gold += 1
                else:
                    report.failures.append(Failure(row, columns, None, "made twice, the row gives two prompts", advice))
                continue
            if gold is None:
                reason = "the environment can write no right answer for this row"
                report.failures.append(Failure(row, columns, None, reason, advice))
                continue
            waiting.append((row, gold, advice))
            yield prompt, Completion(text=gold, finish_reason="stop")

    for score in grader.stream(golds()):
        row, gold, advice = waiting.popleft()
        if score.reward != environment.reward_range[1]:
            report.failures.append(Failure(row, columns, gold, _reason(score), advice))
        elif advice:
            report.remarks.append(Failure(row, columns, gold, "it scores the maximum, but only as it is written", advice))
        on_row(row + 1)
    on_row(len(dataset))
    report.failures.sort(key=lambda failure: failure.row)
    return report


def _audit(environment: Environment, prompt: Prompt) -> str:
    """Ask the environment what is wrong with a reference. An audit that fails must not end the validation of all rows."""
    audit = getattr(environment, "audit", None)
    try:
        return (audit(prompt) if callable(audit) else None) or ""
    except Exception as error:
        return f"the audit failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _reason(score: Score) -> str:
    return f"{score.status.value}: {score.reason}" if score.reason else score.status.value
