"""A run's records: metrics.jsonl (numbers and warnings), samples.jsonl (readable completions), and trackers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any

from verigym.trainer.config.step_settings import StepSettings
from verigym.trainer.credit.training_row import TrainingRow
from verigym.trainer.distributed.world import SOLO, World
from verigym.trainer.monitoring.trackers import open_trackers
from verigym.trainer.rollout.collect import Group, gold_text


class RunLog:
    """The log files of a run: metrics, events and samples are appended to them.

    A resumed run first drops the lines after its checkpoint, so that each step is recorded once.

    Args:
        output: the run's folder.
        done_steps: number of the step at which the checkpoint was saved. If it is None, there is no checkpoint, and all lines
            are dropped.
        loggers: services that get the metrics besides the files.
        project: project name, for the loggers that have projects.
        config: the run's settings, for the loggers that show them.

    Raises:
        UsageError: the package of a logger is not installed.
    """

    def __init__(
        self,
        output: Path,
        done_steps: int | None,
        loggers: Sequence[str] = ("tensorboard",),
        project: str = "verigym",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        output.mkdir(parents=True, exist_ok=True)
        self._trackers = open_trackers(loggers, output, done_steps, project, config or {})
        self._paths = {"metrics": output / "metrics.jsonl", "samples": output / "samples.jsonl"}
        for path in self._paths.values():
            keep_until(path, -1 if done_steps is None else done_steps)
        self._files = {name: path.open("a", encoding="utf-8") for name, path in self._paths.items()}

    def metrics(self, step: int, kind: str, values: Mapping[str, float]) -> dict[str, Any]:
        """Record one step's metrics and return the row as written to metrics.jsonl; `kind` is train or eval."""
        row = {"step": step, "kind": kind, **{name: _digits(value) for name, value in values.items()}}
        self._write("metrics", row)
        for tracker in self._trackers:
            tracker.metrics(step, {f"{kind}/{name}": value for name, value in values.items()})
        return row

    def event(self, row: Mapping[str, Any]) -> None:
        """Record a row that is not metrics, such as a warning; `row` has `step` and `kind`."""
        self._write("metrics", row)

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of metrics.jsonl so far; a run of weeks has too many to hold at once."""
        return stream_rows(self._paths["metrics"])

    def samples(
        self, step: int, kind: str, groups: Sequence[Group], count: int, rows: Sequence[Sequence[TrainingRow]] | None = None
    ) -> None:
        """Record the first completion of up to `count` groups, spread over the sources.

        Args:
            step: number of finished steps.
            kind: train or eval.
            groups: completions with verdicts.
            count: most groups to record.
            rows: each group's training rows; if given, the completion's advantage (mean over its tokens) is recorded too.
        """
        by_source: dict[str, list[int]] = {}
        for number, group in enumerate(groups):
            by_source.setdefault(group.source, []).append(number)
        rounds = [number for row in zip_longest(*by_source.values()) for number in row if number is not None]
        for number in rounds[:count]:
            group, score = groups[number], groups[number].scores[0]
            row = {
                "step": step,
                "kind": kind,
                "source": group.source,
                "prompt": group.prompt.text,
                "gold": gold_text(group.prompt),
                "completion": group.texts[0],
                "finish_reason": group.generated[0].finish_reason,
                "tokens": group.generated[0].length,
                "reward": score.reward,
                "components": dict(score.components),
                "status": score.status.value,
                "reason": score.reason,
                "answer": score.answer,
            }
            if score.steps:
                row["steps"] = [step.model_dump(mode="json") for step in score.steps]
            if group.prompt.metadata:
                row["metadata"] = dict(group.prompt.metadata)
            if group.episodes:
                row["turns"] = [turn.model_dump(mode="json") for turn in group.episodes[0].turns]
            if rows is not None:
                row["advantage"] = _digits(fmean(rows[number][0].advantages))
            self._write("samples", row)

    def _write(self, name: str, row: Mapping[str, Any]) -> None:
        # A lone surrogate cannot be written as UTF-8; JSON escapes keep it readable.
        try:
            self._files[name].write(json.dumps(row) + "\n")
            self._files[name].flush()
        except OSError as error:
            error.filename = str(self._paths[name])  # which a write does not know
            raise

    def sync(self) -> None:
        """Wait until all rows are on the disk.

        Call this before a checkpoint, which must not be newer than the rows of its steps.
        """
        for file in self._files.values():
            os.fsync(file.fileno())

    def close(self) -> None:
        """Flush and close all files and loggers."""
        for file in self._files.values():
            file.close()
        for tracker in self._trackers:
            tracker.close()


class NoLog(RunLog):
    """The log of a process that is not the main one: it writes nothing."""

    def __init__(self) -> None:
        self._paths, self._files, self._trackers = {}, {}, []

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield nothing."""
        return iter(())

    def _write(self, name: str, row: Mapping[str, Any]) -> None:
        pass


def open_log(config: StepSettings, done_steps: int | None, world: World = SOLO) -> RunLog:
    """Return the log of a run or a stage. `done_steps` is the step of the checkpoint to resume from; None for a new run."""
    if not world.main:
        return NoLog()
    settings = config.model_dump(mode="json")
    return RunLog(config.output, done_steps, config.loggers, config.log_project, settings)


def _digits(value: float) -> float | None:
    """Return `value` rounded to six significant digits; None if it is nan or inf, which JSON does not have."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def score_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return metrics of the scores: the number of completions, and `source/component`, the mean of each component.

    A component that is absent or None in a score is left out of its mean.
    """
    values: dict[str, list[float]] = {}
    for group in groups:
        for score in group.scores:
            for name, value in score.components.items():
                if value is not None:
                    values.setdefault(f"{group.source}/{name}", []).append(value)
    return {
        "completions": float(sum(len(group.scores) for group in groups)),
        **{name: sum(found) / len(found) for name, found in sorted(values.items())},
    }


def keep_until(path: Path, step: int) -> None:
    """Drop the lines of `path` for steps after `step`, and a last line that a kill cut short."""
    if not path.exists():
        return
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in stream_rows(path) if row["step"] <= step)
    os.replace(temporary, path)


def stream_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the complete rows of `path`, a JSONL file that this module wrote, without reading it all at once."""
    with path.open("rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:  # only the last line can be cut short, even within a character
                return


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the complete rows of `path`, as `stream_rows` yields them."""
    return list(stream_rows(path))
