"""A run's page for people: curves as PNG, sample completions as HTML."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

from verigym.trainer.logs import read_rows


def write_report(output: Path, title: str, summary: list[tuple[str, str]]) -> tuple[Path, Path]:
    """Write `curves.png` and `samples.html` from a run's logs, and return both paths.

    Args:
        output: the run's folder.
        title: heading of the page.
        summary: rows of the table at the top.
    """
    import jinja2

    rows = read_rows(output / "metrics.jsonl")
    curves = output / "curves.png"
    _draw(curves, [row for row in rows if row["kind"] == "train"], [row for row in rows if row["kind"] == "eval"])
    samples = [row for row in read_rows(output / "samples.jsonl") if row["kind"] == "eval"]
    shown = sorted({row["step"] for row in samples})
    shown = [shown[0], shown[-1]] if len(shown) > 1 else shown
    steps = [(step, [row for row in samples if row["step"] == step]) for step in reversed(shown)]
    # Completions are untrusted text: autoescape keeps their markup from becoming ours.
    template = importlib.resources.files("verigym.trainer").joinpath("report.html.j2").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True).from_string(template).render(title=title, summary=summary, steps=steps)
    path = output / "samples.html"
    path.write_text(page, encoding="utf-8", errors="replace")
    return curves, path


def _draw(path: Path, train: list[dict[str, Any]], held_out: list[dict[str, Any]]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    accuracy, reward, length = figure.subplots(1, 3)
    for name in sorted({key for row in held_out for key in row if key.endswith("accuracy")}):
        points = [(row["step"], row[name]) for row in held_out if name in row]
        label = name.removesuffix("/accuracy") if "/" in name else "all sources"
        accuracy.plot(*zip(*points, strict=True), label=label, linewidth=2.5 if "/" not in name else 1, marker=".")
    accuracy.set(title="held-out accuracy", ylim=(0, 1), xlabel="GRPO step")
    if held_out:
        accuracy.legend(fontsize="small")
    for axis, key, title in (
        (reward, "reward", "training reward (mean of 10 steps)"),
        (length, "completion_tokens", "completion length, tokens"),
    ):
        points = [(row["step"], row[key]) for row in train if key in row]
        means = [(points[i][0], _mean([value for _, value in points[max(0, i - 9) : i + 1]])) for i in range(len(points))]
        if means:
            axis.plot(*zip(*means, strict=True), linewidth=1.5)
        axis.set(title=title, xlabel="GRPO step")
    for axis in (accuracy, reward, length):
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=130)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
