"""The report of a run: training curves as PNG, sample completions as HTML."""

from __future__ import annotations

import importlib.resources
import math
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from verigym.trainer.monitoring.logs import stream_rows

TRAINING_SAMPLES = 8
"""Number of completions from the last training steps that the page shows, with their advantages."""
ALL = "all sources"
_DRAWN = frozenset(
    {"step", "accuracy", "reward", "completion_tokens", "sampled_nll", "turns", "malformed_calls"}
)  # of the whole run and, as SOURCE/NAME, of each source

MetricsRow = Mapping[str, Any]
Points = list[tuple[int, float]]


def write_report(output: Path, title: str, summary: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write `curves.png` and `samples.html` from a run's logs, and return both paths.

    Args:
        output: the run's folder.
        title: heading of the page.
        summary: rows of the table at the top.
    """
    import jinja2

    told = _told(output)
    train, held_out, warnings = _drawn_rows(output, told.components)
    curves, panels = output / "curves.png", _panels(train, held_out, told.components)
    _draw(curves, panels)
    steps = [(step, told.evaluations[step]) for step in reversed(told.evaluations)]
    # Completions are untrusted text: autoescape keeps their markup from becoming ours.
    template = importlib.resources.files("verigym.trainer.monitoring").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True).from_string(template)
    shown_parts = {"steps": steps, "training": told.training, "warnings": warnings, "drawn": ", ".join(panels)}
    path = output / "samples.html"
    path.write_text(page.render(title=title, summary=summary, **shown_parts), encoding="utf-8", errors="replace")
    return curves, path


class _Told(NamedTuple):
    """What the page shows of samples.jsonl."""

    training: list[MetricsRow]
    """The last samples of training."""
    evaluations: dict[int, list[MetricsRow]]
    """The samples of the first and the last evaluation, by step."""
    components: list[str]
    """SOURCE/COMPONENT of all samples. Components of components are left out: too many lines to tell apart."""


def _told(output: Path) -> _Told:
    training: deque[MetricsRow] = deque(maxlen=TRAINING_SAMPLES)
    evaluations: dict[int, list[MetricsRow]] = {}
    components = set()
    for row in stream_rows(output / "samples.jsonl"):
        components |= {f"{row['source']}/{name}" for name in row.get("components", ()) if "/" not in name}
        if row["kind"] == "train":
            training.append(row)
        elif row["kind"] == "eval":
            if row["step"] not in evaluations:
                for step in list(evaluations)[1:]:
                    del evaluations[step]
            evaluations.setdefault(row["step"], []).append(row)
    return _Told(list(training), evaluations, sorted(components))


def _drawn_rows(output: Path, components: Sequence[str]) -> tuple[list[MetricsRow], list[MetricsRow], list[MetricsRow]]:
    """Return the rows of training, of evaluations and of warnings; of the first two only the metrics that are drawn."""
    rows: dict[str, list[MetricsRow]] = {"train": [], "eval": [], "warning": []}
    wanted = frozenset(components)
    for row in stream_rows(output / "metrics.jsonl"):
        if row["kind"] == "warning":
            rows["warning"].append(row)
        elif row["kind"] in rows:
            drawn = {name: value for name, value in row.items() if name.rpartition("/")[2] in _DRAWN or name in wanted}
            rows[row["kind"]].append(drawn)
    return rows["train"], rows["eval"], rows["warning"]


def _draw(path: Path, panels: Mapping[str, Mapping[str, Points]]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6 * math.ceil(len(panels) / 3)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(math.ceil(len(panels) / 3), 3).flat)
    for axis, (title, lines) in zip(axes, panels.items(), strict=False):
        for label, points in lines.items():
            if points:
                axis.plot(
                    *zip(*points, strict=True),
                    label=label,
                    linewidth=2 if label == ALL else 1,
                    marker="." if len(points) < 50 else "",
                )
        axis.set(title=title, xlabel="GRPO step")
        axis.grid(alpha=0.3)
        if "accuracy" in title:
            axis.set_ylim(0, 1)
        if len(axis.lines) > 1:
            axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)  # below the lines
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.savefig(path, dpi=130)


def _panels(
    train: Sequence[MetricsRow], held_out: Sequence[MetricsRow], components: Sequence[str]
) -> dict[str, dict[str, Points]]:
    """Return the panels of the plot by title, each with its lines by label."""

    def smooth(name: str) -> Points:
        points = _points(train, name)
        return [(points[i][0], fmean(value for _, value in points[max(0, i - 9) : i + 1])) for i in range(len(points))]

    def by_source(rows: Sequence[MetricsRow], name: str) -> dict[str, str]:
        found = sorted({key for row in rows for key in row if key.endswith(f"/{name}")})
        return {ALL: name, **{key.removesuffix(f"/{name}"): key for key in found}}

    panels = {
        "held-out accuracy": {label: _points(held_out, name) for label, name in by_source(held_out, "accuracy").items()},
        "training reward (mean of 10 steps)": {label: smooth(name) for label, name in by_source(train, "reward").items()},
        "completion length, tokens": {ALL: smooth("completion_tokens")},
        "sampled NLL, nats a token": {ALL: smooth("sampled_nll")},
    }
    for title, name in (("turns of an episode", "turns"), ("malformed calls, share", "malformed_calls")):
        lines = {label: smooth(key) for label, key in by_source(train, name).items() if key != name}
        if lines:
            panels[title] = lines
    if components:
        panels["components of the reward (mean of 10 steps)"] = {name: smooth(name) for name in components}
    return panels


def _points(rows: Sequence[MetricsRow], name: str) -> Points:
    return [(row["step"], row[name]) for row in rows if row.get(name) is not None]
