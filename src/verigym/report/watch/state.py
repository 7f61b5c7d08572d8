"""What a run's logs say at this moment."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from verigym.envs import UsageError
from verigym.envs.contract.errors import near_file
from verigym.report.record import number, text, whole
from verigym.report.rows import LogTail, read_json

RECENT = 10
"""Steps over which the last values are means."""
PACE = 20
"""Steps from which the time of a step is taken."""
ALARMS = 4
SAMPLES = 4
STALE_S = 120.0
"""The run may have stopped if its log has not grown for this many seconds, or for the time of ten steps if that is longer."""
SERIES = ("reward", "accuracy", "completion_tokens")
PHASES = ("generate", "grade_wait", "update", "sync", "evaluate", "checkpoint")


@dataclass(frozen=True, slots=True)
class Series:
    """The values of one metric over the steps, for one source, and the mean of the most recent values."""

    values: tuple[float | None, ...]
    last: float | None


@dataclass(frozen=True, slots=True)
class State:
    """The state of a run that `verigym watch` shows."""

    name: str
    step: int
    steps: int | None
    age_s: float | None
    """Seconds since the log was last written; None if there is no log yet."""
    step_s: float | None
    """Median wall time of the last steps in seconds, including a share of the time for evaluations and checkpoints."""
    finished: bool
    restarts: int
    unreadable: int
    sources: Mapping[str, Mapping[str, Series]] = field(default_factory=dict)
    """By source and metric; "" is the run as a whole."""
    held_out: tuple[tuple[int, float], ...] = ()
    """Steps and accuracy."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a step by phase, mean of the last steps."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Other metrics, mean of the last steps."""
    alarms: tuple[str, ...] = ()
    alarm_count: int = 0
    samples: tuple[Mapping[str, Any], ...] = ()

    @property
    def left_s(self) -> float | None:
        """Estimated seconds until the run's last step; None if unknown or finished."""
        if self.steps is None or self.step_s is None or self.finished:
            return None
        return max(0, self.steps - self.step) * self.step_s

    @property
    def stale(self) -> bool:
        """True if the log has not grown for so long that the run may have stopped."""
        return not self.finished and self.age_s is not None and self.age_s > max(STALE_S, 10 * (self.step_s or 0.0))


class RunWatcher:
    """Reads a run's logs as they grow."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._metrics = LogTail(folder / "metrics.jsonl")
        self._samples = LogTail(folder / "samples.jsonl")

    def read(self, now: float | None = None) -> State:
        """Read the new rows of the logs and return the run's state.

        Args:
            now: the current time in seconds since the epoch; by default the system's.
        """
        self._metrics.update()
        self._samples.update()
        del self._samples.rows[:-SAMPLES]  # the rest is never shown
        rows = [row for row in self._metrics.rows if isinstance(row.get("step"), int)]
        train = [row for row in rows if row.get("kind") == "train"]
        alarms = [row for row in rows if row.get("kind") == "warning"]
        steps = whole(read_json(self.folder / "config.json").get("steps"), 0) or None
        step = train[-1]["step"] if train else 0
        modified = self._metrics.modified
        return State(
            name=self.folder.resolve().name,
            step=step,
            steps=steps,
            age_s=None if modified is None else max(0.0, (time.time() if now is None else now) - modified),
            step_s=_pace(train),
            finished=steps is not None and step >= steps and (self.folder / "final").is_dir(),
            restarts=self._metrics.restarts,
            unreadable=self._metrics.unreadable,
            sources=_sources(train),
            held_out=tuple(
                (row["step"], value)
                for row in rows
                if row.get("kind") == "eval" and (value := number(row.get("accuracy"))) is not None
            ),
            phases=_means(train, {phase: f"{phase}_s" for phase in PHASES}, spread=True),
            numbers=_means(
                train, {name: name for name in ("sampled_nll", "kl", "clip_fraction", "grad_norm", "truncated", "unscored")}
            ),
            alarms=tuple(_alarm(row) for row in alarms[-ALARMS:]),
            alarm_count=len(alarms),
            samples=tuple(self._samples.rows),
        )


def find_run(folder: Path) -> Path:
    """Return the folder of the run to show: `folder` itself if it holds a run's log.

    Otherwise return the subfolder whose log was written last, or `folder` if no subfolder has a log.

    Raises:
        UsageError: there is no such folder.
    """
    if not folder.is_dir():
        if folder.is_file() and folder.name == "metrics.jsonl":
            return folder.parent
        raise UsageError(f"there is no folder {folder}{near_file(folder)}; expected the `output` of a run")
    if (folder / "metrics.jsonl").exists():
        return folder
    below = [path for path in folder.glob("*/metrics.jsonl")]
    return max(below, key=lambda path: os.stat(path).st_mtime).parent if below else folder


def _sources(train: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Series]]:
    names = dict.fromkeys(key.removesuffix("/unscored") for row in train[-RECENT:] for key in row if key.endswith("/unscored"))
    found: dict[str, dict[str, Series]] = {}
    for source in ("", *names):
        prefix = f"{source}/" if source else ""
        series = {}
        for metric in SERIES:
            values = tuple(number(row.get(prefix + metric)) for row in train)
            known = [value for value in values[-RECENT:] if value is not None]
            if any(value is not None for value in values):
                series[metric] = Series(values, fmean(known) if known else None)
        if series:
            found[source] = series
    return found


def _pace(train: Sequence[Mapping[str, Any]]) -> float | None:
    last = train[-PACE:]
    times = [value for row in last if (value := number(row.get("step_s"))) is not None]
    if not times:
        return None
    between = sum(number(row.get(name)) or 0.0 for row in last for name in ("evaluate_s", "checkpoint_s"))
    return median(times) + between / len(times)


def _means(train: Sequence[Mapping[str, Any]], names: Mapping[str, str], spread: bool = False) -> dict[str, float]:
    """Return means over the last steps; `spread` counts steps without a value as 0."""
    found = {}
    for shown, name in names.items():
        values = [value for row in train[-RECENT:] if (value := number(row.get(name))) is not None]
        if values:
            found[shown] = sum(values) / (min(RECENT, len(train)) if spread else len(values))
    return found


def _alarm(row: Mapping[str, Any]) -> str:
    return f"step {row['step']}: {text(row.get('name'))}: {text(row.get('seen'))}; {text(row.get('advice'))}"
