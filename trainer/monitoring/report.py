"""The report of a run: training curves as PNG, sample completions as HTML."""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from verigym.trainer.monitoring.logs import read_rows

TRAINING_SAMPLES = 8
"""Number of completions from the last training steps that the page shows, with their advantages."""
ALL = "all sources"

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

    rows = read_rows(output / "metrics.jsonl")
    train, held_out, warnings = ([row for row in rows if row["kind"] == kind] for kind in ("train", "eval", "warning"))
    every = read_rows(output / "samples.jsonl")
    samples = [row for row in every if row["kind"] == "eval"]
    training = [row for row in every if row["kind"] == "train"][-TRAINING_SAMPLES:]
    # Components of components are left out: too many lines to tell apart.
    parts = {f"{row['source']}/{name}" for row in every for name in row.get("components", ()) if "/" not in name}
    curves, panels = output / "curves.png", _panels(train, held_out, sorted(parts))
    _draw(curves, panels)
    shown = sorted({row["step"] for row in samples})
    shown = [shown[0], shown[-1]] if len(shown) > 1 else shown
    steps = [(step, [row for row in samples if row["step"] == step]) for step in reversed(shown)]
    # Completions are untrusted text: autoescape keeps their markup from becoming ours.
    template = importlib.resources.files("verigym.trainer.monitoring").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True).from_string(template)
    shown_parts = {"steps": steps, "training": training, "warnings": warnings, "drawn": ", ".join(panels)}
    path = output / "samples.html"
    path.write_text(page.render(title=title, summary=summary, **shown_parts), encoding="utf-8", errors="replace")
    return curves, path


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
