"""A run's folder: metrics.jsonl and samples.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from verigym.report.reading.inputs import Input
from verigym.report.record import (
    Fields,
    NotASample,
    Record,
    TextLimit,
    completion_texts,
    difficulty,
    identity,
    message_texts,
    number,
    raised_by_judge,
    score_texts,
    text,
    turn_texts,
    verdict,
    whole,
)
from verigym.report.rows import Lines, Row, read_json


def read_metrics(one: Input) -> list[Row]:
    """Return the rows of the metrics.jsonl of run `one`; unreadable lines are skipped and noted in `one.notes`."""
    lines = Lines(one.path / "metrics.jsonl")
    rows = [row for row in lines if isinstance(row.get("step"), int) and isinstance(row.get("kind"), str)]
    if lines.unreadable:
        one.notes.append(f"metrics.jsonl: {lines.unreadable:,} lines are no JSON objects and are left out")
    return rows


def run_samples(one: Input, place: int, metrics: Sequence[Row], limit: TextLimit, column: str | None) -> Iterator[Record]:
    """Yield the samples that a run has logged.

    Args:
        one: the input, a run.
        place: the input's number among the report's inputs.
        metrics: the run's rows of metrics.jsonl, which give the mean reward of each step.
        limit: cuts long texts.
        column: name of the metadata that holds a task's difficulty; None to look for `difficulty` or `level`.
    """
    means = {row["step"]: row for row in metrics if row["kind"] == "train"}
    path = one.path / "samples.jsonl"
    lines = Lines(path) if path.is_file() else ()
    left_out = 0
    for line in lines:
        try:
            yield _sample(line, place, means, limit, column)
        except NotASample:
            left_out += 1
    left_out += lines.unreadable if isinstance(lines, Lines) else 0
    if left_out:
        one.notes.append(f"samples.jsonl: {left_out:,} lines hold no sample and are left out")


def _sample(row: Row, place: int, means: Mapping[int, Row], limit: TextLimit, column: str | None) -> Record:
    status, reward = verdict(row)
    source, prompt, completion = text(row.get("source")), text(row.get("prompt")), text(row.get("completion"))
    kind, step, metadata = text(row.get("kind")), whole(row.get("step")), row.get("metadata")
    texts: Fields = {
        "prompt": message_texts(prompt, limit),
        **completion_texts(completion, row.get("steps"), limit),
        **score_texts(row, limit),
        "finish": text(row.get("finish_reason")),
    }
    if row.get("gold") is not None:
        texts["gold"] = limit.cut(text(row["gold"]))
    if turns := turn_texts(row.get("turns"), limit):
        texts["turns"] = turns
    if isinstance(metadata, Mapping) and metadata:
        texts["metadata"] = limit.cut(text(metadata))
    of_step = means.get(step, {}) if kind == "train" else {}
    return Record(
        input=place,
        kind=kind,
        source=source,
        status=status,
        reward=reward,
        prompt_id=identity(source, prompt),
        step=step,
        advantage=number(row.get("advantage")),
        tokens=whole(row.get("tokens")),
        characters=len(completion),
        difficulty=difficulty(metadata, column=column),
        expected=number(of_step.get(f"{source}/reward", of_step.get("reward"))),
        raised=raised_by_judge(row),
        texts=texts,
    )


def run_settings(folder: Path) -> Mapping[str, Any]:
    """Return the settings in `folder`/config.json; empty if there is no such file."""
    return read_json(folder / "config.json")
